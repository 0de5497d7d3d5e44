"""Guarantee: the most that queues use within their quotas.

Value: ``sum of min(used, quota)`` of one resource, over the members at one depth of the tree of
queues (`solver.queues`); unit milli-GPU, milli-CPU or MiB.
"""

from __future__ import annotations

from solver.cpsat.usage import held_usage, new_usage
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, total, weighted
from solver.metrics import member_usage, usage
from solver.queues import Member
from solver.workload import ResourceName


def guaranteed(variables: Variables, resource: ResourceName, depth: int) -> Expr:
    """The expression for one resource at one depth."""
    parts: list[Expr] = []
    levels = variables.problem.queue_tree.levels
    for member in levels[depth] if levels else ():
        quota = member.quota.get(resource, 0)
        held = held_usage(variables, member.queues, resource)
        if held >= quota:
            parts.append(quota)
            continue

        def within(view: PlanView, member: Member = member, quota: int = quota) -> int:
            return min(member_usage(member, usage(view.problem, view.plan))[resource], quota)

        part = variables.integer(f"guaranteed[{member.name},{resource}]", 0, quota, within)
        new = new_usage(variables, member.queues, resource)
        variables.require(weighted([(part, 1), (new, -1)]), None, held)
        parts.append(part)
    return total(parts)
