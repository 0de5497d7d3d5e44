"""Dot product: the node whose leftover, as a vector, has the least to do with the demand.

``score = trunc(100 * (1 - ((c/C)(pc/C) + (u/G)(pg/G)) / 2))``

with c, u the node's milli-CPU and milli-GPU left before placing, pc, pg the replica's demand, and
C, G the largest node's amounts. As published: the smaller product wins, which prefers nodes
with little left of what the replica needs.

References
----------
DotProd in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6, after R. Grandl et al.,
"Multi-resource Packing for Cluster Schedulers", SIGCOMM 2014.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import Demand, PlacementPolicy, Scale, Score, ratio
from solver.state import NodeState
from solver.workload import Shape


def dot_product_score(
    cpu_left: int | None, gpu_milli_left: int, demand: Demand, scale: Scale
) -> int:
    """Score of a node, 0 (empty largest node and a replica that fills it) to 100.

    Examples
    --------
    >>> dot_product_score(64_000, 8_000, Demand(64_000, 4, 1_000), Scale(128_000, 8_000))
    62
    """
    cpu = ratio(cpu_left, scale.cpu_milli) * ratio(demand.cpu_milli, scale.cpu_milli)
    gpu = ratio(gpu_milli_left, scale.gpu_milli) * ratio(demand.total_gpu_milli, scale.gpu_milli)
    return int(100 * (1 - (cpu + gpu) / 2))


class DotProduct(PlacementPolicy):
    """Keep away from nodes that have much of what the replica needs."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the smaller the product of leftover and demand."""
        demand = Demand.on(node, shape)
        return (dot_product_score(state.cpu_left, state.free_milli, demand, self._scale),)
