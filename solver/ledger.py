"""What every queue uses while a plan is being made, and whether its limits allow more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from solver.fair_share import held_by_queue
from solver.metrics import dominant_share, member_usage
from solver.problem import Problem
from solver.queues import Member
from solver.workload import RESOURCES, Queue, ResourceName, Shape

Amounts = Mapping[ResourceName, int]


class Ledger:
    """Usage by queue, with the running work in it.

    A limit binds a queue together with all queues below it.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._used = held_by_queue(problem, problem.running)
        self._limited = {
            queue.name: [q for q in _ancestry(problem, queue) if q.limit]
            for queue in problem.queues
        }
        self._named = {
            name: tuple(queue.name for queue in above) for name, above in self._limited.items()
        }
        self._total: dict[str, dict[ResourceName, int]] = {
            queue.name: dict.fromkeys(RESOURCES, 0) for queue in problem.queues
        }
        for queue in problem.queues:
            for above in self._limited[queue.name]:
                for resource in RESOURCES:
                    self._total[above.name][resource] += self._used[queue.name][resource]
        self._by_shape: dict[Shape, Amounts] = {}

    def copy(self) -> Ledger:
        """The same usage, which goes its own way from here."""
        shared = {id(part): part for part in (self._problem, self._limited, self._by_shape)}
        return deepcopy(self, shared)

    def amounts(self, shape: Shape) -> Amounts:
        """What one replica of the shape counts for."""
        if shape not in self._by_shape:
            self._by_shape[shape] = {r: self._problem.amount(shape, r) for r in RESOURCES}
        return self._by_shape[shape]

    def allows(self, queue: str, amounts: Amounts) -> bool:
        """Whether the limits of the queue and of those above it leave room for so much more.

        A resource of which nothing is asked is never in the way, even where its limit is
        exceeded already.
        """
        return all(
            not amounts[resource] or self._total[above.name][resource] + amounts[resource] <= limit
            for above in self._limited[queue]
            for resource, limit in above.limit.items()
        )

    def add(self, queue: str, shape: Shape, replicas: int = 1) -> None:
        """Book replicas on a queue; a negative number takes them back."""
        for resource, amount in self.amounts(shape).items():
            self._used[queue][resource] += replicas * amount
            for above in self._limited[queue]:
                self._total[above.name][resource] += replicas * amount

    def limited(self, queue: str) -> Sequence[str]:
        """The queue itself and those above it, of which any has a limit."""
        return self._named[queue]

    def promise(self, queue: str, resource: ResourceName, amount: int) -> None:
        """Book an amount on the limits of a limited queue alone; a negative one takes it back."""
        self._total[queue][resource] += amount

    def used_below(self, queue: str, resource: ResourceName) -> int:
        """What a limited queue uses together with all queues below it."""
        return self._total[queue][resource]

    def usage(self, member: Member) -> Amounts:
        """What the queues of a member use together."""
        return member_usage(member, self._used)

    def dominant_share(self, member: Member) -> float:
        """The largest of a member's shares of the cluster over resources, from 0 to 1."""
        return dominant_share(self._problem, self.usage(member))


def _ancestry(problem: Problem, queue: Queue) -> list[Queue]:
    """The queue and those above it."""
    chain: list[Queue] = []
    above: Queue | None = queue
    while above is not None and above not in chain:
        chain.append(above)
        above = problem.queue_by_name[above.parent] if above.parent else None
    return chain
