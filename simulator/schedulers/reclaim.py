"""Quota reclaim: fair shares in the order, and who is under its guarantee takes it back.

Units with which their queue stays within its quota come first. One that finds no room may stop
work of those that hold more than their quota. In the tree of queues both are looked at where their
branches part: there the claimant's branch stays within its quota, and the other's is beyond its
own. So nobody is pushed below what it is guaranteed but by the last gang that reaches beyond it;
what the unit holds is within its guarantee, so nobody takes it back; and what has started at a
moment is not stopped at the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.lives import Life
from simulator.schedulers.fair import FairScheduler
from simulator.schedulers.guarantees import Guarantees
from simulator.schedulers.surplus import MayTake
from simulator.schedulers.victims import fewest_of, may_be_stopped
from simulator.state import Cluster, Unit
from simulator.waiting import Key


class ReclaimScheduler(FairScheduler):
    """DRF with reclaim; the lowest priority is stopped first, among equals who loses least."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.preempts = True
        self._guarantees = Guarantees(cluster)
        self._standing: frozenset[str] = frozenset()

    def round(self) -> None:
        """Only what ran before this moment may be stopped."""
        self._standing = frozenset(self.cluster.running)
        super().round()

    def next_of(self, heads: Sequence[tuple[Key, Unit]]) -> Unit:
        """Guarantees come before shares."""
        covered = [head for head in heads if self._guarantees.covers(head[1])]
        return super().next_of(covered or heads)

    def attempt(self, unit: Unit) -> bool:
        """Start a unit in free room, in surplus, or in what others have borrowed."""
        if self.attempt_alone(unit):
            return True
        if not self._guarantees.covers(unit):
            return False
        victims = self._borrowers(unit)
        for victim in victims:
            self.cluster.evict(victim)
            self.line.add(Unit((victim,), lane=-1 - victim.order))
        return bool(victims) and self.cluster.start(unit)

    def _may_take(self, unit: Unit) -> MayTake:
        return lambda _: True

    def _borrowers(self, unit: Unit) -> list[Life]:
        candidates = [life for life in may_be_stopped(self.cluster) if life.name in self._standing]
        candidates.sort(
            key=lambda life: (life.arrival.job.priority, life.would_lose_gpu_ms(), -life.order)
        )
        return fewest_of(
            self.cluster,
            unit,
            candidates,
            lambda life: self._guarantees.lets_take(unit, life.arrival.job.queue),
        )
