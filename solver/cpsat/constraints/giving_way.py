"""Running work is stopped or moved only for a reason that `Problem.preempt_for` lists.

Let ``whole_j`` say that running job j stays as it is (where the problem is to be defragmented: or
moves, as that takes no reason then). Rule, for each j of priority p in queue q::

    1 - whole_j <= higher_p + sum over queues k != q of reclaims_k + sum over k != q of takes_kq

``higher_p``
    Something of a priority above p starts (``priority``).
``reclaims_k``
    Something of queue k starts, and k then stays within its quota (``guarantee``).
``takes_kq``
    Something of queue k starts, and then the weighted surplus share of k is at most that left to q
    where both have the same queue priority; a queue of higher priority stays within its
    entitlement, one of lower priority takes nothing (``fair_share``).

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
from solver.fair_share import entitlements
from solver.linear import Expr, total, weighted
from solver.workload import RESOURCES, Job, Queue, ResourceName

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
        queues = [q for q in self._variables.problem.queues if q.name != job.queue]
        found: list[cp_model.IntVar | None] = []
        for reason in self._variables.problem.preempt_for:
            if reason == "priority":
                found.append(self._higher(job.priority))
            elif reason == "guarantee":
                found += [self._reclaims(queue) for queue in queues if queue.quota]
            else:
                found += [self._takes(queue, job.queue) for queue in queues]
        return [literal for literal in found if literal is not None]

    def _higher(self, priority: int) -> cp_model.IntVar | None:
        jobs = [job for job in self._variables.problem.pending if job.priority > priority]
        return self._once(("higher", priority), jobs, lambda _: True)

    def _reclaims(self, queue: Queue) -> cp_model.IntVar | None:
        return self._staying_within("reclaims", queue, dict(queue.quota))

    def _staying_within(self, name: str, queue: Queue, amounts: Amounts) -> cp_model.IntVar | None:
        key = (name, queue.name)
        if key in self._made:
            return self._made[key]
        literal = self._once(
            key,
            self._jobs_of(queue),
            lambda view: all(_used(view, queue.name)[r] <= most for r, most in amounts.items()),
        )
        if literal is not None:
            variables = self._variables
            for resource, most in amounts.items():
                held = held_usage(variables, [queue.name], resource)
                new = new_usage(variables, [queue.name], resource)
                variables.model.add(new <= most - held).only_enforce_if(literal)
        return literal

    def _takes(self, queue: Queue, other_name: str) -> cp_model.IntVar | None:
        problem = self._variables.problem
        other = problem.queue_by_name[other_name]
        if queue.priority < other.priority or (not queue.weight and other.weight):
            return None
        if queue.priority > other.priority or not other.weight:
            return self._staying_within("takes its own", queue, self._entitled[queue.name])
        key = ("takes", queue.name, other_name)
        if key in self._made:
            return self._made[key]
        literal = self._once(
            key,
            self._jobs_of(queue),
            lambda view: _share(view, queue.name) <= _share(view, other_name),
        )
        if literal is not None:
            left = self._shares.share(problem.queue_tree.own(other_name).name, None)
            self._variables.model.add(self._most(queue) <= left).only_enforce_if(literal)
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

    def _jobs_of(self, queue: Queue) -> list[Job]:
        return [job for job in self._variables.problem.pending if job.queue == queue.name]

    def _most(self, queue: Queue) -> Expr:
        """At least the queue's weighted surplus share, in millionths rounded down."""
        variables, problem = self._variables, self._variables.problem
        own, unit = problem.queue_tree.own(queue.name), problem.queue_tree.weight_unit
        top = variables.integer(
            f"top[{queue.name}]",
            0,
            2 * metrics.SHARE_SCALE * unit,
            lambda view: _share(view, queue.name),
        )
        for resource in RESOURCES:
            capacity = problem.capacity[resource]
            if capacity:
                new = new_usage(variables, [queue.name], resource)
                held = held_usage(variables, [queue.name], resource)
                beyond = held - own.quota.get(resource, 0)
                common = gcd(capacity * (own.weight or unit), metrics.SHARE_SCALE * unit)
                factor = capacity * (own.weight or unit) // common
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
            table = entitlements(self._variables.problem)
            self._limits = {name: dict(amounts) for name, amounts in table.items()}
        return self._limits


def _everything(variables: Variables) -> metrics.Entitlements:
    """No queue's share is counted no further than the cluster."""
    problem = variables.problem
    whole: Amounts = {r: problem.capacity[r] or 0 for r in RESOURCES}
    return dict.fromkeys(problem.queue_tree.by_name, whole)


def _used(view: PlanView, queue: str) -> metrics.Amounts:
    usage = view.remember("usage of all", lambda: metrics.usage(view.problem, view.plan))
    return usage[queue]


def _share(view: PlanView, queue: str) -> int:
    own = view.problem.queue_tree.own(queue).name
    return metrics.surplus_share(view.problem, _used(view, queue), own)
