"""What a plan makes of the MIG geometry: GPUs that change, slices that are then lost.

All of it follows from the placements. A GPU is cut by the instances that replicas get on it;
instances that exist and are in nobody's way stay; a GPU in MIG mode that a whole-GPU replica (or a
share) gets is switched back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from solver.cluster import Node
from solver.problem import Problem
from solver.slices import lost_slices, wanted_profiles
from solver.solution import PlacedInstance, Plan
from solver.state import States
from solver.workload import Slice
from topology.mig.creation import Creation, creation_order
from topology.mig.layouts import Instance, Layout, fits, layouts, multiset, possibilities
from topology.mig.tables import MigTable, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan:
    """What becomes of one GPU.

    Parameters
    ----------
    placed
        Instances that replicas of the plan get, with the job.
    kept
        Instances that stay: in use, or in nobody's way.
    destroy
        Instances that make way; nobody uses them.
    creation
        New instances in the order in which they are made.
    switch
        ``on`` or ``off`` where the MIG mode changes.
    """

    node: str
    gpu: int
    model: str | None
    table: MigTable
    placed: tuple[tuple[Instance, str], ...]
    kept: tuple[tuple[Instance, str], ...]
    destroy: Layout
    creation: Creation
    switch: str = ""

    @property
    def final(self) -> tuple[tuple[Instance, str], ...]:
        """All instances afterwards, each with who uses it (empty: nobody)."""
        return tuple(sorted({**dict(self.kept), **dict(self.placed)}.items()))

    @property
    def changed(self) -> bool:
        """Whether anything is created, destroyed or switched."""
        return bool(self.destroy or self.creation.order or self.switch)


def gpu_plans(problem: Problem, plan: Plan) -> tuple[GpuPlan, ...]:
    """Every GPU that is in MIG mode before or after the plan, in order of nodes."""
    found: list[GpuPlan] = []
    for node in problem.nodes:
        placed = _placed(plan, node)
        whole = {gpu for p in plan.by_node.get(node.name, ()) for gpu in p.gpus}
        for gpu, table in enumerate(node.mig_tables):
            if table is not None and (gpu in placed or gpu in node.mig_mode):
                found.append(_gpu_plan(node, gpu, table, placed.get(gpu, {}), gpu in whole))
    return tuple(found)


def _placed(plan: Plan, node: Node) -> dict[int, dict[Instance, str]]:
    table: dict[int, dict[Instance, str]] = {}
    for placement in plan.by_node.get(node.name, ()):
        for entry in placement.instances:
            table.setdefault(entry.gpu, {})[entry.instance] = placement.job
    return table


def _gpu_plan(
    node: Node, gpu: int, table: MigTable, placed: Mapping[Instance, str], whole: bool
) -> GpuPlan:
    held = {h.instance: h.used_by for h in node.instances if h.gpu == gpu and h.used_by}
    idle = node.idle_layouts[gpu]
    kept: dict[Instance, str] = dict(held)
    destroy: list[Instance] = []
    for instance in idle:
        if instance in placed:
            continue
        stays = not whole and fits(
            table, (*held, *placed, *(i for i in kept if i not in held), instance)
        )
        if stays:
            kept[instance] = ""
        else:
            destroy.append(instance)
    create = [instance for instance in placed if instance not in idle]
    there = [*kept, *(instance for instance in placed if instance in idle)]
    switch = ""
    if gpu not in node.mig_mode and placed:
        switch = "on"
    elif whole:
        switch = "off"
    return GpuPlan(
        node=node.name,
        gpu=gpu,
        model=node.topology.gpu_models[gpu],
        table=table,
        placed=tuple(sorted(placed.items())),
        kept=tuple(sorted(kept.items())),
        destroy=tuple(sorted(destroy)),
        creation=creation_order(table, create, there),
        switch=switch,
    )


def recut_gpus(problem: Problem, plan: Plan) -> int:
    """GPUs whose geometry or MIG mode a plan changes."""
    changed = 0
    for node in problem.nodes:
        placements = plan.by_node.get(node.name, ())
        if not placements or not any(node.mig_tables):
            continue
        placed = _placed(plan, node)
        changed += sum(not set(made) <= set(node.idle_layouts[gpu]) for gpu, made in placed.items())
        whole = {gpu for p in placements for gpu in p.gpus}
        changed += len(whole & node.switchable_gpus)
    return changed


def stranded_slices(problem: Problem, states: States) -> int:
    """Memory and compute slices of cut GPUs that none of the wanted profiles can use.

    A GPU is cut when it stays in MIG mode or holds instances. Wanted are the profiles that the
    pending jobs ask for.
    """
    wishes = wished_slices(problem)
    lost = 0
    for node in problem.nodes:
        state = states[node.name]
        for gpu, table in enumerate(node.mig_tables):
            if table is None or gpu in node.unhealthy_gpus:
                continue
            layout = state.layout(gpu)
            if layout or gpu in node.mig_gpus:
                lost += lost_slices(table, layout, wanted_profiles(wishes, table))
    return lost


def wished_slices(problem: Problem) -> tuple[Slice, ...]:
    """Every slice that a pending job asks for."""
    return tuple(sorted({wish for _, role in problem.roles() for wish, _ in role.shape.slices}))


def reseated(problem: Problem, plan: Plan) -> Plan:
    """The same plan with the starts of new instances chosen so that most remains possible.

    Each GPU keeps what is placed on it. Instances that exist are taken over where that is all a
    GPU needs; otherwise, of all layouts of the same profiles the one that loses the fewest wanted
    slices, and then leaves most layouts of the rest open.
    """
    if not any(placement.instances for placement in plan.placements):
        return plan
    wishes = wished_slices(problem)
    moved: dict[tuple[str, int], dict[Instance, Instance]] = {}
    for name in plan.by_node:
        node = problem.node_by_name[name]
        for gpu, placed in _placed(plan, node).items():
            table = node.mig_tables[gpu]
            if table is None or set(placed) <= set(node.idle_layouts[gpu]):
                continue
            before = tuple(sorted(placed))
            wanted = wanted_profiles(wishes, table)
            after = _best_layout(table, node.used_layouts[gpu], before, wanted)
            moved[name, gpu] = _renamed(before, after)
    placements = (
        replace(
            placement,
            instances=tuple(
                sorted(
                    PlacedInstance(
                        e.gpu, moved.get((placement.node, e.gpu), {}).get(e.instance, e.instance)
                    )
                    for e in placement.instances
                )
            ),
        )
        if placement.instances
        else placement
        for placement in plan.placements
    )
    return Plan.of(placements, plan.evictions, plan.moves)


@lru_cache(maxsize=16384)
def _best_layout(
    table: MigTable, used: Layout, placed: Layout, wanted: tuple[Profile, ...]
) -> Layout:
    kinds = tuple(dict.fromkeys(table.by_name[instance.profile] for instance in placed))
    same = (c for c in layouts(table, kinds, used) if multiset(c) == multiset(placed))

    def worth(layout: Layout) -> tuple[int, int, tuple[int, ...]]:
        whole = tuple(sorted((*used, *layout)))
        lost = lost_slices(table, whole, wanted)
        return (-lost, possibilities(table, table.base, whole), tuple(i.start for i in layout))

    return max(same, key=worth)


def _renamed(before: Layout, after: Layout) -> dict[Instance, Instance]:
    """Each instance to the one that takes its place, profile by profile."""
    names: dict[Instance, Instance] = {}
    for profile in {instance.profile for instance in before}:
        old = [instance for instance in before if instance.profile == profile]
        new = [instance for instance in after if instance.profile == profile]
        names |= dict(zip(old, new, strict=True))
    return names
