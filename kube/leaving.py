"""What is left to its scheduler: waiting pods that a binding would not start, or not rightly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kube.affinity import Neighbourhood
from kube.binding import hindrance
from kube.labels import KUEUE
from kube.room import Room
from kube.step import Steps, starts
from solver.solution import Plan

if TYPE_CHECKING:
    from kube.importer import Imported
    from kube.step import AtByRole
    from kube.work import Work

KUEUE_TOPOLOGY = f"{KUEUE}topology"


@dataclass
class Left:
    """Full names of pods that are left; of those, the ones that cannot run where the plan has them.

    The others run there as soon as their scheduler has done what a binding does not.
    """

    names: set[str] = field(default_factory=set)
    barred: set[str] = field(default_factory=set)


def without_vain(plan: Plan, imported: Imported, found: Steps) -> tuple[Plan, Left]:
    """The plan without evictions that make room only for pods that are barred, and who is left.

    Where an eviction falls away its pods stay, so that all is looked at again.
    """
    spared: list[str] = []
    left = Left()
    while True:
        _leave_all(plan, imported, left, found)
        vain = _vain(plan, imported, left)
        if not vain:
            break
        spared += vain
        kept = [eviction for eviction in plan.evictions if eviction.job not in vain]
        plan = Plan.of(plan.placements, kept, plan.moves)
    found.remarks += [
        f"{job} is not evicted: nothing that the plan starts in its place can run there"
        for job in spared
    ]
    return plan, left


def _vain(plan: Plan, imported: Imported, left: Left) -> list[str]:
    """Jobs whose nodes the plan starts something on, all of which is barred."""
    open_, barred = set[str](), set[str]()
    for work, at_by_role in starts(plan, imported):
        for task in work.tasks:
            for replica, node in at_by_role[task.role].items():
                made = replica < len(task.pods)
                out = made and task.pods[replica].full_name in left.barred
                (barred if out else open_).add(node)
    open_ |= {move.node for move in plan.moves}
    found = []
    for eviction in plan.evictions:
        nodes = {imported.running[eviction.job][n].node for n in eviction.replicas}
        if nodes & barred and not nodes & open_:
            found.append(eviction.job)
    return found


def _leave_all(plan: Plan, imported: Imported, left: Left, told: Steps) -> None:
    """Who is left is no company for others, so all are looked at until no more are left."""
    gone = {
        imported.running[job][replica].full_name
        for job, replicas in plan.displaced.items()
        for replica in replicas
    }
    around = _neighbourhood(plan, imported, gone)
    staying = [pod for pod in imported.pods if pod.node and pod.full_name not in gone]
    while True:
        around.absent = set(left.names)
        room, before = Room(imported.nodes, staying), len(left.names)
        for work, at_by_role in starts(plan, imported):
            _leave(work, at_by_role, imported, (around, room), left, told)
        if len(left.names) == before:
            return


def _neighbourhood(plan: Plan, imported: Imported, gone: set[str]) -> Neighbourhood:
    """Where pods are once the plan has come true."""
    at = {pod.full_name: pod.node for pod in imported.pods if pod.node}
    at = {name: node for name, node in at.items() if name not in gone}
    for place in plan.placements:
        tasks = imported.pending[place.job].tasks
        pods = next(task.pods for task in tasks if task.role == place.role)
        if place.replica < len(pods):
            at[pods[place.replica].full_name] = place.node
    return Neighbourhood(at, [p for p in imported.pods if p.full_name in at], imported.nodes)


def _leave(
    work: Work,
    at_by_role: AtByRole,
    imported: Imported,
    there: tuple[Neighbourhood, Room],
    left: Left,
    told: Steps,
) -> None:
    """Waiting pods that a binding would not start rightly; of a gang all: it starts whole."""
    around, room = there
    bindable: list[str] = []
    some = is_barred = False
    for task in work.tasks:
        for replica, node in sorted(at_by_role[task.role].items()):
            if replica >= len(task.pods):
                continue
            pod = task.pods[replica]
            if pod.full_name in around.absent:
                continue  # that has been said
            barred = around.broken(pod)
            slow = ""
            if KUEUE_TOPOLOGY in pod.gates:
                slow = "Kueue gives it a node of its topology when it lifts its gate"
            elif not pod.gates:
                slow = hindrance(pod, imported.nodes[node])
            if not barred and not slow:
                barred = room.let_in(pod, node)
            if not barred and not slow:
                bindable.append(pod.full_name)
                continue
            some = True
            is_barred |= bool(barred)
            left.names.add(pod.full_name)
            if barred:
                left.barred.add(pod.full_name)
            done = "pinned" if pod.gates else "bound"
            told.remarks.append(
                f"{pod.full_name} is not {done} to {node}: {barred or slow}; it is left to its "
                "scheduler, which may choose another node"
            )
    if bindable and work.missing:
        told.remarks.append(
            f"{work.name} is a gang that {work.missing} more pods are to be made of: those that "
            "are there are left to their scheduler, and hold nothing until then"
        )
    elif bindable and work.gang and some:
        told.remarks.append(f"{work.name} is a gang: its other pods are left to its scheduler too")
    else:
        return
    left.names.update(bindable)
    if is_barred or work.missing:
        left.barred.update(bindable)
