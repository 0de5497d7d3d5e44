"""A kubelet's device manager in Python: what a plugin meets, without a cluster."""
