"""Fairness: lexicographic max-min of weighted surplus shares.

Let y_q be the surplus share of queue q over its weight, in millionths, counted no further than its
entitlement (`solver.metrics.fairness_vector`). The sum of the k smallest shares is::

    max over t of  k * t - sum_q max(0, t - y_q)

and maximising it for k = 1, 2, …, n in turn is the lexicographic max-min (Ogryczak and Sliwinski,
"On solving linear programs with the ordered weighted averaging objective", EJOR 2003).
"""

from __future__ import annotations

from functools import partial

from ortools.sat.python import cp_model

from solver import metrics
from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Expr, Variables, weighted
from solver.cpsat.view import PlanView
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
        name = f"fair[{level},{rank}]"
        top = variables.integer(
            name, 0, self._highest, lambda view: self._vector(view, level)[rank - 1]
        )
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
            self._shares[level] = {queue: self._share(queue, level) for queue in queues}
        return self._shares[level]

    def _share(self, queue: str, level: int | None) -> Expr:
        """``min(cap, max over resources of the scaled share of what goes beyond the quota)``."""
        variables = self._variables
        by_resource = [self._resource_share(queue, level, r) for r in RESOURCES]
        kept = [share for share in by_resource if share is not None]
        name = f"share[{queue},{level}]"
        dominant = variables.integer(
            f"{name}-dominant", 0, cp_model.INT32_MAX, partial(self._dominant, queue=queue, level=level)
        )
        variables.model.add_max_equality(dominant, [0, *kept])
        share = variables.integer(
            name, 0, self._cap(queue), partial(self._value, queue=queue, level=level)
        )
        variables.require(weighted([(share, 1), (dominant, -1)]), None, 0)
        return share

    def _resource_share(
        self, queue_name: str, level: int | None, resource: ResourceName
    ) -> Expr | None:
        """``floor(max(0, used - quota) * scale / (capacity * weight))`` of one resource."""
        variables = self._variables
        problem = variables.problem
        capacity = problem.capacity[resource]
        if not capacity:
            return None
        queue = problem.queue_by_name[queue_name]
        quota = queue.quota.get(resource, 0)
        held = held_usage(variables, queue_name, resource, level)
        most = held + capacity
        name = f"{resource}[{queue_name},{level}]"

        def beyond_quota(view: PlanView) -> int:
            return max(0, self._used(view, level)[queue_name][resource] - quota)

        beyond = variables.integer(f"beyond-{name}", 0, most, beyond_quota)
        new = new_usage(variables, queue_name, resource, level)
        variables.model.add_max_equality(beyond, [0, weighted([(new, 1)]) + (held - quota)])
        divisor = capacity * queue.weight
        share = variables.integer(
            f"share-{name}",
            0,
            most * SHARE_SCALE // divisor,
            lambda view: metrics.scaled_share(beyond_quota(view), capacity, queue.weight),
        )
        # floor division said as two inequalities: 0 <= beyond * scale - share * divisor < divisor
        rest = weighted([(beyond, SHARE_SCALE), (share, -divisor)])
        variables.require(rest, 0, divisor - 1)
        return share
