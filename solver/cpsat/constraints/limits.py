"""A queue, with all queues below it, uses no more than its limit.

Rule, for each queue q with a limit on a resource: ``running + new use of q and its descendants <=
limit``. Work that already runs above the limit may stay, but then nothing may be added. Where
running work is in question, with ``adds`` for "something is added"::

    use <= limit + (1 - adds) * (use before - limit),    new use <= adds * (all that could be new)

Reads ``x``. As a reason users see it as ``queue-limit``.
"""

from __future__ import annotations

from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, weighted
from solver.problem import RoleKey
from solver.queues import subtree
from solver.workload import ResourceName


def add_queue_limits(variables: Variables) -> None:
    """Add the rule for every limited resource of every queue."""
    for queue in variables.problem.queues:
        members = subtree(variables.problem.queues, queue.name)
        for resource, limit in sorted(queue.limit.items()):
            fixed = held_usage(variables, members, resource)
            new = new_usage(variables, members, resource)
            in_question = sum(
                variables.problem.use(role, resource) * role.replicas
                for job, role in variables.problem.roles()
                if job.queue in members and role.held
            )
            before = fixed + in_question
            if in_question and before > limit:
                _add_above(variables, queue.name, members, resource, limit, before, fixed, new)
            else:
                variables.require(new, None, max(0, limit - fixed))


def _add_above(
    variables: Variables,
    name: str,
    members: tuple[str, ...],
    resource: ResourceName,
    limit: int,
    before: int,
    fixed: int,
    use: Expr,
) -> None:
    """Add the rule where running work that could leave is above the limit."""
    added = [
        (job, role, amount)
        for job, role in variables.problem.roles()
        if job.queue in members and job.running is None
        if (amount := variables.problem.amount(role.shape, resource))
    ]
    keys = [RoleKey(job.name, role.name) for job, role, _ in added]
    adds = variables.boolean(f"adds[{name},{resource}]", _any_of(keys))
    terms = [(x, amount) for job, role, amount in added for _, x in variables.counts(job, role)]
    most = sum(role.replicas * amount for _, role, amount in added)
    variables.require(weighted([*terms, (adds, -most)]), None, 0)
    variables.require(weighted([(use, 1), (adds, before - limit)]), None, before - fixed)


def _any_of(keys: list[RoleKey]) -> Valuation:
    def value(view: PlanView) -> int:
        return int(any(view.started.get(key, 0) for key in keys))

    return value
