"""Best fit: the node on which the least is left.

``score = trunc(100 * (1 - ((c - pc) / C * 0.5 + (u - pg) / G * 0.5)))``

with c, u the node's milli-CPU and milli-GPU left before placing, pc, pg the replica's demand, and
C, G the largest node's amounts. Published implementations then stretch the scores linearly to
0..100 over the nodes that fit, which does not change their order; the truncation to integers does
matter, because it makes ties, which go to the first node.

References
----------
BestFit in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import Demand, PlacementPolicy, Scale, Score, ratio
from solver.state import NodeState
from solver.workload import Shape


def best_fit_score(cpu_left: int | None, gpu_milli_left: int, demand: Demand, scale: Scale) -> int:
    """Score of a node, 0 (all is left) to 100 (nothing is).

    Examples
    --------
    Half of the CPU and a quarter of the GPUs of the largest node would be left:

    >>> best_fit_score(68_000, 3_000, Demand(4_000, 1, 1_000), Scale(128_000, 8_000))
    62
    """
    cpu_after = None if cpu_left is None else cpu_left - demand.cpu_milli
    gpu_after = gpu_milli_left - demand.total_gpu_milli
    left = ratio(cpu_after, scale.cpu_milli) * 0.5 + ratio(gpu_after, scale.gpu_milli) * 0.5
    return int(100 * (1 - left))


class BestFit(PlacementPolicy):
    """Fill up the node that is nearly full already."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the less is left afterwards."""
        demand = Demand.on(node, shape)
        return (best_fit_score(state.cpu_left, state.free_milli, demand, self._scale),)
