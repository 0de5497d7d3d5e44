"""Worst fit: the node on which the most is left; the load spreads evenly.

``score = trunc(100 * ((c - pc) / C * 0.5 + (u - pg) / G * 0.5))``, the mirror of best fit: c, u
are what the node has left of CPU and GPUs, pc, pg what the replica takes, C, G the largest node's
amounts. Kubernetes calls it LeastAllocated.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import Demand, PlacementPolicy, Scale, Score, ratio
from solver.state import NodeState
from solver.workload import Shape


def worst_fit_score(cpu_left: int | None, gpu_milli_left: int, demand: Demand, scale: Scale) -> int:
    """Score of a node, 0 (nothing is left) to 100 (all is).

    Examples
    --------
    >>> worst_fit_score(68_000, 3_000, Demand(4_000, 1, 1_000), Scale(128_000, 8_000))
    37
    """
    cpu_after = None if cpu_left is None else cpu_left - demand.cpu_milli
    gpu_after = gpu_milli_left - demand.total_gpu_milli
    left = ratio(cpu_after, scale.cpu_milli) * 0.5 + ratio(gpu_after, scale.gpu_milli) * 0.5
    return int(100 * left)


class WorstFit(PlacementPolicy):
    """Go where most is free."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the more is left afterwards."""
        demand = Demand.on(node, shape)
        return (worst_fit_score(state.cpu_left, state.free_milli, demand, self._scale),)
