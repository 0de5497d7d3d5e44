"""Dominant fit: the node whose most plentiful leftover is smallest.

``score = -max((c - pc) / C, (u - pg) / G, (m - pm) / M)``

over CPU, GPUs and memory: what would be left of each, as a part of the largest node's amount. Best
fit adds the leftovers up; this looks only at the dominant one, so a node with much of
one resource stays open for work that needs it. It takes the idea of the dominant share (Ghodsi et
al., "Dominant Resource Fairness", NSDI 2011) over to packing.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import Demand, PlacementPolicy, Scale, Score, ratio
from solver.state import NodeState
from solver.workload import Shape


def dominant_leftover_ratio(
    cpu_left: int | None,
    gpu_milli_left: int,
    memory_left: int | None,
    demand: Demand,
    scale: Scale,
) -> float:
    """The largest leftover over the resources, 0 to 1; resources without a limit do not count.

    Examples
    --------
    >>> demand, scale = Demand(4_000, 1, 1_000), Scale(128_000, 8_000)
    >>> dominant_leftover_ratio(68_000, 3_000, None, demand, scale)
    0.5
    """
    cpu_after = None if cpu_left is None else cpu_left - demand.cpu_milli
    memory_after = None if memory_left is None else memory_left - demand.memory_mib
    return max(
        ratio(cpu_after, scale.cpu_milli),
        ratio(gpu_milli_left - demand.total_gpu_milli, scale.gpu_milli),
        ratio(memory_after, scale.memory_mib),
    )


class DominantFit(PlacementPolicy):
    """Use up what the node has most of."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the smaller the dominant leftover."""
        return (
            -dominant_leftover_ratio(
                state.cpu_left,
                state.free_milli,
                state.memory_left,
                Demand.on(node, shape),
                self._scale,
            ),
        )
