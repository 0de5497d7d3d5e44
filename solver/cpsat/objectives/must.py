"""Must: the most jobs marked `must` that can start, before anything else is looked at.

Value: number of such jobs. One that is left out although this is proved best cannot run.
"""

from __future__ import annotations

from solver.cpsat.variables import Expr, Variables, total, weighted


def must_start(variables: Variables) -> Expr:
    """Number of jobs marked `must` that start (independent replicas: all of them)."""
    parts: list[Expr] = []
    for job in variables.problem.jobs:
        if not job.must:
            continue
        if job.gang:
            parts.append(variables.start[job.name])
            continue
        whole = variables.boolean(
            f"whole[{job.name}]",
            lambda view, job=job: len(view.plan.by_job.get(job.name, ())) == job.replicas,
        )
        placed = [(x, 1) for role in job.roles for _, x in variables.counts(job, role)]
        variables.require(weighted([*placed, (whole, -job.replicas)]), 0, None)
        parts.append(whole)
    return total(parts)
