"""Running work is stopped or moved only for a reason that `Problem.preempt_for` lists.

Let ``whole_j`` say that running job j stays as it is (where the problem is to be defragmented: or
moves, as that takes no reason then). Two queues are compared where they part in the tree of queues:
on the way down to the job's queue, let a be a member, and b another one of its family. Rule, for
each j of priority p::

    1 - whole_j <= higher_p + sum over such pairs (a, b) of reclaims_b + takes_ba

``higher_p``
    Something of a priority above p starts (``priority``).
``reclaims_b``
    Something of b starts, and b then stays within its quota (``guarantee``).
``takes_ba``
    Something of b starts, and then the weighted surplus share of b is at most that left to a where
    both have the same priority; one of higher priority stays within its entitlement, one of
    lower priority takes nothing (``fair_share``).

These say who may give way at all; who does is what the steps of the objective decide.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ortools.sat.python import cp_model

from solver import metrics
from solver.cpsat.objectives.fairness import FairShares
from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.fair_share import member_entitlements
from solver.linear import Expr, total, weighted
from solver.queues import Member
from solver.workload import RESOURCES, Job, ResourceName

Amounts = dict[ResourceName, int]


def add_giving_way(variables: Variables) -> None:
    """Add the rule for every running job in question."""
    running = [job for job in variables.problem.jobs if job.running is not None]
    if not running:
        return
    reasons = _Reasons(variables)
    for job in running:
        moves = variables.problem.defragment
        kept = [role for role in job.roles if role.held or moves]
        stays = [(x, 1) for role in kept for _, x in variables.counts(job, role)]
        size = sum(role.replicas for role in job.roles if role.held)
        whole = variables.boolean(f"whole[{job.name}]", _whole(job.name, size, moves))
        variables.require(weighted([*stays, (whole, -size)]), 0, None)
        variables.require(total([whole, *reasons.of(job)]), 1, None)


def _whole(job: str, size: int, moves: bool) -> Callable[[PlanView], int]:
    def value(view: PlanView) -> int:
        places = view.plan.by_job.get(job, ())
        return int(sum(moves or bool(view.role(p).held) for p in places) == size)

    return value


class _Reasons:
    """Literals for the reasons, each made when it is first asked for."""

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._made: dict[tuple[object, ...], cp_model.IntVar | None] = {}
        self._limits: dict[str, Amounts] = {}

    def of(self, job: Job) -> list[cp_model.IntVar]:
        """Everything that could justify displacing a running job."""
        tree = self._variables.problem.queue_tree
        pairs = [
            (mine, other)
            for mine in tree.path[job.queue]
            for other in tree.families[mine.family]
            if other is not mine
        ]
        found: list[cp_model.IntVar | None] = []
        for reason in self._variables.problem.preempt_for:
            if reason == "priority":
                found.append(self._higher(job.priority))
            elif reason == "guarantee":
                found += [self._reclaims(other) for _, other in pairs if other.quota]
            else:
                found += [self._takes(other, mine) for mine, other in pairs]
        return [literal for literal in found if literal is not None]

    def _higher(self, priority: int) -> cp_model.IntVar | None:
        jobs = [job for job in self._variables.problem.pending if job.priority > priority]
        return self._once(("higher", priority), jobs, lambda _: True)

    def _reclaims(self, member: Member) -> cp_model.IntVar | None:
        return self._staying_within("reclaims", member, dict(member.quota))

    def _staying_within(
        self, name: str, member: Member, amounts: Amounts
    ) -> cp_model.IntVar | None:
        key = (name, member.name)
        if key in self._made:
            return self._made[key]
        literal = self._once(
            key,
            self._jobs_of(member),
            lambda view: all(_used(view, member)[r] <= most for r, most in amounts.items()),
        )
        if literal is not None:
            variables = self._variables
            for resource, most in amounts.items():
                held = held_usage(variables, member.queues, resource)
                new = new_usage(variables, member.queues, resource)
                variables.model.add(new <= most - held).only_enforce_if(literal)
        return literal

    def _takes(self, member: Member, other: Member) -> cp_model.IntVar | None:
        if member.priority < other.priority or (not member.weight and other.weight):
            return None
        if member.priority > other.priority or not other.weight:
            return self._staying_within("takes its own", member, self._entitled[member.name])
        key = ("takes", member.name, other.name)
        if key in self._made:
            return self._made[key]
        literal = self._once(
            key,
            self._jobs_of(member),
            lambda view: _share(view, member) <= _share(view, other),
        )
        if literal is not None:
            left = self._shares.share(other.name, None)
            self._variables.model.add(self._most(member) <= left).only_enforce_if(literal)
        return literal

    def _once(
        self, key: tuple[object, ...], jobs: list[Job], holds: Callable[[PlanView], bool]
    ) -> cp_model.IntVar | None:
        """A literal that needs one of the jobs to start and, in a plan, is 1 where it may be."""
        if key not in self._made:
            self._made[key] = self._literal(key, jobs, holds) if jobs else None
        return self._made[key]

    def _literal(
        self, key: tuple[object, ...], jobs: list[Job], holds: Callable[[PlanView], bool]
    ) -> cp_model.IntVar:
        variables = self._variables
        names = [job.name for job in jobs]
        literal = variables.boolean(
            "-".join(map(str, key)),
            lambda view: int(any(view.starts(name) for name in names) and holds(view)),
        )
        starts: list[Expr] = [variables.start[job.name] for job in jobs if job.gang]
        starts += [
            x
            for job in jobs
            if not job.gang
            for r in job.roles
            for _, x in variables.counts(job, r)
        ]
        variables.require(weighted([(total(starts), 1), (literal, -1)]), 0, None)
        return literal

    def _jobs_of(self, member: Member) -> list[Job]:
        return [job for job in self._variables.problem.pending if job.queue in member.queues]

    def _most(self, member: Member) -> Expr:
        """At least the member's weighted surplus share, in millionths rounded down."""
        variables, problem = self._variables, self._variables.problem
        unit = problem.queue_tree.weight_unit
        top = variables.integer(
            f"top[{member.name}]",
            0,
            2 * metrics.SHARE_SCALE * unit,
            lambda view: _share(view, member),
        )
        for resource in RESOURCES:
            capacity = problem.capacity[resource]
            if capacity:
                new = new_usage(variables, member.queues, resource)
                held = held_usage(variables, member.queues, resource)
                beyond = held - member.quota.get(resource, 0)
                common = gcd(capacity * (member.weight or unit), metrics.SHARE_SCALE * unit)
                factor = capacity * (member.weight or unit) // common
                scale = metrics.SHARE_SCALE * unit // common
                terms = weighted([(top, factor), (new, -scale)])
                variables.require(terms, beyond * scale - factor + 1, None)
        return top

    @property
    def _shares(self) -> FairShares:
        return FairShares(self._variables, _everything(self._variables))

    @property
    def _entitled(self) -> dict[str, Amounts]:
        if not self._limits:
            table = member_entitlements(self._variables.problem)
            self._limits = {name: dict(amounts) for name, amounts in table.items()}
        return self._limits


def _everything(variables: Variables) -> metrics.Entitlements:
    """No queue's share is counted no further than the cluster."""
    problem = variables.problem
    whole: Amounts = {r: problem.capacity[r] or 0 for r in RESOURCES}
    return dict.fromkeys(problem.queue_tree.by_name, whole)


def _used(view: PlanView, member: Member) -> metrics.Amounts:
    usage = view.remember("usage of all", lambda: metrics.usage(view.problem, view.plan))
    return metrics.member_usage(member, usage)


def _share(view: PlanView, member: Member) -> int:
    return metrics.surplus_share(view.problem, _used(view, member), member.name)
