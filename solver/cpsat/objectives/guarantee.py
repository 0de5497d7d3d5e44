"""Guarantee: the most that queues use within their quotas.

Value: ``sum over queues of min(used, quota)`` of one resource; unit milli-GPU, milli-CPU or MiB.
"""

from __future__ import annotations

from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, total, weighted
from solver.metrics import usage
from solver.workload import Queue, ResourceName


def guaranteed(variables: Variables, resource: ResourceName) -> Expr:
    """The expression for one resource."""
    parts: list[Expr] = []
    for queue in variables.problem.queues:
        quota = queue.quota.get(resource, 0)
        held = held_usage(variables, queue.name, resource)
        if held >= quota:
            parts.append(quota)
            continue

        def within(view: PlanView, queue: Queue = queue, quota: int = quota) -> int:
            return min(usage(view.problem, view.plan)[queue.name][resource], quota)

        part = variables.integer(f"guaranteed[{queue.name},{resource}]", 0, quota, within)
        new = new_usage(variables, queue.name, resource)
        variables.require(weighted([(part, 1), (new, -1)]), None, held)
        parts.append(part)
    return total(parts)
