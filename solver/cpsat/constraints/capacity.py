"""A node gives no more CPU and memory than it has left.

Rule, for each of the two resources and each node n: ``sum_r amount_r * x[r, n] <= left_n``.

Where work in question holds more than that already (``overfull_n`` in all), it may stay, but then
nothing that needs the resource may come; with ``adds`` for "something comes"::

    sum_r amount_r * x[r, n] <= left_n + overfull_n * (1 - adds_n)
    sum of what comes        <= adds_n * left_n

Reads ``x``. Left out where the resource provably cannot run out before the GPUs do. As a reason
users see it as ``cpu-short`` or ``mem-short``.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.cpsat.variables import Valuation, Variables, never_short
from solver.cpsat.view import PlanView
from solver.linear import weighted
from solver.workload import ResourceName


def add_capacity(variables: Variables) -> None:
    """Add the rule for CPU and memory of every node."""
    for node in variables.busy_nodes:
        _add(variables, node, "cpu_milli")
        _add(variables, node, "memory_mib")


def _add(variables: Variables, node: Node, resource: ResourceName) -> None:
    left = variables.left(node, resource)
    if left is None or never_short(variables, node, resource):
        return
    problem = variables.problem
    terms = [(x, problem.amount(role.shape, resource)) for _, role, x in variables.on_node(node)]
    beyond = variables.overfull(node, resource)
    if not beyond:
        variables.require(weighted(terms), None, variables.size(node) * left)
        return
    adds = variables.boolean(f"adds[{node.name},{resource}]", _comes(node, resource))
    variables.require(weighted([*terms, (adds, beyond)]), None, left + beyond)
    coming = [
        (x, problem.amount(role.shape, resource))
        for _, role, x in variables.on_node(node)
        if not role.held
    ]
    variables.require(weighted([*coming, (adds, -left)]), None, 0)


def _comes(node: Node, resource: ResourceName) -> Valuation:
    def value(view: PlanView) -> int:
        return int(
            any(
                view.problem.amount(view.shape(p), resource) and not view.role(p).held
                for p in view.on(node.name)
            )
        )

    return value
