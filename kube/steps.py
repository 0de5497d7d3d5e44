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

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kube.affinity import Neighbourhood
from kube.binding import hindrance
from kube.labels import HOSTNAME, KUEUE
from kube.room import Room
from specs.errors import SpecErrors, SpecFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube.importer import Imported
    from kube.records import Pod
    from kube.work import Task, Work
    from solver.solution import Plan

    AtByRole = Mapping[str, Mapping[int, str]]

MERGE_PATCH = "application/merge-patch+json"
KUEUE_TOPOLOGY = f"{KUEUE}topology"
Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request to the API.

    Parameters
    ----------
    action
        ``cordon``, ``evict``, ``wait``, ``bind``, ``pin``, ``uncordon``, ``lift`` or ``steer``.
    kind, namespace, name
        The object that it is about; nodes have no namespace.
    node
        Where the pod is that a ``wait`` is about.
    body
        What is sent; None for ``wait``.
    text
        The step for people.
    """

    action: str
    kind: str
    name: str
    namespace: str = ""
    node: str = ""
    body: Body | None = None
    text: str


@dataclass
class Steps:
    """The steps of a plan, and what of it they cannot bring about."""

    steps: list[Step] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


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
    evicted = _evicted(plan, imported, found)
    # What evicted pods are made anew as looks for room before a binding takes it.
    targets = {place.node for place in plan.placements} if evicted else set()
    nodes = sorted({pod.node for pod in evicted} | targets)
    closed = [name for name in nodes if not imported.nodes[name].cordoned]
    found.steps += [_cordon(name, True) for name in closed]
    found.steps += [_eviction(pod) for pod in evicted]
    found.steps += [_wait(pod) for pod in evicted]
    lifts: list[Step] = []
    left = _all_left(plan, imported, evicted, found)
    for work, at_by_role in _starts(plan, imported):
        for task in work.tasks:
            _start(work, task, at_by_role[task.role], left, imported, found, lifts)
    found.steps += lifts
    found.steps += [_cordon(name, False) for name in closed]
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


# Making room


def _evicted(plan: Plan, imported: Imported, found: Steps) -> list[Pod]:
    """Pods that are stopped, each once, in the order of the plan."""
    pods = [imported.running[e.job][replica] for e in plan.evictions for replica in e.replicas]
    for move in plan.moves:
        pod = imported.running[move.job][move.replica]
        pods.append(pod)
        found.remarks.append(
            f"{pod.full_name} moves to {move.node}: it is evicted here; the pod that its "
            "controller makes in its place is placed by a plan of the next import"
        )
    unique = {pod.full_name: pod for pod in pods}
    for pod in unique.values():
        if not pod.owned:
            found.remarks.append(f"{pod.full_name} has no controller: nothing makes it anew")
    for job in dict.fromkeys(eviction.job for eviction in plan.evictions):
        if job in imported.admitted:
            found.remarks.append(
                f"{job} is admitted by Kueue: what is made anew of its pods may take the room "
                "back, and its quota stays used. Set spec.active: false on its Workload for as "
                "long as it must stay away"
            )
    return list(unique.values())


def _cordon(name: str, closed: bool) -> Step:
    return Step(
        action="cordon" if closed else "uncordon",
        kind="Node",
        name=name,
        body={"spec": {"unschedulable": closed or None}},
        text=f"{'cordon' if closed else 'uncordon'} node {name}",
    )


def _meta(pod: Pod) -> Body:
    return {"name": pod.name, "namespace": pod.namespace}


def _eviction(pod: Pod) -> Step:
    body: Body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": _meta(pod)}
    if pod.uid:
        body["deleteOptions"] = {"preconditions": {"uid": pod.uid}}
    text = f"evict pod {pod.full_name} from {pod.node}"
    return _about(pod, "evict", body, text)


def _wait(pod: Pod) -> Step:
    text = f"wait until pod {pod.full_name} is gone"
    return replace(_about(pod, "wait", None, text), node=pod.node)


def _about(pod: Pod, action: str, body: Body | None, text: str) -> Step:
    return Step(
        action=action, kind="Pod", namespace=pod.namespace, name=pod.name, body=body, text=text
    )


# Starting


def _starts(plan: Plan, imported: Imported) -> Iterator[tuple[Work, AtByRole]]:
    """Work that starts, and the node of each of its replicas."""
    for job, places in plan.by_job.items():
        work = imported.pending[job]
        at_by_role: dict[str, dict[int, str]] = {task.role: {} for task in work.tasks}
        for place in places:
            at_by_role[place.role][place.replica] = place.node
        yield work, at_by_role


def _all_left(plan: Plan, imported: Imported, evicted: list[Pod], found: Steps) -> set[str]:
    """Waiting pods that are left to their scheduler.

    Who is left is no company for others, so they are looked at again until no more are left.
    """
    around = _neighbourhood(plan, imported, evicted)
    gone = {pod.full_name for pod in evicted}
    staying = [pod for pod in imported.pods if pod.node and pod.full_name not in gone]
    while True:
        room, left = Room(imported.nodes, staying), set(around.absent)
        for work, at_by_role in _starts(plan, imported):
            left |= _left_to_scheduler(work, at_by_role, imported, (around, room), found)
        if left == around.absent:
            return left
        around.absent = left


def _neighbourhood(plan: Plan, imported: Imported, evicted: list[Pod]) -> Neighbourhood:
    """Where pods are once the plan has come true."""
    gone = {pod.full_name for pod in evicted}
    at = {pod.full_name: pod.node for pod in imported.pods if pod.node}
    at = {name: node for name, node in at.items() if name not in gone}
    for place in plan.placements:
        tasks = imported.pending[place.job].tasks
        pods = next(task.pods for task in tasks if task.role == place.role)
        if place.replica < len(pods):
            at[pods[place.replica].full_name] = place.node
    return Neighbourhood(at, [p for p in imported.pods if p.full_name in at], imported.nodes)


def _left_to_scheduler(
    work: Work,
    at_by_role: AtByRole,
    imported: Imported,
    there: tuple[Neighbourhood, Room],
    found: Steps,
) -> set[str]:
    """Waiting pods that a binding would not start rightly; of a gang all: it starts whole."""
    around, room = there
    bindable, left = [], []
    for task in work.tasks:
        for replica, node in sorted(at_by_role[task.role].items()):
            if replica >= len(task.pods):
                continue
            pod = task.pods[replica]
            if pod.full_name in around.absent:
                continue  # that has been said
            why = around.broken(pod)
            if not why and KUEUE_TOPOLOGY in pod.gates:
                why = "Kueue gives it a node of its topology when it lifts its gate"
            if not why and not pod.gates:
                why = hindrance(pod, imported.nodes[node])
            if why := why or room.let_in(pod, node):
                left.append(pod.full_name)
                done = "pinned" if pod.gates else "bound"
                found.remarks.append(
                    f"{pod.full_name} is not {done} to {node}: {why}; it is left to its scheduler, "
                    "which may choose another node"
                )
            else:
                bindable.append(pod.full_name)
    if bindable and work.missing:
        found.remarks.append(
            f"{work.name} is a gang that {work.missing} more pods are to be made of: those that "
            "are there are left to their scheduler, and hold nothing until then"
        )
        left += bindable
    elif left and work.gang and bindable:
        found.remarks.append(f"{work.name} is a gang: its other pods are left to its scheduler too")
        left += bindable
    return set(left)


def _start(
    work: Work,
    task: Task,
    at: Mapping[int, str],
    left: set[str],
    imported: Imported,
    found: Steps,
    lifts: list[Step],
) -> None:
    for replica, node in sorted(at.items()):
        if replica >= len(task.pods):
            continue
        pod = task.pods[replica]
        if not pod.gates:
            if pod.full_name not in left:
                found.steps.append(_binding(pod, node))
            continue
        if pod.full_name not in left:
            _pin(pod, node, imported, found)
        kept = [gate for gate in pod.gates if gate.startswith(KUEUE)]
        if kept:
            found.remarks.append(f"{pod.full_name}: Kueue lifts its own gate when it admits it")
        if len(kept) < len(pod.gates):
            gates = [{"name": gate} for gate in kept] or None
            text = f"lift the scheduling gates of pod {pod.full_name}"
            lifts.append(_about(pod, "lift", {"spec": {"schedulingGates": gates}}, text))
    to_be_made = sorted({node for replica, node in at.items() if replica >= len(task.pods)})
    if to_be_made:
        _steer(work, task, to_be_made, imported, found)


def _pin(pod: Pod, node: str, imported: Imported, found: Steps) -> None:
    """A pod behind gates learns its node, which its scheduler then respects."""
    hostname = imported.nodes[node].labels.get(HOSTNAME)
    if hostname is None:
        found.remarks.append(f"{node} has no label {HOSTNAME}: {pod.full_name} is not pinned")
        return
    body: Body = {"spec": {"nodeSelector": {HOSTNAME: hostname}}}
    found.steps.append(_about(pod, "pin", body, f"pin pod {pod.full_name} to {node}"))


def _binding(pod: Pod, node: str) -> Step:
    meta = _meta(pod) | ({"uid": pod.uid} if pod.uid else {})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return _about(pod, "bind", body, f"bind pod {pod.full_name} to {node}")


def _terms(nodes: list[str], imported: Imported) -> list[Body]:
    """Terms of a node selector of which these nodes satisfy one; a field has one value in each."""
    labels = {node: imported.nodes[node].labels for node in nodes}
    hosts = [labels[node][HOSTNAME] for node in nodes if HOSTNAME in labels[node]]
    one = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": hosts}]}
    names: list[Body] = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in nodes
        if HOSTNAME not in labels[node]
    ]
    return [one, *names] if hosts else names


def _steer(work: Work, task: Task, nodes: list[str], imported: Imported, found: Steps) -> None:
    """Pods that are still to be made: their template learns the nodes of the plan."""
    key = work.key
    names = ", ".join(nodes[:8]) + (", …" if len(nodes) > 8 else "")
    if work.source is None or key.kind != "Job" or task.template.choice.terms is not None:
        found.remarks.append(f"{work.name}: pods to be made belong on {names}; set it by hand")
        return
    rule = {"nodeSelectorTerms": _terms(nodes, imported)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": rule}}
    body: Body = {"spec": {"template": {"spec": {"affinity": affinity}}}}
    found.steps.append(
        Step(
            action="steer",
            kind="Job",
            namespace=key.namespace,
            name=key.name,
            body=body,
            text=f"steer the pods of Job {key} to {names}",
        )
    )
    found.remarks.append(f"{work.name}: its queue still decides when it is admitted")
