"""First fit: the first node, in the order of the nodes, that takes the replica."""

from __future__ import annotations

from solver.cluster import Node
from solver.greedy.scoring import PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape


class FirstFit(PlacementPolicy):
    """All nodes are equally good, so the tie-break decides: ``score = 0``."""

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """The same everywhere."""
        return (0,)
