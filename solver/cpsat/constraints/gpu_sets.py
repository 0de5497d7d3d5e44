"""Where GPUs differ in model or links, every replica gets very definite ones.

Rule, for each such node n, each class c of requests and each GPU i::

    sum_S sets[n, c, S] = sum over roles r of class c of x[r, n]
    sum over sets S that contain i of sets[n, c, S] + open[n, i] <= 1

S runs over the idle GPU sets of the wanted size and models; with a required link only over those
that NVLink connects, for a gang that must stay in one island only over those inside one. What runs
already can only keep the sets that it holds.

Creates ``sets``. As a reason users see it as ``no-nvlink-set`` or ``model-mismatch``.
"""

from __future__ import annotations

from itertools import combinations

from solver.cluster import Node
from solver.cpsat.devices import (
    DeviceClass,
    Devices,
    device_class,
    held_there,
    names_gpus,
    usable,
)
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.fit import idle_allowed
from solver.linear import Expr, weighted
from solver.workload import LinkRule
from topology.scoring import GpuSet, is_linked


def add_gpu_sets(variables: Variables, devices: Devices) -> None:
    """Add the rule on every node whose GPUs differ."""
    for node in variables.busy_nodes:
        if names_gpus(variables, node):
            variables.check_time()
            _add_node(variables, devices, node)


def _add_node(variables: Variables, devices: Devices, node: Node) -> None:
    wanted: dict[DeviceClass, list[Expr]] = {}
    held: dict[DeviceClass, tuple[GpuSet, ...]] = {}
    for job, role, x in variables.on_node(node):
        if role.shape.gpus:
            cls = device_class(job, role)
            wanted.setdefault(cls, []).append(x)
            if role.held:
                held[cls] = tuple(usable(node, r) for r in held_there(role, node))
    by_class = devices.sets.setdefault(node.name, {})
    for cls, counts in wanted.items():
        by_class[cls] = {
            gpus: variables.boolean(f"set[{node.name}:{gpus}]", _value(node, cls, gpus))
            for gpus in held.get(cls) or candidate_sets(variables, node, cls)
        }
        terms = [(y, 1) for y in by_class[cls].values()] + [(x, -1) for x in counts]
        variables.require(weighted(terms), 0, 0)
    for gpu in variables.state(node).idle_gpus:
        opened = devices.open.get(node.name, {}).get(gpu)
        users = [(y, 1) for y in devices.taking(node, gpu)]
        if opened is not None:
            users.append((opened, 1))
        if len(users) > 1:
            variables.require(weighted(users), None, 1)


def candidate_sets(variables: Variables, node: Node, cls: DeviceClass) -> tuple[GpuSet, ...]:
    """The idle GPU sets that a replica of the class may get."""
    shape = cls.shape
    idle = idle_allowed(node, shape, variables.state(node))
    pools = [idle]
    if cls.job:
        pools = [tuple(g for g in idle if g in island) for island in node.topology.parts]
    found = (gpus for pool in pools for gpus in combinations(pool, shape.gpus))
    if shape.link is LinkRule.REQUIRED:
        found = (gpus for gpus in found if is_linked(node.topology, gpus))
    return tuple(found)


def _value(node: Node, cls: DeviceClass, gpus: GpuSet) -> Valuation:
    def chosen(view: PlanView) -> int:
        pairs = view.remember(("sets", node.name), lambda: _read(view, node))
        return int((cls, gpus) in pairs)

    return chosen


def _read(view: PlanView, node: Node) -> set[tuple[DeviceClass, GpuSet]]:
    return {
        (device_class(view.problem.job_by_name[p.job], view.role(p)), tuple(sorted(p.gpus)))
        for p in view.on(node.name)
        if view.shape(p).gpus
    }
