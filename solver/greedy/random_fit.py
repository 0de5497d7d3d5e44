"""Random: a node drawn uniformly from those that fit, and for a share a GPU drawn likewise.

References
----------
Random in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from solver.cluster import Node
from solver.fit import feasible_gpus, pick_gpus
from solver.greedy.scoring import Candidate, PlacementPolicy, Score
from solver.state import NodeState
from solver.workload import Shape


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

    def choose(self, candidates: Iterable[Candidate]) -> int | None:
        """Any node, each with the same chance."""
        groups = [nodes for _, _, nodes in candidates]
        count = sum(map(len, groups))
        if not count:
            return None
        drawn = self._random.randrange(count)
        for nodes in groups:
            if drawn < len(nodes):
                return nodes[drawn]
            drawn -= len(nodes)
        return None
