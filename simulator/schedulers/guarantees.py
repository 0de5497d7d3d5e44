"""What units could claim by the quotas of the tree of queues, as things stand."""

from __future__ import annotations

from simulator.state import Cluster, Unit
from solver.queues import Member
from solver.workload import ResourceName


class Guarantees:
    """Quotas against what the draft of a cluster holds."""

    def __init__(self, cluster: Cluster) -> None:
        self._problem = cluster.problem
        self._ledger = cluster.draft.ledger
        self._tree = cluster.problem.queue_tree

    def covers(self, unit: Unit) -> bool:
        """Whether the unit's queue, or one above it, stays within its quota with the whole unit."""
        return any(self.fits(member, unit) for member in self._tree.path[unit.queue])

    def fits(self, member: Member, unit: Unit) -> bool:
        """Whether a member stays within its quota, of what it has one of, with the unit."""
        return bool(member.quota) and all(
            self._ledger.usage(member)[resource] + self._wish(unit, resource) <= quota
            for resource, quota in member.quota.items()
        )

    def lets_take(self, unit: Unit, queue: str) -> bool:
        """Whether the unit may take from a queue: where their branches part, that one is beyond.

        And the unit's own branch stays within its quota there.
        """
        if queue == unit.queue:
            return False
        own, other = self._tree.parting(unit.queue, queue)
        return self.fits(own, unit) and self._is_beyond(other)

    def _is_beyond(self, member: Member) -> bool:
        used = self._ledger.usage(member)["gpu_milli"]
        return used > member.quota.get("gpu_milli", 0)

    def _wish(self, unit: Unit, resource: ResourceName) -> int:
        return sum(
            self._problem.amount(role.shape, resource) * role.min_replicas
            for job in unit.jobs
            for role in job.roles
        )
