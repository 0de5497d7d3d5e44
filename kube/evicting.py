"""Making room: what is stopped for a plan, behind which cordons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kube.step import Body, Step, Steps, about, meta

if TYPE_CHECKING:
    from kube.importer import Imported
    from kube.records import Pod
    from solver.solution import Plan


def evicted_pods(plan: Plan, imported: Imported, found: Steps) -> list[Pod]:
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


def cordon(name: str, closed: bool) -> Step:
    """Close a node to new pods, or take that back."""
    return Step(
        action="cordon" if closed else "uncordon",
        kind="Node",
        name=name,
        body={"spec": {"unschedulable": closed or None}},
        text=f"{'cordon' if closed else 'uncordon'} node {name}",
    )


def eviction(pod: Pod) -> Step:
    """Ask the Eviction API, which respects PodDisruptionBudgets, for this very pod."""
    body: Body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta(pod)}
    if pod.uid:
        body["deleteOptions"] = {"preconditions": {"uid": pod.uid}}
    text = f"evict pod {pod.full_name} from {pod.node}"
    return about(pod, "evict", body, text)


def wait(pod: Pod) -> Step:
    """Go on when the pod has left its node."""
    text = f"wait until pod {pod.full_name} is gone"
    return replace(about(pod, "wait", None, text), node=pod.node)
