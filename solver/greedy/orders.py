"""In which order work is offered to the cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from solver.ledger import Ledger
from solver.problem import Problem
from solver.workload import Job


class Item(Protocol):
    """Something that is placed as one: the minimums that start together, or one replica."""

    @property
    def job(self) -> Job:
        """The job that decides the item's place in the order."""
        ...


ItemT = TypeVar("ItemT", bound=Item)


class Order(ABC):
    """Who comes next.

    Work of one level is placed as a whole before that of the next: first its minimums, then what
    elastic jobs take beyond theirs.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    @abstractmethod
    def rank(self, job: Job) -> tuple[int, ...]:
        """The job's place among the others; lower is earlier."""

    def level(self, job: Job) -> int:
        """The job's level; lower is earlier. By default all are of one level."""
        return 0

    def sequence(self, items: Iterable[ItemT], ledger: Ledger) -> Iterator[ItemT]:
        """The items of one level, one by one; what queues use may have changed in between."""
        return iter(sorted(items, key=lambda item: self.rank(item.job)))


class PriorityOrder(Order):
    """Highest priority first, within one priority in order of arrival: the spec's own order."""

    def rank(self, job: Job) -> tuple[int, ...]:
        """Priority, then arrival."""
        return (-job.priority, self._problem.position[job.name])

    def level(self, job: Job) -> int:
        """One level per priority."""
        return -job.priority


class ArrivalOrder(Order):
    """First come, first served, whatever the priority; who does not fit is passed over."""

    def rank(self, job: Job) -> tuple[int, ...]:
        """Arrival alone."""
        return (self._problem.position[job.name],)
