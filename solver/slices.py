"""MIG slices on the GPUs of a node: where instances can go, how many, and what is then lost.

A GPU takes instances when its MIG mode is on for good, when it is cut already, or when it may be
cut and nobody holds any of it. Instances in use never move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from solver.cluster import GPU_MILLI, MigInstance, Node
from solver.problem import Problem
from solver.solution import PlacedInstance
from solver.state import NodeState, States
from solver.workload import Shape, Slice
from topology.mig.layouts import (
    Instance,
    Layout,
    best_start,
    layouts,
    multiset,
    occupied_mask,
    open_starts,
)
from topology.mig.tables import MigTable, Profile

MOST_TRIES = 2000
"""Seats that are looked at for one replica with several slices before it is given up."""


def slice_gpus(node: Node, shape: Shape, state: NodeState) -> list[int]:
    """GPUs on which instances for the shape could be made in this state."""
    models = node.topology.gpu_models
    return [
        gpu
        for gpu, table in enumerate(node.mig_tables)
        if table is not None
        and gpu not in node.unhealthy_gpus
        and (not shape.gpu_models or models[gpu] in shape.gpu_models)
        and (
            gpu in node.mig_gpus
            or (
                gpu in node.cuttable_gpus
                and (state.layout(gpu) or state.gpu_left[gpu] == GPU_MILLI)
            )
        )
    ]


@lru_cache(maxsize=65536)
def most_beside(table: MigTable, layout: Layout, profile: Profile) -> int:
    """Most further instances of one profile beside a layout."""
    return max(len(found) for found in layouts(table, (profile,), layout))


def most_replicas(node: Node, shape: Shape, state: NodeState) -> int:
    """At most so many replicas of a shape with slices; exact where it asks for one kind of slice.

    Each kind of slice by itself, and the memory slots of all together, bound the number.
    """
    gpus = slice_gpus(node, shape, state)
    bounds = []
    for wish, count in shape.slices:
        rooms = 0
        for gpu in gpus:
            table = node.mig_tables[gpu]
            profile = wish.on(table) if table is not None else None
            if table is not None and profile is not None:
                rooms += most_beside(table, state.layout(gpu), profile)
        bounds.append(rooms // count)
    most = min(bounds)
    if most and len(shape.slices) > 1 and pick_instances(node, shape, state) is None:
        return 0
    return most


def pick_instances(node: Node, shape: Shape, state: NodeState) -> tuple[PlacedInstance, ...] | None:
    """Instances for one replica: fuller GPUs first, each at the start that keeps most open.

    Larger slices choose first. Instances that exist and nobody uses are taken before others are
    made. None where there is no place for all of them.
    """
    gpus = slice_gpus(node, shape, state)
    wishes = [wish for wish, count in shape.slices for _ in range(count)]
    wishes.sort(key=lambda wish: -_largest(node, gpus, wish))
    tries = 0

    def seat(at: int, now: NodeState) -> tuple[PlacedInstance, ...] | None:
        nonlocal tries
        if at == len(wishes):
            return ()
        for placed in _places(node, gpus, wishes[at], now):
            tries += 1
            if tries > MOST_TRIES:
                return None
            rest = seat(at + 1, now.cut((placed,)))
            if rest is not None:
                return (placed, *rest)
        return None

    found = seat(0, state)
    return None if found is None else tuple(sorted(found))


def _largest(node: Node, gpus: Sequence[int], wish: Slice) -> int:
    sizes = [p.size for gpu in gpus if (t := node.mig_tables[gpu]) and (p := wish.on(t))]
    return max(sizes, default=0)


def _places(
    node: Node, gpus: Sequence[int], wish: Slice, state: NodeState
) -> Iterator[PlacedInstance]:
    """Seats of one slice, best first; of GPUs that are alike only the first one."""
    ranked = []
    seen = set()
    for gpu in gpus:
        table, layout = node.mig_tables[gpu], state.layout(gpu)
        profile = wish.on(table) if table is not None else None
        alike = (table, layout, gpu in node.mig_mode, node.idle_layouts[gpu])
        if table is None or profile is None or alike in seen:
            continue
        seen.add(alike)
        start = _start(table, profile, layout, node.idle_layouts[gpu])
        if start is not None:
            exists = Instance(start, profile.name) in node.idle_layouts[gpu]
            taken = sum(table.by_name[instance.profile].size for instance in layout)
            whole = not layout and gpu not in node.mig_mode
            ranked.append(((not exists, whole, -taken, gpu), gpu, Instance(start, profile.name)))
    for _, gpu, instance in sorted(ranked):
        yield PlacedInstance(gpu, instance)


def _start(table: MigTable, profile: Profile, layout: Layout, idle: Layout) -> int | None:
    """The start of an instance that exists, else the one that keeps most open."""
    opened = open_starts(table, layout, profile)
    for instance in idle:
        if instance.profile == profile.name and instance.start in opened:
            return instance.start
    return best_start(table, profile, layout)


def unused(node: Node) -> Node:
    """The node with its instances, of which nobody uses any: they count where few may be cut."""
    instances = tuple(replace(made, used_by="") for made in node.instances)
    return replace(node, instances=instances) if instances else node


def with_instances(node: Node, placed: Iterable[PlacedInstance], used_by: str) -> Node:
    """The node once somebody uses these instances: what nobody uses and is in their way is gone.

    A GPU that was cut for them stays cut, and has left its NVLink island.
    """
    made = tuple(placed)
    if not made:
        return node
    gpus = frozenset(entry.gpu for entry in made)
    used = [MigInstance(gpu=e.gpu, instance=e.instance, used_by=used_by) for e in made]
    slots = {gpu: _mask(node, gpu, [e.instance for e in made if e.gpu == gpu]) for gpu in gpus}
    kept = [
        there
        for there in node.instances
        if there.used_by
        or there.gpu not in gpus
        or not slots[there.gpu] & _mask(node, there.gpu, [there.instance])
    ]
    return replace(
        node,
        topology=node.topology.without_nvlink(gpus - node.mig_mode),
        mig_gpus=node.mig_gpus | gpus,
        mig_mode=node.mig_mode | gpus,
        cuttable_gpus=node.cuttable_gpus - gpus,
        instances=(*kept, *used),
    )


def are_open(node: Node, state: NodeState, placed: Iterable[PlacedInstance]) -> bool:
    """Whether all these instances could be used in this state, one beside the other."""
    for entry in placed:
        table = node.mig_tables[entry.gpu]
        if table is None or (
            not state.layout(entry.gpu)
            and entry.gpu not in node.mig_gpus
            and state.gpu_left[entry.gpu] < GPU_MILLI
        ):
            return False
        profile = table.by_name[entry.instance.profile]
        if entry.instance.start not in open_starts(table, state.layout(entry.gpu), profile):
            return False
        state = state.cut((entry,))
    return True


def _mask(node: Node, gpu: int, layout: Iterable[Instance]) -> int:
    table = node.mig_tables[gpu]
    return 0 if table is None else occupied_mask(table, layout)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A way to cut a GPU beside the instances in use.

    Parameters
    ----------
    layout
        New instances, or such as exist and are taken over.
    changed
        Whether anything is created or destroyed.
    lost
        Slices (memory and compute) that none of the wanted profiles can use then.
    """

    layout: Layout
    changed: bool
    lost: int


