"""A fix counts only where the question, solved with it applied, starts the job.

The whole changed problem is solved anew, as ``solve`` would. Where that would take too long, jobs
whose turn is before keep the places that the plan gives them, and only the others are asked again.
What runs may not lose anything but what the fix itself displaces, nor may jobs whose turn is
before; those that come after have no claim yet.
"""

from __future__ import annotations

from dataclasses import replace

from solver.api import solve
from solver.explain.fixes.change import Change
from solver.explain.question import UNTOUCHABLE, Case, before, focused, places_for
from solver.options import SolveOptions
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.workload import Job

WHOLE = 1_000
"""Counts (of replicas by role and node) up to which the whole problem is solved anew."""

ADMISSION = ("guarantee", "priority", "fairness", "preemption_cost")
"""Objectives that decide who starts; where follows from the others."""


def solved_with(case: Case, change: Change, options: SolveOptions) -> tuple[Problem, Plan] | None:
    """The changed problem and its plan, if the job starts in it and nobody else loses anything."""
    if not case.passed_over and places_for(change.apply(case.claim)) is None:
        return None
    changed = change.apply(case.problem)
    early = before(case.problem, case.plan, case.job)
    if len(changed.role_by_key) * len(changed.nodes) <= WHOLE:
        asked, there = changed, early
    else:
        asked, there = change.apply(_rivals(case, early)), Plan()
    limit_s = max(0.1, min(options.time_limit_s, case.left_s))
    plan = solve(asked, replace(options, time_limit_s=limit_s)).plan
    if not _starts_more(case, asked, there, plan) or _somebody_loses(case, there, plan, change):
        return None
    return asked, plan


def _rivals(case: Case, early: Plan) -> Problem:
    """All jobs whose turn is later, or that wait, against what the others start."""
    alone = focused(case.problem, early, case.job)
    starting = early.by_job.keys() | alone.job_by_name.keys()
    others = [job for job in case.problem.jobs if job.name not in starting]
    jobs = sorted((*alone.jobs, *others), key=lambda job: case.problem.position[job.name])
    running = (replace(job, preemption=UNTOUCHABLE) for job in alone.running)
    return replace(alone, jobs=tuple(jobs), running=tuple(running), objectives=ADMISSION)


def _starts_more(case: Case, asked: Problem, there: Plan, plan: Plan) -> bool:
    """Whether the job (a gang: at least its minimum) runs with more than it had."""
    name = case.job.name
    job: Job = asked.job_by_name[name]
    started = {role.name: plan.started.get(RoleKey(name, role.name), 0) for role in job.roles}
    if job.gang:
        return any(started.values()) and all(
            started[role.name] >= role.min_replicas for role in job.roles
        )
    return sum(started.values()) > len(there.by_job.get(name, ()))


def _somebody_loses(case: Case, there: Plan, plan: Plan, change: Change) -> bool:
    for name, places in there.by_job.items():
        if name != case.job.name and len(plan.by_job.get(name, ())) < len(places):
            return True
    return any(
        replicas - there.displaced.get(name, frozenset())
        for name, replicas in plan.displaced.items()
        if name not in change.touches
    )
