"""What runs already stays whole, gives up what is above its minimum, or goes altogether.

Rules, for each job j that stands for a running one, with its n replicas::

    sum over roles and nodes of x >= floor_j * start_j     (floor_j = n unless it is elastic)
    for each request s:  x of staying and moving replicas with this request <= how many there are
    start_j = 1, floor_j = n                              where it may only move

Reads ``x`` and ``start``. Users see it as who gives way.
"""

from __future__ import annotations

from collections import Counter

from solver.cpsat.variables import Variables
from solver.linear import Expr, weighted
from solver.workload import Job, Shape


def add_keep(variables: Variables) -> None:
    """Add the rules for every job that runs already."""
    for job in variables.problem.jobs:
        if job.running is not None:
            _add(variables, job)


def _add(variables: Variables, job: Job) -> None:
    running = job.running
    assert running is not None
    start = variables.start[job.name]
    everything: list[tuple[Expr, int]] = []
    by_request: dict[Shape, list[tuple[Expr, int]]] = {}
    for role in job.roles:
        counts: list[tuple[Expr, int]] = [(x, 1) for _, x in variables.counts(job, role)]
        everything += counts
        by_request.setdefault(role.asked or role.shape, []).extend(counts)
    floor = running.floor if running.preemption.allowed else len(running.replicas)
    variables.require(weighted([*everything, (start, -max(1, floor))]), 0, None)
    for request, total in Counter(running.shapes).items():
        variables.require(weighted(by_request.get(request, [])), None, total)
    if not running.preemption.allowed:
        variables.require(start, 1, 1)
