"""Who has borrowed how much of whose quota."""

from __future__ import annotations

from collections.abc import Mapping

from solver import metrics
from solver.problem import Problem
from solver.queues import Member, QueueTree
from solver.workload import ResourceName

Loans = dict[str, dict[str, int]]
"""Borrower to lender to amount, by name of queue."""


def loans(
    problem: Problem, used: metrics.Usage, resource: ResourceName = "gpu_milli"
) -> Mapping[str, Mapping[str, int]]:
    """What queues use beyond their quota, by the queues whose unused quota it comes from.

    From the bottom of the tree up: a queue borrows from its own family first, and what the family
    cannot lend is borrowed, by all of it, from the next one. Within a family lenders and borrowers
    are served in order of name. What no quota covers is nobody's and is not listed, nor is
    what a queue without any quota holds.
    """
    book = _Book(problem.queue_tree, used, resource)
    book.settle(None)
    return book.loans


class _Book:
    def __init__(self, tree: QueueTree, used: metrics.Usage, resource: ResourceName) -> None:
        self._tree = tree
        self._used = used
        self._resource = resource
        self.loans: Loans = {queue.name: {} for queue in tree.queues}

    def settle(self, head: str | None) -> tuple[dict[str, int], dict[str, int]]:
        """Write down the loans of a family; what it still needs, and could still lend, by queue."""
        sides = [self._sides(member) for member in self._tree.families[head]]
        needs = sorted((n, place) for place, (need, _) in enumerate(sides) for n in need)
        spares = sorted((n, place) for place, (_, spare) in enumerate(sides) for n in spare)
        for borrower, mine in needs:
            for lender, other in spares:
                loan = min(sides[mine][0][borrower], sides[other][1][lender])
                if mine != other and loan:
                    sides[mine][0][borrower] -= loan
                    sides[other][1][lender] -= loan
                    book = self.loans[borrower]
                    book[lender] = book.get(lender, 0) + loan
        return (
            {name: sides[place][0][name] for name, place in needs},
            {name: sides[place][1][name] for name, place in spares},
        )

    def _sides(self, member: Member) -> tuple[dict[str, int], dict[str, int]]:
        """What a member needs from others and could lend to them, by queue."""
        quota = member.quota.get(self._resource, 0)
        used = metrics.member_usage(member, self._used)[self._resource]
        beyond, unused = max(0, used - quota), max(0, quota - used)
        if member.is_own or member.name not in self._tree.families:
            queue = member.queues[0]
            return {queue: beyond if quota else 0}, {queue: unused}
        needs, spares = self.settle(member.name)
        return _at_most(needs, beyond), _at_most(spares, unused)


def _at_most(amounts: Mapping[str, int], most: int) -> dict[str, int]:
    """The amounts, cut so that they add up to no more than this."""
    cut: dict[str, int] = {}
    for name, amount in amounts.items():
        cut[name] = min(amount, most)
        most -= cut[name]
    return cut
