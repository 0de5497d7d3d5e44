"""Fairness: lexicographic max-min of weighted surplus shares.

Let y_q be the surplus share over its weight, in millionths, of a member q at one depth of the tree
of queues, counted no further than its entitlement (`solver.metrics.fairness_vector`). The sum of
the k smallest shares is::

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
from solver.queues import Member
from solver.tiers import Step
from solver.workload import RESOURCES, ResourceName

_At = tuple[int, int | None]
"""Depth in the tree of queues, and priority level."""


class FairShares:
    """The shares y of those that compete, by depth and priority level, made when first needed."""

    def __init__(self, variables: Variables, entitled: metrics.Entitlements) -> None:
        self._variables = variables
        self._entitled = entitled
        self._shares: dict[_At, dict[str, Expr]] = {}

    def smallest(self, step: Step) -> Expr:
        """Sum of the smallest shares, counting work of the step's priority level and above."""
        variables = self._variables
        rank, level = step.rank, step.level
        at = (step.depth, level)
        shares = self._at(at)
        if rank == len(shares):
            return total(shares.values())
        name = f"fair[{step.depth},{level},{rank}]"
        top = variables.integer(
            name, 0, self._highest(at), lambda view: self._vector(view, at)[rank - 1]
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
                self._highest(at),
                partial(self._lack, queue=queue, at=at, rank=rank),
            )
            variables.require(weighted([(lack, 1), (share, 1), (top, -1)]), 0, None)
            terms.append((lack, -1))
        return weighted(terms)

    def _highest(self, at: _At) -> int:
        return max(self._cap(queue) for queue in self._at(at))

    def _vector(self, view: PlanView, at: _At) -> tuple[int, ...]:
        return tuple(sorted(self._value(view, q, at[1]) for q in self._at(at)))

    def _lack(self, view: PlanView, queue: str, at: _At, rank: int) -> int:
        top = self._vector(view, at)[rank - 1]
        return max(0, top - self._value(view, queue, at[1]))

    def _cap(self, queue: str) -> int:
        return metrics.surplus_share(self._variables.problem, self._entitled[queue], queue)

    def _value(self, view: PlanView, queue: str, level: int | None) -> int:
        return min(self._cap(queue), self._dominant(view, queue, level))

    def _dominant(self, view: PlanView, queue: str, level: int | None) -> int:
        return metrics.surplus_share(view.problem, self._used_by(view, queue, level), queue)

    def _used_by(self, view: PlanView, queue: str, level: int | None) -> metrics.Amounts:
        used = view.remember(
            ("usage", level), lambda: metrics.usage(view.problem, view.plan, from_priority=level)
        )
        return metrics.member_usage(self._member(queue), used)

    def _member(self, name: str) -> Member:
        return self._variables.problem.queue_tree.by_name[name]

    def _at(self, at: _At) -> dict[str, Expr]:
        if at not in self._shares:
            depth, level = at
            members = metrics.competing(self._variables.problem)[depth]
            self._shares[at] = {m.name: self.share(m.name, level) for m in members}
        return self._shares[at]

    def share(self, queue_name: str, level: int | None) -> Expr:
        """At most the cap, and at most the scaled share of one resource, which the solver picks.

        Shares are maximised, so it picks the dominant one; where the queue stays within its quota
        of everything it picks none, and the share is 0.
        """
        variables = self._variables
        problem = variables.problem
        member = self._member(queue_name)
        unit = problem.queue_tree.weight_unit
        weight = member.weight or unit
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
            held = held_usage(variables, member.queues, resource, level)
            beyond = held - member.quota.get(resource, 0)
            new = new_usage(variables, member.queues, resource, level)
            # Only the ratio counts, and smaller numbers stay clear of 64 bits.
            common = gcd(capacity * weight, SHARE_SCALE * unit)
            factor, scale = capacity * weight // common, SHARE_SCALE * unit // common
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
        used = self._used_by(view, queue, level)
        owner, tree = self._member(queue), view.problem.queue_tree
        for name in RESOURCES:
            capacity = view.problem.capacity[name]
            if capacity:
                beyond = max(0, used[name] - owner.quota.get(name, 0))
                weight = owner.weight or tree.weight_unit
                shares[name] = metrics.scaled_share(beyond * tree.weight_unit, capacity, weight)
        return int(max(shares, key=lambda name: shares[name]) == resource)
