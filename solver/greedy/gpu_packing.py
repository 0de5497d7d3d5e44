"""GPU packing: shared GPUs first, then nodes in use, idle nodes last.

For a replica without GPUs every node scores 0. For others, with k devices on the node:

* all devices idle: ``max(33 - k, k)``;
* otherwise take the feasible devices with least left; if j > 0 of them are idle:
  ``max(50 - j, 33)``;
* otherwise ``max(100 - trunc(sum over taken of trunc(left * 100 / 1000) / 10), 50)``.

References
----------
GpuPacking in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6, after Q. Weng et al., "MLaaS in the
Wild", NSDI 2022.
"""

from __future__ import annotations

from collections.abc import Sequence

from solver.cluster import GPU_MILLI, Node
from solver.fit import feasible_gpus
from solver.greedy.scoring import PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape


def gpu_packing_score(device_left: Sequence[int], feasible_left: Sequence[int], gpus: int) -> int:
    """Score of a node, 0 to 100.

    Parameters
    ----------
    device_left
        Thousandths left of each healthy device of the node.
    feasible_left
        The same for the devices that could serve the replica, in any order.
    gpus
        Devices that the replica takes; 0 where it needs none.

    Examples
    --------
    >>> gpu_packing_score([1000] * 8, [1000] * 8, 1)
    25
    >>> gpu_packing_score([300, 1000], [1000], 1)
    49
    >>> gpu_packing_score([300, 1000], [300, 1000], 1)
    97
    """
    if not gpus:
        return 0
    k = len(device_left)
    if all(left == GPU_MILLI for left in device_left):
        return max(33 - k, k)
    taken = sorted(feasible_left)[:gpus]
    idle = sum(left == GPU_MILLI for left in taken)
    if idle:
        return max(50 - idle, 33)
    return max(100 - sum(left * 100 // GPU_MILLI for left in taken) // 10, 50)


class GpuPacking(PlacementPolicy):
    """Keep idle nodes and idle GPUs for those who need them whole."""

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the less idle the GPUs that would be taken."""
        feasible = [state.gpu_left[gpu] for gpu in feasible_gpus(node, shape, state)]
        devices = [state.gpu_left[gpu] for gpu in node.usable_gpus]
        gpus = 1 if shape.is_share else shape.gpus
        return (gpu_packing_score(devices, feasible, gpus),)
