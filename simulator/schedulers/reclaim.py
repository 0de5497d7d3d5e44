"""Quota reclaim: fair shares in the order, and who is under its guarantee takes it back.

A unit that finds no room may stop work of those that hold more than their quota, if its own queue
stays within its quota with the whole unit. In the tree of queues both are looked at where their
branches part: there the claimant's branch stays within its quota, and the other's is beyond its
own. So nobody is pushed below what it is guaranteed but by the last gang that reaches beyond it;
and what the unit holds is within its guarantee, so nobody takes it back.
"""

from __future__ import annotations

from simulator.lives import Life
from simulator.schedulers.fair import FairScheduler
from simulator.schedulers.surplus import MayTake
from simulator.schedulers.victims import fewest_of, may_be_stopped
from simulator.state import Cluster, Unit
from solver.queues import Member
from solver.workload import ResourceName


class ReclaimScheduler(FairScheduler):
    """DRF with reclaim; the lowest priority is stopped first, among equals who loses least."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.preempts = True
        self._at_ms = -1
        self._claimed: set[str] = set()

    def attempt(self, unit: Unit) -> bool:
        """Start a unit in free room, in surplus, or in what others have borrowed."""
        if self.attempt_alone(unit):
            return True
        if self._at_ms != self.cluster.now_ms:
            self._at_ms = self.cluster.now_ms
            self._claimed.clear()
        # Once at a moment, so that every moment ends.
        if unit.life.name in self._claimed or not self._stays_within(unit, unit.queue):
            return False
        victims = self._borrowers(unit)
        for victim in victims:
            self.cluster.evict(victim)
            self.line.add(Unit((victim,), lane=-1 - victim.order))
        if not victims:
            return False
        self._claimed.add(unit.life.name)
        return self.cluster.start(unit)

    def _may_take(self, unit: Unit) -> MayTake:
        return lambda _: True

    def _stays_within(self, unit: Unit, queue: str) -> bool:
        return self._fits(self._tree.own(queue), unit)

    def _fits(self, member: Member, unit: Unit) -> bool:
        """Whether a member stays within its quota, of what it has one of, with the unit."""
        if not member.quota:
            return False
        return all(
            self._used(member, resource) + self._wish(unit, resource) <= quota
            for resource, quota in member.quota.items()
        )

    def _borrowers(self, unit: Unit) -> list[Life]:
        mine = self._tree.path[unit.queue]

        def may_go(life: Life) -> bool:
            theirs = self._tree.path[life.arrival.job.queue]
            for own, other in zip(mine, theirs, strict=False):
                if own is not other:
                    return self._fits(own, unit) and self._is_beyond(other)
            return False

        candidates = may_be_stopped(self.cluster)
        candidates.sort(
            key=lambda life: (life.arrival.job.priority, life.would_lose_gpu_ms(), -life.order)
        )
        return fewest_of(self.cluster, unit, candidates, may_go)

    def _is_beyond(self, member: Member) -> bool:
        """Whether it holds more GPUs than it is guaranteed."""
        return self._used(member, "gpu_milli") > member.quota.get("gpu_milli", 0)

    def _used(self, member: Member, resource: ResourceName) -> int:
        return self.cluster.draft.ledger.usage(member)[resource]

    def _wish(self, unit: Unit, resource: ResourceName) -> int:
        problem = self.cluster.problem
        return sum(
            problem.amount(role.shape, resource) * role.min_replicas
            for job in unit.jobs
            for role in job.roles
        )
