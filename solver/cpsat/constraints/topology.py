"""A gang with a required level stays in one group of it: an island, a node, a rack.

Rule, for each such gang j, each of its roles r and each group g of the level::

    sum_g inside[j, g] = start_j
    min_r * inside[j, g] <= sum over nodes n of g of x[r, n] <= replicas_r * inside[j, g]

For ``island`` a group is one NVLink island of one node: GPU sets must lie inside it, and replicas
without GPUs only need the node.

Creates ``inside``. As a reason users see it as ``no-domain-big-enough``.
"""

from __future__ import annotations

from solver.cluster import Node
from solver.cpsat.devices import Devices, device_class, in_one_island, names_gpus
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.linear import Expr, total, weighted
from solver.workload import Job
from topology.scoring import GpuSet


def add_required_topology(variables: Variables, devices: Devices) -> None:
    """Add the rule for every gang that has one."""
    for job in variables.problem.jobs:
        if job.topology is None or not job.topology.required or not job.gang:
            continue
        if in_one_island(job):
            _add_islands(variables, devices, job)
        else:
            _add_groups(variables, job, job.topology.within)


def _add_groups(variables: Variables, job: Job, level: str) -> None:
    problem = variables.problem
    inside: list[Expr] = []
    groups: dict[tuple[str, ...], set[str]] = {}
    for node in variables.busy_nodes:
        groups.setdefault(node.group(level, problem.levels), set()).add(node.name)
    for group, names in groups.items():
        counts = {
            role.name: [(x, 1) for node, x in variables.counts(job, role) if node.name in names]
            for role in job.roles
        }
        if not any(counts.values()):
            continue
        chosen = variables.boolean(f"inside[{job.name},{group[-1]}]", _in_nodes(job, names))
        inside.append(chosen)
        for role in job.roles:
            placed = counts[role.name]
            variables.require(weighted([*placed, (chosen, -role.replicas)]), None, 0)
            variables.require(weighted([*placed, (chosen, -role.min_replicas)]), 0, None)
    variables.require(weighted([(total(inside), 1), (variables.start[job.name], -1)]), 0, 0)


def _in_nodes(job: Job, names: set[str]) -> Valuation:
    return lambda view: int(view.nodes_of(job.name) <= names and view.starts(job.name))


def _add_islands(variables: Variables, devices: Devices, job: Job) -> None:
    inside: list[Expr] = []
    by_node: dict[str, list[Expr]] = {}
    for node in variables.busy_nodes:
        if not any(other.name == job.name for other, _, _ in variables.on_node(node)):
            continue
        named = names_gpus(variables, node)
        for island in node.topology.parts if named else (tuple(range(node.n_gpus)),):
            name = f"inside[{job.name},{node.name}:{island}]"
            chosen = variables.boolean(name, _in_island(job, node, island))
            inside.append(chosen)
            by_node.setdefault(node.name, []).append(chosen)
            if named:
                _only_inside(variables, devices, job, node, island, chosen)
    for role in job.roles:
        for node, x in variables.counts(job, role):
            here = total(by_node[node.name])
            high = variables.high(job, role, node)
            variables.require(weighted([(x, 1), (here, -high)]), None, 0)
    variables.require(weighted([(total(inside), 1), (variables.start[job.name], -1)]), 0, 0)


def _only_inside(
    variables: Variables, devices: Devices, job: Job, node: Node, island: GpuSet, chosen: Expr
) -> None:
    """GPUs of the island go to this gang only if it is the gang's island."""
    classes = {device_class(job, role) for role in job.roles if role.shape.wants_gpu}
    for cls in classes:
        for gpus, y in devices.sets.get(node.name, {}).get(cls, {}).items():
            if gpus[0] in island:
                variables.require(weighted([(y, 1), (chosen, -1)]), None, 0)
        for gpu, count in devices.shares.get(node.name, {}).get(cls, {}).items():
            if gpu in island:
                most = job.replicas
                variables.require(weighted([(count, 1), (chosen, -most)]), None, 0)


def _in_island(job: Job, node: Node, island: GpuSet) -> Valuation:
    def chosen(view: PlanView) -> int:
        places = view.plan.by_job.get(job.name, ())
        if not places or {p.node for p in places} != {node.name}:
            return 0
        used = {gpu for p in places for gpu in p.gpus}
        if not used:  # CPU-only: any island of the node will do, so take the first
            return int(island == node.topology.parts[0] or len(island) == node.n_gpus)
        return int(used <= set(island))

    return chosen
