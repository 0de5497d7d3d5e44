"""Compute of shares: what is put on one device stays within what its node lets them add up to.

Rule, for each GPU i of a node on which shares say their compute::

    sum_c compute_c * shares[n, c, i] <= compute left_i

``compute left`` is the node's limit (1000, more where it is oversubscribed) minus what shares that
stay have. Memory is what shares occupy (`constraints.shares`), and is never oversubscribed; where
no share says its compute, that rule is this one too, and nothing is added.

Reads ``shares``. As a reason users see it as ``gpu-fragmented`` or ``gpu-short``.
"""

from __future__ import annotations

from solver.cpsat.devices import Devices
from solver.cpsat.variables import Variables


def add_share_compute(variables: Variables, devices: Devices) -> None:
    """Add the rule on every GPU on which compute and memory are not the same parts."""
    for node in variables.busy_nodes:
        by_class = devices.shares.get(node.name, {})
        state = variables.state(node)
        if not state.extra_compute and not any(cls.shape.compute_milli for cls in by_class):
            continue
        for gpu in range(node.n_gpus):
            load = devices.load_compute_milli(variables, node, gpu)
            if not isinstance(load, int):
                left = state.compute_left(gpu, node.compute_limit_milli)
                variables.require(load, None, max(0, left))
