"""A gang with a required level stays in one group of it: an island, a node, a rack.

Rule, for each such gang j, each of its roles r and each group g of the level::

    sum_g inside[j, g] = start_j
    min_r * inside[j, g] <= sum over nodes n of g of x[r, n] <= replicas_r * inside[j, g]

For ``island`` a group is one NVLink island of one node: GPU sets must lie inside it, and replicas
without GPUs only need the node.

Creates ``inside``. As a reason users see it as ``no-domain-big-enough``.
"""

from __future__ import annotations

from collections.abc import Mapping

from solver.cluster import Node
from solver.cpsat.devices import Devices, device_class, in_one_island, names_gpus
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.islands import is_fragile, may_leave, parts_without, remainders
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
        islands: dict[GpuSet, Expr] = {}
        choices = _choices(variables, node) if named else (tuple(range(node.n_gpus)),)
        for island in choices:
            name = f"inside[{job.name},{node.name}:{island}]"
            chosen = variables.boolean(name, _in_island(job, node, choices, island))
            inside.append(chosen)
            by_node.setdefault(node.name, []).append(chosen)
            islands[island] = chosen
        if named:
            _only_inside(variables, devices, job, node, islands)
            _only_whole(variables, devices, node, islands)
    for role in job.roles:
        for node, x in variables.counts(job, role):
            here = total(by_node[node.name])
            high = variables.high(job, role, node)
            variables.require(weighted([(x, 1), (here, -high)]), None, 0)
    variables.require(weighted([(total(inside), 1), (variables.start[job.name], -1)]), 0, 0)


def _choices(variables: Variables, node: Node) -> tuple[GpuSet, ...]:
    """The islands that a node may have after the plan.

    One that cuts could tear apart is there with all that may be left of it; an empty one is for
    gangs without GPUs where all GPUs may be cut.
    """
    if not variables.problem.may_recut:
        return node.topology.parts
    leaving = may_leave(node, variables.state(node))
    found: list[GpuSet] = []
    for part in node.topology.parts:
        found += remainders(node, part, leaving) if is_fragile(node, part, leaving) else [part]
    return (*found, ()) if len(found) > len(node.topology.parts) else tuple(found)


def _only_inside(
    variables: Variables,
    devices: Devices,
    job: Job,
    node: Node,
    islands: Mapping[GpuSet, Expr],
) -> None:
    """GPUs go to this gang only if they are in the gang's island."""
    classes = {device_class(job, role) for role in job.roles if role.shape.wants_gpu}
    for cls in classes:
        for gpus, y in devices.sets.get(node.name, {}).get(cls, {}).items():
            around = [(inside, -1) for part, inside in islands.items() if set(gpus) <= set(part)]
            variables.require(weighted([(y, 1), *around]), None, 0)
        for gpu, count in devices.shares.get(node.name, {}).get(cls, {}).items():
            most = job.replicas
            around = [(inside, -most) for part, inside in islands.items() if gpu in part]
            variables.require(weighted([(count, 1), *around]), None, 0)


def _only_whole(
    variables: Variables, devices: Devices, node: Node, islands: Mapping[GpuSet, Expr]
) -> None:
    """No GPU of an island that a cut would tear is in MIG mode while a gang is in it."""
    if set(islands) == set(node.topology.parts):
        return
    leaving = may_leave(node, variables.state(node))
    for gpu in leaving:
        inside = [(chosen, 1) for part, chosen in islands.items() if gpu in part]
        cut = [(y, 1) for y in devices.cut(node, gpu)]
        if gpu in node.switchable_gpus:
            opened = devices.open.get(node.name, {}).get(gpu)
            whole = [(y, -1) for y in devices.taking(node, gpu)]
            whole += [] if opened is None else [(opened, -1)]
            variables.require(weighted([*inside, *whole]), None, 0)
        variables.require(weighted([*inside, *cut]), None, 1)


def _in_island(job: Job, node: Node, choices: tuple[GpuSet, ...], island: GpuSet) -> Valuation:
    def chosen(view: PlanView) -> int:
        places = view.plan.by_job.get(job.name, ())
        if not places or {p.node for p in places} != {node.name}:
            return 0
        used = {gpu for p in places for gpu in p.gpus}
        return int(island == view.remember(("island", job.name), lambda: home(view, used)))

    def home(view: PlanView, used: set[int]) -> GpuSet:
        if not used:  # CPU-only: any island of the node will do, so take one that is always there
            return () if () in choices else choices[0]
        whole = {gpu for p in view.on(node.name) for gpu in p.gpus}
        gone = {*view.instances(node.name), *(node.switchable_gpus - whole)}
        left = next(part for part in parts_without(node, gone) if used <= set(part))
        around = (part for part in choices if set(left) <= set(part))
        return left if left in choices else next(around)

    return chosen
