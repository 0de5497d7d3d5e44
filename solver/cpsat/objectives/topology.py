"""Topology: groups that gangs span beyond the fewest possible, and bandwidth that replicas lose.

For a gang j and a level, ``spans[j, g]`` is 1 where the gang has replicas in group g::

    value = sum_j ( sum_g spans[j, g] - fewest_j )         in groups
    value = sum over sets S of lost(S) * sets[n, c, S]     in GB/s

`fewest_j` depends on how many replicas start; for a gang of fixed size it is a constant times
``start_j``. Where GPUs are interchangeable no bandwidth is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from solver.cpsat.devices import Devices
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, total, weighted
from solver.metrics import FewestGroups, counts_for_spread, spread_counts
from solver.problem import RoleKey
from solver.workload import Job, Role
from topology.scoring import lost_gb_s


def lost_bandwidth(variables: Variables, devices: Devices) -> Expr:
    """GB/s lost against the best GPU sets of each kind of node."""
    return weighted(
        (y, lost_gb_s(variables.problem.node_by_name[name].topology, gpus))
        for name, by_class in devices.sets.items()
        for cls, sets in by_class.items()
        if not cls.role  # those that stay where they are
        for gpus, y in sets.items()
        if len(gpus) > 1
    )


def excess_groups(variables: Variables, level: str) -> Expr:
    """Groups of a level that gangs span beyond the fewest possible."""
    fewest = FewestGroups(variables.problem)
    parts: list[Expr] = []
    for job in variables.problem.jobs:
        roles = [role for role in job.roles if counts_for_spread(job, role.shape)]
        roles = [role for role in roles if variables.counts(job, role)]
        if spread_counts(job) and roles:
            variables.check_time()
            spanned = _spanned(variables, job, roles, level)
            least = _fewest(variables, job, roles, level, fewest)
            parts.append(weighted([(spanned, 1), (least, -1)]))
    return total(parts)


def _spanned(variables: Variables, job: Job, roles: list[Role], level: str) -> Expr:
    members: dict[tuple[str, ...], list[tuple[RoleKey, Expr, int]]] = {}
    names: dict[tuple[str, ...], set[str]] = {}
    for role in roles:
        key = RoleKey(job.name, role.name)
        for node, x in variables.counts(job, role):
            group = node.group(level, variables.problem.levels)
            members.setdefault(group, []).append((key, x, variables.high(job, role, node)))
            names.setdefault(group, set()).add(node.name)
    spans: list[Expr] = []
    for group, counts in members.items():
        span = variables.boolean(
            f"spans[{job.name},{group[-1]}]", _spans(job, roles, frozenset(names[group]))
        )
        spans.append(span)
        for role in roles:
            key = RoleKey(job.name, role.name)
            mine = [(x, high) for owner, x, high in counts if owner == key]
            if mine:
                most = min(role.replicas, sum(high for _, high in mine))
                placed: Iterable[tuple[Expr, int]] = [(x, 1) for x, _ in mine]
                variables.require(weighted([*placed, (span, -most)]), None, 0)
    return total(spans)


def _spans(job: Job, roles: list[Role], nodes: frozenset[str]) -> Valuation:
    counted = {role.name for role in roles}
    return lambda view: int(
        any(p.node in nodes and p.role in counted for p in view.plan.by_job.get(job.name, ()))
    )


def _looked_up(view: PlanView, key: RoleKey, table: tuple[int, ...]) -> int:
    return table[view.started.get(key, 0)]


def _fewest(
    variables: Variables, job: Job, roles: list[Role], level: str, fewest: FewestGroups
) -> Expr:
    """The fewest groups as a function of the replicas started."""
    start = variables.start[job.name]
    if all(role.min_replicas == role.replicas for role in roles):
        least = max(fewest(role.shape, level, role.replicas) for role in roles)
        return weighted([(start, least)])
    by_role: list[Expr] = []
    for role in roles:
        key = RoleKey(job.name, role.name)
        table = [fewest(role.shape, level, count) for count in range(role.replicas + 1)]
        started = total(x for _, x in variables.counts(job, role))
        least_of_role = variables.integer(
            f"fewest[{job.name}/{role.name},{level}]",
            0,
            max(table),
            partial(_looked_up, key=key, table=tuple(table)),
        )
        variables.model.add_element(started, table, least_of_role)
        by_role.append(least_of_role)
    if len(by_role) == 1:
        return by_role[0]
    highest = variables.integer(
        f"fewest[{job.name},{level}]",
        0,
        max(fewest(role.shape, level, role.replicas) for role in roles),
        lambda view: max(
            fewest(role.shape, level, view.started.get(RoleKey(job.name, role.name), 0))
            for role in roles
        ),
    )
    variables.model.add_max_equality(highest, by_role)
    return highest
