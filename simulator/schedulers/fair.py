"""DRF over time: the queue with the least dominant share, over its weight, is next."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.orders import claim_of, first_come
from simulator.schedulers.line import LineScheduler
from simulator.state import Cluster, Unit


class FairScheduler(LineScheduler):
    """Progressive filling (Ghodsi et al., NSDI 2011, algorithm 1); who does not fit is passed over.

    Queues of weight 0 come after all others; ties go to the queue named first.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, first_come(cluster.scenario))
        self._claim = claim_of(cluster.scenario)
        self._place = {queue.name: n for n, queue in enumerate(cluster.scenario.queues)}
        self._weight = {queue.name: queue.weight for queue in cluster.scenario.queues}

    def turns(self) -> Iterator[Unit]:
        """Ask the ledger again before every unit."""
        while heads := list(self.line.open_heads()):
            shares = {unit.queue for _, unit in heads}
            poverty = {queue: self._poverty(queue) for queue in shares}
            yield min(
                heads,
                key=lambda head: (
                    self._claim(head[1].life.arrival),
                    poverty[head[1].queue],
                    head[0],
                ),
            )[1]

    def _poverty(self, queue: str) -> tuple[bool, float, int]:
        weight = self._weight[queue]
        share = self.cluster.draft.ledger.dominant_share(queue)
        return (weight == 0, share / (weight or 1), self._place[queue])
