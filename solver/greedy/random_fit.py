"""Random: a node drawn uniformly from those that fit, and for a share a GPU drawn likewise.

References
----------
Random in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from random import Random

from solver.cluster import Node
from solver.fit import feasible_gpus, pick_gpus
from solver.greedy.scoring import Field, PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape

TRIES = 16
"""Nodes that are drawn blindly before those with room are listed."""


class RandomFit(PlacementPolicy):
    """The baseline that knows nothing; the same seed draws the same plan."""

    repeatable = False

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """The same everywhere: the draw decides."""
        return (0,)

    def pick(self, node: Node, state: NodeState, shape: Shape) -> tuple[int, ...] | None:
        """Whole GPUs by rule; for a share any GPU that has enough left."""
        if not shape.is_share:
            return pick_gpus(node, shape, state)
        feasible = feasible_gpus(node, shape, state)
        return (self._random.choice(feasible),) if feasible else None

    def choose(self, field: Field) -> int | None:
        """Any node that has room, each with the same chance.

        Drawing from all nodes until one has room is such a draw, and usually soon over. Where it
        is not, few or none have room, and the draw is from their list.
        """
        nodes = field.nodes
        if not nodes:
            return None
        for _ in range(TRIES):
            n = self._random.choice(nodes)
            if field.takes(n):
                return n
        groups = [members for _, _, members in field.candidates()]
        count = sum(map(len, groups))
        if not count:
            return None
        drawn = self._random.randrange(count)
        for members in groups:
            if drawn < len(members):
                return members[drawn]
            drawn -= len(members)
        return None
