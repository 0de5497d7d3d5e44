"""Topology-aware: the GPU set that loses the least bandwidth, the gang in the smallest group.

A gang descends: one node, one NVLink domain, one group of each level outwards, and only then
anywhere, each time the smallest group that has room. Where it must span several, it fills those
that hold the most of it first, so that it spans few. A single replica goes where the best set of
GPUs left loses the least bandwidth (`topology.scoring.lost_gb_s`), among equals onto the node with
the fewest GPUs left: ``score = (-lost, -free milli-GPU)``. GPU sets are compared by
`topology.scoring.rank`: least lost bandwidth, then most in total, then the lowest numbers.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.fit import pick_least_lossy
from solver.greedy.scoring import PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape
from topology.scoring import lost_gb_s


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
        return pick_least_lossy(node, shape, state)
