"""Who is asked when, and for what: the part of a job that waits, and its place in the line."""

from __future__ import annotations

from dataclasses import replace

from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.workload import Job


def left_over(job: Job, plan: Plan) -> bool:
    """Whether all of a gang, or some independent replica, does not start."""
    started = len(plan.by_job.get(job.name, ()))
    return started == 0 if job.gang else started < job.replicas


def waiting_part(job: Job, plan: Plan) -> Job:
    """The part of a job that waits.

    Of a gang that is its minimum; of independent replicas the first role that is short of some.
    """
    if job.gang:
        roles = tuple(role for role in job.roles if role.min_replicas)
        return replace(job, roles=roles or job.roles)
    short = (r for r in job.roles if plan.started.get(RoleKey(job.name, r.name), 0) < r.replicas)
    return replace(job, roles=(next(short),))


def rank(problem: Problem, job: Job) -> tuple[int, int]:
    """The turn of a job among all that wait: by priority, then age, its start group's best."""
    members = problem.start_groups.get(job.start_group or "", (job,))
    oldest = min(problem.position[member.name] for member in members)
    return (-max(member.priority for member in members), oldest)
