"""A queue, with all queues below it, uses no more than its limit.

Rule, for each queue q with a limit on a resource: ``running + new use of q and its descendants <=
limit``. Work that already runs above the limit stays; only nothing may be added.

Reads ``x``. As a reason users see it as ``queue-limit``.
"""

from __future__ import annotations

from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Variables
from solver.linear import total
from solver.queues import subtree


def add_queue_limits(variables: Variables) -> None:
    """Add the rule for every limited resource of every queue."""
    for queue in variables.problem.queues:
        members = subtree(variables.problem.queues, queue.name)
        for resource, limit in sorted(queue.limit.items()):
            used = sum(held_usage(variables, name, resource) for name in members)
            new = total(new_usage(variables, name, resource) for name in members)
            variables.require(new, None, max(0, limit - used))
