"""How every greedy policy makes a plan: an order says who is next, a placement policy says where.

Level by level of the order (for the spec's own order: priority by priority):

1. the minimums, in order: a gang's all or nothing, a start group's all or nothing at the place of
   its first member, independent replicas one at a time;
2. then what elastic jobs take beyond their minimums, one replica at a time.

Who does not fit is passed over. Nothing that runs is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solver.geometry import recut_gpus
from solver.greedy.draft import Draft
from solver.greedy.orders import Order
from solver.greedy.scoring import PlacementPolicy
from solver.problem import Problem
from solver.solution import Plan
from solver.workload import Job, Role


@dataclass(frozen=True, slots=True)
class Start:
    """Jobs whose minimums start together, the first in the order first."""

    jobs: tuple[Job, ...]

    @property
    def job(self) -> Job:
        """The member whose place in the order is the unit's."""
        return self.jobs[0]


@dataclass(frozen=True, slots=True)
class More:
    """One more replica of a role."""

    job: Job
    role: Role


def make_plan(problem: Problem, order: Order, policy: PlacementPolicy) -> Plan:
    """The plan that comes of offering all pending work in this order to this policy."""
    draft = Draft(problem, policy)
    units = _units(problem, order)
    elastic: list[Job] = []
    for level in sorted({order.level(job) for job in problem.jobs}):
        minimums = [unit for unit in units if order.level(unit.job) == level]
        elastic += _offer(draft, order, minimums)
        _offer(
            draft,
            order,
            [more for job in elastic if order.level(job) == level for more in _beyond_minimum(job)],
        )
    return within_recut_limit(problem, order, draft.plan())


def within_recut_limit(problem: Problem, order: Order, plan: Plan) -> Plan:
    """The plan without the jobs, last ones first, that make it cut more GPUs anew than it may."""
    limit = problem.most_recut_gpus
    while limit is not None and recut_gpus(problem, plan) > limit:
        cutting = [
            problem.job_by_name[name]
            for name, places in plan.by_job.items()
            if any(place.instances or place.gpus for place in places)
        ]
        last = max(cutting, key=order.rank)
        group = problem.start_groups.get(last.start_group or "", (last,))
        dropped = {job.name for job in group}
        plan = Plan.of(p for p in plan.placements if p.job not in dropped)
    return plan


def _units(problem: Problem, order: Order) -> list[Start | More]:
    """What is placed as one: gangs, start groups, and independent replicas each by itself."""
    units: list[Start | More] = []
    for job in problem.jobs:
        if not job.gang:
            units += [More(job, role) for role in job.roles for _ in range(role.replicas)]
        elif job.start_group is None:
            units.append(Start((job,)))
    for members in problem.start_groups.values():
        units.append(Start(tuple(sorted(members, key=order.rank))))
    return units


def _beyond_minimum(job: Job) -> list[More]:
    """The replicas that an elastic job takes above its minimum."""
    return [More(job, role) for role in job.roles for _ in range(role.replicas - role.min_replicas)]


def _offer(draft: Draft, order: Order, items: Sequence[Start | More]) -> list[Job]:
    """Place what fits, in order; the jobs whose minimums were placed.

    A role of which one replica did not fit is not tried again: room only gets less.
    """
    started: list[Job] = []
    full: set[tuple[str, str]] = set()
    for item in order.sequence(items, draft.ledger):
        if isinstance(item, Start):
            if draft.start(item.jobs):
                started += item.jobs
        elif (item.job.name, item.role.name) not in full and not draft.add(item.job, item.role):
            full.add((item.job.name, item.role.name))
    return started
