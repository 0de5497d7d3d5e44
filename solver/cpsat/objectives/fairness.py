"""Fairness: lexicographic max-min of weighted surplus shares.

Let y_q be the surplus share of queue q over its weight, in millionths, counted no further than its
entitlement (`solver.metrics.fairness_vector`). The sum of the k smallest shares is::

    max over t of  k * t - sum_q max(0, t - y_q)

(for k = 1 that is the least of them, for k = n their sum), and maximising it for k = 1, 2, …, n in
turn is the lexicographic max-min (Ogryczak and Sliwinski, "On solving linear programs with the
ordered weighted averaging objective", EJOR 2003).
"""

from __future__ import annotations

from functools import partial
from math import gcd

from ortools.sat.python import cp_model

from solver import metrics
from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.linear import LARGEST, Expr, NumbersTooLargeError, total, weighted
from solver.metrics import SHARE_SCALE
from solver.workload import RESOURCES, ResourceName


class FairShares:
    """The shares y of the competing queues at one priority level, created when first needed."""

    def __init__(self, variables: Variables, entitled: metrics.Entitlements) -> None:
        self._variables = variables
        self._entitled = entitled
        self._shares: dict[int | None, dict[str, Expr]] = {}

    def smallest(self, rank: int, level: int | None) -> Expr:
        """Sum of the `rank` smallest shares, counting work of priority `level` and above."""
        variables = self._variables
        shares = self._at(level)
        if rank == len(shares):
            return total(shares.values())
        name = f"fair[{level},{rank}]"
        top = variables.integer(
            name, 0, self._highest, lambda view: self._vector(view, level)[rank - 1]
        )
        if rank == 1:
            for share in shares.values():
                variables.require(weighted([(top, 1), (share, -1)]), None, 0)
            return top
        terms: list[tuple[Expr, int]] = [(top, rank)]
        for queue, share in shares.items():
            lack = variables.integer(
                f"{name}-{queue}",
                0,
                self._highest,
                partial(self._lack, queue=queue, level=level, rank=rank),
            )
            variables.require(weighted([(lack, 1), (share, 1), (top, -1)]), 0, None)
            terms.append((lack, -1))
        return weighted(terms)

    @property
    def _highest(self) -> int:
        return 2 * SHARE_SCALE

    def _vector(self, view: PlanView, level: int | None) -> tuple[int, ...]:
        return tuple(sorted(self._value(view, q, level) for q in self._at(level)))

    def _lack(self, view: PlanView, queue: str, level: int | None, rank: int) -> int:
        top = self._vector(view, level)[rank - 1]
        return max(0, top - self._value(view, queue, level))

    def _cap(self, queue: str) -> int:
        return metrics.surplus_share(self._variables.problem, self._entitled[queue], queue)

    def _value(self, view: PlanView, queue: str, level: int | None) -> int:
        return min(self._cap(queue), self._dominant(view, queue, level))

    def _dominant(self, view: PlanView, queue: str, level: int | None) -> int:
        used = self._used(view, level)[queue]
        return metrics.surplus_share(view.problem, used, queue)

    def _used(self, view: PlanView, level: int | None) -> metrics.Usage:
        return view.remember(
            ("usage", level), lambda: metrics.usage(view.problem, view.plan, from_priority=level)
        )

    def _at(self, level: int | None) -> dict[str, Expr]:
        if level not in self._shares:
            queues = metrics.competing_queues(self._variables.problem)
            self._shares[level] = {queue: self.share(queue, level) for queue in queues}
        return self._shares[level]

    def share(self, queue_name: str, level: int | None) -> Expr:
        """At most the cap, and at most the scaled share of one resource, which the solver picks.

        Shares are maximised, so it picks the dominant one; where the queue stays within its quota
        of everything it picks none, and the share is 0.
        """
        variables = self._variables
        problem = variables.problem
        queue = problem.queue_by_name[queue_name]
        name = f"share[{queue_name},{level}]"
        share = variables.integer(
            name, 0, self._cap(queue_name), partial(self._value, queue=queue_name, level=level)
        )
        choices: list[cp_model.IntVar] = []
        for resource in (None, *RESOURCES):
            if resource is not None and not problem.capacity[resource]:
                continue
            chosen = variables.boolean(
                f"{name}-by-{resource}",
                partial(self._is_dominant, queue=queue_name, level=level, resource=resource),
            )
            choices.append(chosen)
            if resource is None:
                variables.model.add(share == 0).only_enforce_if(chosen)
                continue
            capacity = problem.capacity[resource] or 0
            held = held_usage(variables, queue_name, resource, level)
            beyond = held - queue.quota.get(resource, 0)
            new = new_usage(variables, queue_name, resource, level)
            # Only the ratio counts, and smaller numbers stay clear of 64 bits.
            common = gcd(capacity * queue.weight, SHARE_SCALE)
            factor, scale = capacity * queue.weight // common, SHARE_SCALE // common
            if abs(beyond * scale) > LARGEST:
                raise NumbersTooLargeError
            variables.model.add_linear_constraint(
                weighted([(share, factor), (new, -scale)]), cp_model.INT_MIN, beyond * scale
            ).only_enforce_if(chosen)
        variables.model.add_exactly_one(choices)
        return share

    def _is_dominant(
        self, view: PlanView, *, queue: str, level: int | None, resource: ResourceName | None
    ) -> int:
        """Whether the share is that of a resource (the first of equal ones; None for 0)."""
        shares: dict[ResourceName | None, int] = {None: 0}
        used = self._used(view, level)[queue]
        owner = view.problem.queue_by_name[queue]
        for name in RESOURCES:
            capacity = view.problem.capacity[name]
            if capacity:
                beyond = max(0, used[name] - owner.quota.get(name, 0))
                shares[name] = metrics.scaled_share(beyond, capacity, owner.weight)
        return int(max(shares, key=lambda name: shares[name]) == resource)
