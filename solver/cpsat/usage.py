"""What queues use, as expressions of the model."""

from __future__ import annotations

from collections.abc import Collection

from solver.cpsat.variables import Variables
from solver.fair_share import held_by_queue
from solver.linear import Expr, weighted
from solver.workload import ResourceName


def new_usage(
    variables: Variables,
    queues: Collection[str],
    resource: ResourceName,
    from_priority: int | None = None,
) -> Expr:
    """What new starts of some queues use of a resource."""
    problem = variables.problem
    return weighted(
        (x, problem.use(role, resource))
        for job, role in problem.roles()
        if job.queue in queues and (from_priority is None or job.priority >= from_priority)
        for _, x in variables.counts(job, role)
    )


def held_usage(
    variables: Variables,
    queues: Collection[str],
    resource: ResourceName,
    from_priority: int | None = None,
) -> int:
    """What running work of some queues holds of a resource."""
    problem = variables.problem
    running = [j for j in problem.running if from_priority is None or j.priority >= from_priority]
    held = held_by_queue(problem, running)
    return sum(held[queue][resource] for queue in queues)
