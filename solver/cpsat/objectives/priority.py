"""Priority: what one level starts, in the steps ``started``, ``surplus``, ``cpu-only``, ``oldest``.

Values (see `solver.tiers.admission_milli`): milli-GPU of gangs' minimums and of independent
replicas; milli-GPU above minimums; milli-CPU of replicas without GPUs; milli times age rank.
"""

from __future__ import annotations

from collections.abc import Iterator

from solver.cpsat.variables import Variables
from solver.linear import Expr, weighted
from solver.tiers import StepKind, age_weight_milli
from solver.workload import Job, Role


def admitted(variables: Variables, kind: StepKind, level: int | None) -> Expr:
    """The expression for one step of one priority level."""
    return weighted(
        term
        for job, role in variables.problem.roles()
        if job.priority == level and job.running is None
        for term in _terms(variables, kind, job, role)
    )


def _terms(
    variables: Variables, kind: StepKind, job: Job, role: Role
) -> Iterator[tuple[Expr, int]]:
    gpu_milli = variables.problem.gpu_milli(role.shape)
    counts = [x for _, x in variables.counts(job, role)]
    if kind in ("started", "surplus") and job.gang:
        start = variables.start[job.name]
        if kind == "started":
            yield start, role.min_replicas * gpu_milli
        elif role.replicas > role.min_replicas:
            yield from ((x, gpu_milli) for x in counts)
            yield start, -role.min_replicas * gpu_milli
    elif kind == "started":
        yield from ((x, gpu_milli) for x in counts)
    elif kind == "cpu-only" and not role.shape.wants_gpu:
        yield from ((x, role.shape.cpu_milli) for x in counts)
    elif kind == "oldest":
        weight = age_weight_milli(variables.problem, job, role.name)
        yield from ((x, weight) for x in counts)
