"""Topology-aware: the GPU set that loses the least bandwidth, the gang in the smallest group.

A gang descends: one node, one NVLink domain, one group of each level outwards, and only then
anywhere, each time the smallest group that has room. Where it must span several, it fills those
that hold the most of it first, so that it spans few. A single replica goes where the best set of
GPUs left loses the least bandwidth (`topology.scoring.lost_gb_s`), among equals onto the node with
the fewest GPUs left: ``score = (-lost, -free milli-GPU)``. GPU sets are compared by
`topology.scoring.rank`: least lost bandwidth, then most in total, then the lowest numbers.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

from solver.cluster import Node
from solver.fit import idle_allowed, pick_gpus
from solver.greedy.scoring import PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import LinkRule, Shape
from topology.graph import NodeTopology
from topology.scoring import GpuSet, is_linked, lost_gb_s, rank


@lru_cache(maxsize=65536)
def least_lossy_set(
    topology: NodeTopology, idle: GpuSet, size: int, *, linked: bool
) -> GpuSet | None:
    """The set of `size` idle GPUs that loses the least bandwidth.

    Parameters
    ----------
    linked
        Look only at sets that are connected over NVLink.

    Returns
    -------
    tuple of int or None
        None where there is no such set.
    """
    if len(idle) < size or (linked and topology.is_uniform and not topology.islands):
        return None
    if topology.is_uniform:
        return idle[:size]
    sets = combinations(idle, size)
    if linked:
        sets = (gpus for gpus in sets if is_linked(topology, gpus))  # type: ignore[assignment]
    return min(sets, key=lambda gpus: rank(topology, gpus), default=None)


class TopologyAware(PlacementPolicy):
    """Neighbours first."""

    inside_out = True

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Least bandwidth lost, then least GPU left."""
        gpus = self.pick(node, state, shape) or ()
        lost = lost_gb_s(node.topology, gpus) if len(gpus) > 1 else 0
        return (-lost, -state.free_milli)

    def pick(self, node: Node, state: NodeState, shape: Shape) -> tuple[int, ...] | None:
        """The GPU set that ranks best; shares by rule."""
        if shape.gpus < 2:
            return pick_gpus(node, shape, state)
        idle = idle_allowed(node, shape, state)
        if shape.link is not LinkRule.NONE:
            linked = least_lossy_set(node.topology, idle, shape.gpus, linked=True)
            if linked is not None or shape.link is LinkRule.REQUIRED:
                return linked
        return least_lossy_set(node.topology, idle, shape.gpus, linked=False)
