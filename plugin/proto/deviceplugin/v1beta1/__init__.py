"""Messages and services of the kubelet, generated from the ``.proto`` files beside them."""
