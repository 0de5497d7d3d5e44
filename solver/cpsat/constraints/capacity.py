"""A node gives no more CPU and memory than it has left.

Rule, for each of the two resources and each node n: ``sum_r amount_r * x[r, n] <= left_n``.

Reads ``x``. Left out where the resource provably cannot run out before the GPUs do. As a reason
users see it as ``cpu-short`` or ``mem-short``.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.cpsat.variables import Variables, never_short
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
    variables.require(weighted(terms), None, variables.size(node) * left)
