"""Must: the most jobs marked `must` that can start, before anything else is looked at.

Value: number of such jobs. One that is left out although this is proved best cannot run.
"""

from __future__ import annotations

from functools import partial

from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, total, weighted
from solver.workload import Job


def _starts_whole(view: PlanView, job: Job) -> int:
    return int(len(view.plan.by_job.get(job.name, ())) == job.replicas)


def must_start(variables: Variables) -> Expr:
    """Number of jobs marked `must` that start (independent replicas: all of them)."""
    parts: list[Expr] = []
    for job in variables.problem.pending:
        if not job.must:
            continue
        if job.gang:
            parts.append(variables.start[job.name])
            continue
        whole = variables.boolean(
            f"whole[{job.name}]",
            partial(_starts_whole, job=job),
        )
        placed = [(x, 1) for role in job.roles for _, x in variables.counts(job, role)]
        variables.require(weighted([*placed, (whole, -job.replicas)]), 0, None)
        parts.append(whole)
    return total(parts)
