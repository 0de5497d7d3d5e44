"""MIG: the geometry of every GPU is chosen together with the slices that are placed.

GPUs of a node that are alike (model, instances in use, instances that exist, mode) make a class;
on nodes whose GPUs have names each idle GPU is a class of its own. A class of m GPUs is cut in
ways g (`solver.slices.geometries`), counted::

    sum_g cut[n, c, g] <= m                   (= m where the GPUs stay in MIG mode anyway)
    sum over roles r of slices_rp * x[r, n] <= sum_c sum_g have_gp * cut[n, c, g]

for every profile p. That is exact: what a GPU can hold is any part of one of its geometries.
Where a wish means different profiles on different models, ``served[n, wish, model]`` says which
model serves how many. A GPU that is cut is no whole GPU (`constraints.gpu_count`,
`constraints.gpu_sets`), and one plan changes at most so many GPUs as the problem allows.

Creates ``cut`` and ``served``. As a reason users see it as ``gpu-short`` or ``gpu-fragmented``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from ortools.sat.python import cp_model

from solver.cluster import Node
from solver.cpsat.devices import CutClass, Devices, Wish, names_gpus
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.geometry import wished_slices
from solver.linear import Expr, weighted
from solver.matching import matched
from solver.slices import geometries, wanted_profiles
from solver.solution import PlacedInstance
from solver.workload import Slice
from topology.mig.layouts import Instance, multiset
from topology.mig.tables import MigTable


def add_mig(variables: Variables, devices: Devices) -> None:
    """Add the rule on every node that slices could be placed on."""
    if not variables.problem.has_slices:
        return
    wishes = wished_slices(variables.problem)
    for node in variables.nodes:
        if not any(table is not None for table in node.mig_tables):
            continue
        wanted = any(role.shape.slices for _, role, _ in variables.on_node(node))
        if wanted or node.mig_gpus:
            variables.check_time()
            _add_classes(variables, devices, node, wishes)
        if wanted:
            _add_demand(variables, devices, node)


def _add_classes(
    variables: Variables, devices: Devices, node: Node, wishes: tuple[Slice, ...]
) -> None:
    members: dict[tuple[object, ...], list[int]] = {}
    by_name = names_gpus(variables, node)
    idle = set(variables.state(node).idle_gpus)
    for gpu, table in enumerate(node.mig_tables):
        fixed = gpu in node.mig_gpus
        if table is None or gpu in node.unhealthy_gpus:
            continue
        if not fixed and not (gpu in node.cuttable_gpus and gpu in idle):
            continue
        alone = gpu if by_name and not fixed else -1
        key = (table, node.used_layouts[gpu], node.idle_layouts[gpu], fixed, gpu in node.mig_mode)
        model = node.topology.gpu_models[gpu]
        members.setdefault((*key, alone, model), []).append(gpu)
    for gpus in members.values():
        first = gpus[0]
        table = node.mig_tables[first]
        assert table is not None
        ways = geometries(
            table,
            node.used_layouts[first],
            node.idle_layouts[first],
            wanted_profiles(wishes, table),
            first in node.mig_mode,
        )
        cls = CutClass(node, tuple(gpus), table, ways, wanted_profiles(wishes, table))
        for number in range(len(ways)):
            name = f"cut[{node.name}:{','.join(map(str, gpus))},{number}]"
            value = partial(_cut_value, cls=cls, number=number)
            cls.counts.append(variables.integer(name, 0, len(gpus), value))
        devices.cuts.setdefault(node.name, []).append(cls)
        low = len(gpus) if cls.stays_cut else 0
        variables.require(weighted([(y, 1) for y in cls.counts]), low, len(gpus))


def _add_demand(variables: Variables, devices: Devices, node: Node) -> None:
    """Slices placed on a node are no more than its geometries have, profile by profile."""
    demand: dict[Wish, list[tuple[cp_model.IntVar, int]]] = {}
    for _, role, x in variables.on_node(node):
        for wish, count in role.shape.slices:
            demand.setdefault((wish, role.shape.gpu_models), []).append((x, count))
    places = sorted({(c.model, c.table) for c in devices.cuts.get(node.name, [])}, key=_by_model)
    used: dict[tuple[str | None, str], list[tuple[Expr, int]]] = {}
    for (wish, models), terms in demand.items():
        able = [
            (model, profile)
            for model, table in places
            if (profile := wish.on(table)) is not None and (not models or model in models)
        ]
        if len(able) == 1:
            model, profile = able[0]
            used.setdefault((model, profile.name), []).extend(terms)
            continue
        served: list[tuple[Expr, int]] = []
        for model, profile in able:
            most = sum(variables.high_of(x) * count for x, count in terms)
            value = partial(_served_value, node=node, wish=(wish, models), model=model)
            part = variables.integer(f"served[{node.name},{wish},{model}]", 0, most, value)
            devices.served.setdefault(node.name, {}).setdefault((wish, models), {})[model] = part
            served.append((part, 1))
            used.setdefault((model, profile.name), []).append((part, 1))
        variables.require(weighted([*served, *((x, -count) for x, count in terms)]), 0, 0)
    for (model, name), taken in used.items():
        have = [
            (y, -count)
            for cls in devices.cuts.get(node.name, [])
            if cls.model == model
            for y, way in zip(cls.counts, cls.ways, strict=True)
            if (count := sum(instance.profile == name for instance in way.layout))
        ]
        variables.require(weighted([*taken, *have]), None, 0)


def _by_model(place: tuple[str | None, MigTable]) -> str:
    return place[0] or ""


def add_recut_limit(variables: Variables, devices: Devices) -> None:
    """Let a plan change the geometry of no more GPUs than it may."""
    limit = variables.problem.most_recut_gpus
    if limit is not None:
        variables.require(recut_gpus(variables, devices), None, limit)


def recut_gpus(variables: Variables, devices: Devices) -> Expr:
    """GPUs whose geometry or mode the plan changes."""
    terms: list[tuple[Expr, int]] = []
    for node in variables.nodes:
        for cls in devices.cuts.get(node.name, []):
            terms += [(y, 1) for y, w in zip(cls.counts, cls.ways, strict=True) if w.changed]
        for gpu in node.switchable_gpus:
            terms += [(y, 1) for y in devices.taking(node, gpu)]
            if (opened := devices.open.get(node.name, {}).get(gpu)) is not None:
                terms.append((opened, 1))
    return weighted(terms)


def lost_by_cuts(variables: Variables, devices: Devices) -> Expr:
    """Stranded slices of all GPUs that are cut after the plan."""
    terms: list[tuple[Expr, int]] = []
    for classes in devices.cuts.values():
        for cls in classes:
            terms += [(y, way.lost) for y, way in zip(cls.counts, cls.ways, strict=True)]
    return weighted(terms)


def _cut_value(view: PlanView, *, cls: CutClass, number: int) -> int:
    key = ("cuts", cls.node.name, cls.gpus)
    return view.remember(key, lambda: Counter(_ways_of(view, cls)))[number]


def _ways_of(view: PlanView, cls: CutClass) -> list[int]:
    """The way of each GPU of a class that is cut in a plan: the best one that has its instances."""
    found = []
    for gpu in cls.gpus:
        used = view.instances(cls.node.name).get(gpu, ())
        if used or cls.stays_cut:
            found.append(_way(cls, used))
    return found


def _way(cls: CutClass, used: tuple[Instance, ...]) -> int:
    def covers(number: int) -> bool:
        way = cls.ways[number]
        if way.changed:
            return Counter(dict(multiset(used))) <= Counter(dict(multiset(way.layout)))
        return set(used) <= set(way.layout)

    able = [number for number in range(len(cls.ways)) if covers(number)]
    return min(able, key=lambda n: (cls.ways[n].changed, cls.ways[n].lost, n))


def _served_value(view: PlanView, *, node: Node, wish: Wish, model: str | None) -> int:
    """Slices of a wish that GPUs of a model serve in a plan."""
    total = 0
    for placement in view.on(node.name):
        shape = view.shape(placement)
        if shape.gpu_models != wish[1]:
            continue
        wishes = [other for other, count in shape.slices for _ in range(count)]
        given = placement.instances
        serves = partial(_serves, node, wishes, given)
        for entry, number in matched(len(wishes), len(given), serves).items():
            mine = wishes[number] == wish[0]
            total += mine and node.topology.gpu_models[given[entry].gpu] == model
    return total


def _serves(
    node: Node, wishes: Sequence[Slice], given: Sequence[PlacedInstance], wish: int, entry: int
) -> bool:
    table = node.mig_tables[given[entry].gpu]
    profile = None if table is None else wishes[wish].on(table)
    return profile is not None and profile.name == given[entry].instance.profile
