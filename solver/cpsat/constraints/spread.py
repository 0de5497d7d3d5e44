"""At most so many replicas of a job in one group of a level.

Rule, for each job j with a spread and each group g: ``sum_r sum_{n in g} x[r, n] <= max_per``.

Reads ``x``. As a reason users see it as ``gpu-fragmented``: the free GPUs are in too few groups.
"""

from __future__ import annotations

from solver.cpsat.variables import Variables
from solver.linear import Expr, total


def add_spread(variables: Variables) -> None:
    """Add the rule for every job that has one."""
    for job in variables.problem.jobs:
        if job.spread is None:
            continue
        counts: dict[tuple[str, ...], list[tuple[Expr, int]]] = {}
        for role in job.roles:
            for node, x in variables.counts(job, role):
                group = node.group(job.spread.over, variables.problem.levels)
                high = variables.high(job, role, node)
                counts.setdefault(group, []).append((x, high))
        for members in counts.values():
            if sum(high for _, high in members) > job.spread.max_per:
                variables.require(total(x for x, _ in members), None, job.spread.max_per)
