"""Starting what a plan starts: bindings, pins, lifted gates, templates that learn their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.labels import HOSTNAME, KUEUE
from kube.step import Body, Step, Steps, about, meta

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from kube.importer import Imported
    from kube.records import Pod
    from kube.work import Task, Work

MERGE_PATCH = "application/merge-patch+json"


def start(
    work: Work,
    task: Task,
    at: Mapping[int, str],
    left: Set[str],
    imported: Imported,
    found: Steps,
    lifts: list[Step],
) -> None:
    """The steps of one task; gates are lifted (`lifts`) once all pods are pinned."""
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
            lifts.append(about(pod, "lift", {"spec": {"schedulingGates": gates}}, text))
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
    found.steps.append(about(pod, "pin", body, f"pin pod {pod.full_name} to {node}"))


def _binding(pod: Pod, node: str) -> Step:
    who = meta(pod) | ({"uid": pod.uid} if pod.uid else {})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": who,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return about(pod, "bind", body, f"bind pod {pod.full_name} to {node}")


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
