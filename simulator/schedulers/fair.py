"""DRF over time: the queue with the least dominant share, over its weight, is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.orders import claim_of, first_come
from simulator.past_use import PastUse
from simulator.schedulers.line import LineScheduler
from simulator.state import Cluster, Unit
from simulator.waiting import Key
from solver.fair_order import poorest


class FairScheduler(LineScheduler):
    """Progressive filling (Ghodsi et al., NSDI 2011, algorithm 1); who does not fit is passed over.

    Of nested queues, level by level (`solver.fair_order`). Where the scenario has a half life, what
    queues have used moves their weights (`solver.queues`).
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, first_come(cluster.scenario))
        self._claim = claim_of(cluster.scenario)
        self._tree = cluster.problem.queue_tree
        self._past = PastUse(cluster.scenario) if cluster.scenario.half_life_ms else None
        self._weights: dict[str, float] | None = None

    def round(self) -> None:
        """Look at what was used until now, then start who can."""
        if self._past is None:
            super().round()
            return
        self._past.advance(self.cluster.now_ms)
        self._weights = self._past.weights()
        super().round()
        self._past.hold(self.cluster.held_milli)

    def turns(self) -> Iterator[Unit]:
        """Ask the ledger again before every unit."""
        while heads := list(self.line.open_heads()):
            yield self.next_of(heads)

    def next_of(self, heads: Sequence[tuple[Key, Unit]]) -> Unit:
        """The first unit of the poorest queue among the heads of the lanes."""
        first = min(self._claim(unit.life.arrival) for _, unit in heads)
        heads = [head for head in heads if self._claim(head[1].life.arrival) == first]
        waiting = {unit.queue for _, unit in heads}
        share = self.cluster.draft.ledger.dominant_share
        queue = poorest(self._tree, waiting, share, self._weights)
        mine = [head for head in heads if head[1].queue == queue]
        return min(mine, key=lambda head: head[0])[1]
