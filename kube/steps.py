"""A plan as steps that realise it on the cluster it was made for: each with its file to review.

In this order, where they are needed: nodes that pods are evicted from or that the plan starts pods
on are cordoned, so that nothing else takes the room, such as what is made anew of evicted pods;
pods are evicted through the Eviction API, which respects PodDisruptionBudgets; when they are gone,
waiting pods are bound to their nodes, as a scheduler would do it, or, where scheduling gates still
hold them, pinned to them; gates are lifted; the cordons are taken back. Pods that a binding alone
does not start, or that it would put where rules between pods forbid it, are left to their
scheduler. Suspended Jobs get the nodes of the plan as node affinity of their template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.evicting import cordon, evicted_pods, eviction, wait
from kube.leaving import without_vain
from kube.starting import start
from kube.step import Step, Steps, starts
from specs.errors import SpecErrors, SpecFault

if TYPE_CHECKING:
    from kube.importer import Imported
    from solver.solution import Plan


def plan_steps(plan: Plan, imported: Imported) -> Steps:
    """Steps that realise a plan.

    Parameters
    ----------
    imported
        The objects that the plan was made from, imported again.

    Raises
    ------
    SpecErrors
        The plan names jobs, replicas or nodes that the objects do not have.
    """
    _check(plan, imported)
    found = Steps()
    plan, left = without_vain(plan, imported, found)
    evicted = evicted_pods(plan, imported, found)
    # What evicted pods are made anew as looks for room before a binding takes it.
    targets = {place.node for place in plan.placements} if evicted else set()
    nodes = sorted({pod.node for pod in evicted} | targets)
    closed = [name for name in nodes if not imported.nodes[name].cordoned]
    found.steps += [cordon(name, True) for name in closed]
    found.steps += [eviction(pod) for pod in evicted]
    found.steps += [wait(pod) for pod in evicted]
    lifts: list[Step] = []
    for work, at_by_role in starts(plan, imported):
        for task in work.tasks:
            start(work, task, at_by_role[task.role], left.names, imported, found, lifts)
    found.steps += lifts
    found.steps += [cordon(name, False) for name in closed]
    if evicted and lifts:
        found.remarks.append(
            "pods whose gates are lifted start by their scheduler: what is made anew of evicted "
            "pods may come before them where it has their priority"
        )
    if not found.steps:
        found.remarks.append("there is nothing to send: no step follows from the plan")
    return found


def _check(plan: Plan, imported: Imported) -> None:
    """The plan and the objects are of the same cluster at the same time."""
    faults = []

    def fault(path: str, rule: str) -> None:
        hint = "Export with the objects that the spec was imported from"
        faults.append(SpecFault(file="plan", path=path, rule=rule, hint=hint))

    for place in plan.placements:
        work = imported.pending.get(place.job)
        tasks = {task.role: task for task in work.tasks} if work else {}
        if work is None:
            fault(f"placements[{place.job}]", "no pending job of the objects has this name")
        elif place.role not in tasks or place.replica >= tasks[place.role].count:
            fault(f"placements[{place.job}]", f"the job has no {place.role} {place.replica}")
        elif place.node not in imported.nodes:
            fault(f"placements[{place.job}].node", f"no node is named {place.node}")
    for job, replicas in plan.displaced.items():
        if max(replicas) >= len(imported.running.get(job, ())):
            rule = f"no running job of the objects has this name and replica {max(replicas)}"
            fault(f"evictions[{job}]", rule)
    if faults:
        raise SpecErrors(faults)
