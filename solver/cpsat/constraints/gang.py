"""Gangs start whole or not at all.

Rule: of every role r of a gang j either nothing starts or between its minimum and its size::

    min_r * start_j <= sum_n x[r, n] <= replicas_r * start_j

Replicas of a job that is no gang are only bounded: ``sum_n x[r, n] <= replicas_r``.

Reads ``x`` and ``start``. As a reason users see it as ``gpu-short`` or ``gpu-fragmented``: the gang
would have fitted in part.
"""

from __future__ import annotations

from solver.cpsat.variables import Variables
from solver.linear import total, weighted
from solver.workload import Job


def add_gangs(variables: Variables) -> None:
    """Add the rule for every job."""
    for job in variables.problem.jobs:
        if job.gang:
            _add_gang(variables, job)
        else:
            for role in job.roles:
                counts = [x for _, x in variables.counts(job, role)]
                if sum(variables.high(job, role, n) for n, _ in variables.counts(job, role)) > (
                    role.replicas
                ):
                    variables.require(total(counts), None, role.replicas)


def _add_gang(variables: Variables, job: Job) -> None:
    start = variables.start[job.name]
    for role in job.roles:
        placed = [(x, 1) for _, x in variables.counts(job, role)]
        if role.min_replicas == role.replicas:
            variables.require(weighted([*placed, (start, -role.replicas)]), 0, 0)
        else:
            variables.require(weighted([*placed, (start, -role.replicas)]), None, 0)
            variables.require(weighted([*placed, (start, -role.min_replicas)]), 0, None)
    if job.min_replicas == 0:
        every = [(x, 1) for role in job.roles for _, x in variables.counts(job, role)]
        variables.require(weighted([*every, (start, -1)]), 0, None)