@lru_cache(maxsize=4096)
def geometries(
    table: MigTable, used: Layout, idle: Layout, wanted: tuple[Profile, ...], in_mode: bool
) -> tuple[Geometry, ...]:
    """The ways to cut a GPU that no other way makes pointless.

    As it is, with any part of what exists in use; or changed, with a multiset of the wanted
    profiles to which nothing can be added.

    Parameters
    ----------
    in_mode
        Whether the GPU is in MIG mode; otherwise there is no "as it is".
    """
    best: dict[tuple[tuple[str, int], ...], Layout] = {}
    for layout in layouts(table, wanted, used):
        best.setdefault(multiset(layout), layout)
    counters = {key: Counter(dict(key)) for key in best}
    topmost = [k for k in best if not any(counters[k] < other for other in counters.values())]
    names = {profile.name for profile in wanted}
    as_it_is: list[Geometry] = []
    if in_mode:
        existing = tuple(instance for instance in idle if instance.profile in names)
        parts = sorted(_subsets(existing), key=len, reverse=True)
        for part in parts:
            lost = lost_slices(table, tuple(sorted((*used, *part))), wanted)
            if not any(set(part) < set(g.layout) and g.lost <= lost for g in as_it_is):
                as_it_is.append(Geometry(part, False, lost))
    changed = [
        Geometry(
            best[key],
            True,
            _free(table, tuple(sorted((*used, *best[key])))),
        )
        for key in topmost
        if key
    ]
    changed.sort(key=lambda geometry: (geometry.lost, geometry.layout))
    return (*as_it_is, *changed)


def _subsets(layout: Layout) -> Iterator[Layout]:
    for mask in range(1 << len(layout)):
        yield tuple(instance for bit, instance in enumerate(layout) if mask >> bit & 1)


def _free(table: MigTable, layout: Layout) -> int:
    """Memory and compute slices that no instance has."""
    kinds = [table.by_name[instance.profile] for instance in layout]
    memory = table.slots - sum(kind.size for kind in kinds)
    return memory + max(0, table.compute - sum(kind.compute for kind in kinds))


@lru_cache(maxsize=65536)
def lost_slices(table: MigTable, layout: Layout, wanted: tuple[Profile, ...]) -> int:
    """Stranded slices: what is free beside a layout and no packing of wanted profiles can use.

    ``min over packings of (free memory slots - used ones + free compute slices - used ones)``.
    """
    return min(
        _free(table, tuple(sorted((*layout, *packing))))
        for packing in layouts(table, wanted, layout)
    )


@lru_cache(maxsize=256)
def wanted_profiles(wishes: tuple[Slice, ...], table: MigTable) -> tuple[Profile, ...]:
    """The profiles of a model that serve any of these wishes, in the order of the table."""
    found = {profile for wish in wishes if (profile := wish.on(table)) is not None}
    return tuple(profile for profile in table.profiles if profile in found)


def free_slots(problem: Problem, states: States, shape: Shape) -> int:
    """Memory slots of GPUs that slices of the shape could be cut from."""
    total = 0
    for node in problem.nodes:
        state = states[node.name]
        for gpu in slice_gpus(node, shape, state) if node.schedulable else ():
            table = node.mig_tables[gpu]
            if table is not None:
                taken = sum(table.by_name[i.profile].size for i in state.layout(gpu))
                total += table.slots - taken
    return total
