"""The Kubernetes device plugin: this node's GPUs, their instances and shares, for the kubelet."""
