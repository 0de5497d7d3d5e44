"""Pods and pod templates to records: what they ask for, where they may run, whose they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kube import claims, volumes
from kube.affinity import HARD_SPREAD, read_host_ports, read_rules, shared_labels
from kube.membership import membership, queue_of
from kube.nodes import REPEATED, UNSCHEDULABLE
from kube.records import GroupKey, Pod, Template, Toleration
from kube.requests import pod_requests
from kube.selectors import read_choice
from specs.models.base import MAX_NODE_GPUS
from specs.models.quantity import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from specs.importers.fields import Fields

RESERVATIONS = ("kai-resource-reservation", "runai-reservation")
"""Namespaces of pods that hold a GPU in the name of those who share it."""

REQUIRED_TOPOLOGY = (
    "kueue.x-k8s.io/podset-required-topology",
    "kai.scheduler/topology-required-placement",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
)
PREFERRED_TOPOLOGY = (
    "kueue.x-k8s.io/podset-preferred-topology",
    "kai.scheduler/topology-preferred-placement",
)
TOPOLOGY_GROUP = "kueue.x-k8s.io/podset-group-name"
EXCLUSIVE = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
)
CORDONED = "toleration of cordoned nodes: they take no new work"
NOMINATED = "the node that its scheduler is making room on"
SCHEDULERS = ("", "default-scheduler", "volcano", "kai-scheduler", "scheduler-plugins-scheduler")
"""Schedulers whose gangs and queues are read."""
FRACTION, FRACTION_MEMORY = "gpu-fraction", "gpu-memory"
FRACTION_DEVICES = "gpu-fraction-num-devices"
OTHER_FRACTIONS = ("gpu-index", "hami.io/vgpu-mode")
GPU_GROUP = "runai-gpu-group"
PREEMPTABLE = "volcano.sh/preemptable"


def read_pod(namespace: str, name: str, obj: Fields) -> Pod | None:
    """The record of a pod; None for one that has ended, or leaves before it had a node.

    Raises
    ------
    ObjectFault
        A field has the wrong type.
    """
    meta, spec, status = obj.map("metadata"), obj.map("spec"), obj.map("status")
    node = spec.text("nodeName")
    leaving = meta.has("deletionTimestamp")
    if status.text("phase") in ("Succeeded", "Failed") or (leaving and not node):
        return None
    labels, annotations = meta.table("labels"), meta.annotations()
    owner = controller(namespace, meta)
    member = membership(namespace, name, labels, annotations, owner)
    template = read_template(meta, spec, status if node else None)
    if template.claims:
        template = replace(template, claims=claims.references(spec, status))
    if not node and status.text("nominatedNodeName"):
        template = replace(template, ignored=(*template.ignored, NOMINATED))
    if namespace in RESERVATIONS:
        template = without_devices(template)
    bound = owner is not None and owner.kind in ("DaemonSet", "Node")
    return Pod(
        namespace=namespace,
        name=name,
        node=node,
        template=template,
        group=member.group,
        role=member.role,
        order=member.order,
        independent=member.independent,
        queue=queue_of(labels, annotations),
        created=meta.text("creationTimestamp"),
        owner=owner,
        gates=tuple(gate.text("name") for gate in spec.maps("schedulingGates")),
        made_by=member.made_by,
        gpu_groups=_gpu_groups(labels),
        fixed="false" in (annotations.get(PREEMPTABLE), labels.get(PREEMPTABLE)),
        bound=bound or "kubernetes.io/config.mirror" in annotations,
        owned=owner is not None,
        leaving=leaving,
        uid=meta.text("uid"),
        labels=shared_labels(tuple(sorted(labels.items()))),
    )


def controller(namespace: str, meta: Fields) -> GroupKey | None:
    """The object that made this one and would make it anew."""
    for reference in meta.maps("ownerReferences"):
        if reference.flag("controller"):
            return GroupKey(reference.text("kind"), namespace, reference.name("name"))
    return None


def read_template(meta: Fields, spec: Fields, status: Fields | None = None) -> Template:
    """What a pod, or a pod of this template, asks for.

    Raises
    ------
    ObjectFault
        A field has the wrong type.
    """
    labels, annotations = meta.table("labels"), meta.annotations()
    topology, together = _topology(annotations)
    spread: str | None = None
    ignored = list(_ignored(spec, annotations))
    rules = tuple(read_rules(spec, labels))
    for rule in rules:
        own = rule.own_namespace and rule.picks(labels)
        if own and not rule.apart and topology is None:
            topology, together = (rule.key, True), "pod affinity"
        elif own and rule.apart and spread is None:
            spread = rule.key
        else:
            word = "pod anti-affinity" if rule.apart else "pod affinity"
            ignored.append(f"{word} to other pods")
    for kind in ("podAffinity", "podAntiAffinity"):
        if spec.map("affinity", kind).has("preferredDuringSchedulingIgnoredDuringExecution"):
            ignored.append("preferred pod affinity or anti-affinity")
    tolerations, left_out = read_tolerations(spec)
    if left_out:
        ignored.append("tolerations that compare numbers, or values of every key")
    share_milli, share_memory = _share(annotations, meta)
    return Template(
        requests=pod_requests(spec, status),
        choice=read_choice(spec),
        tolerations=tolerations,
        share_milli=share_milli,
        share_memory=share_memory,
        share_devices=_share_devices(annotations, meta) if share_milli or share_memory else 1,
        topology=topology,
        topology_group=together,
        spread=spread,
        rules=rules,
        host_ports=tuple(read_host_ports(spec)),
        ignored=tuple(dict.fromkeys(ignored)),
        priority=spec.whole("priority", 0) if spec.has("priority") else None,
        priority_class=spec.text("priorityClassName"),
        claims=claims.references(spec, None),
        volumes=volumes.claim_names(meta, spec),
    )


def without_devices(template: Template) -> Template:
    """The template without its devices: somebody else is said to hold them."""
    kept = {name: amount for name, amount in template.requests.items() if "/" not in name}
    return Template(requests=kept, choice=template.choice, tolerations=template.tolerations)


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Marks of the GPUs that a pod shares: one, or of several each in a label of its own."""
    if labels.get(GPU_GROUP):
        return (labels[GPU_GROUP],)
    several = sorted(key for key in labels if key.startswith(f"{GPU_GROUP}/"))
    return tuple(labels[key] for key in several)


def _topology(annotations: Mapping[str, str]) -> tuple[tuple[str, bool] | None, str]:
    """The topology rule of annotations, and the group of templates that share it."""
    for keys, required in ((REQUIRED_TOPOLOGY, True), (PREFERRED_TOPOLOGY, False)):
        for key in keys:
            if annotations.get(key):
                # Kueue has a rule for each pod set, the others one for each gang.
                whole = "" if key.startswith("kueue.") else key
                return (annotations[key], required), annotations.get(TOPOLOGY_GROUP, whole)
    return None, ""


def _share(annotations: Mapping[str, str], meta: Fields) -> tuple[int, int]:
    """Thousandths of a GPU, or bytes of its memory, that annotations ask for."""
    inner = meta.map("annotations")
    if annotations.get(FRACTION):
        amount = inner.amount(FRACTION)
        if amount > 1:
            raise inner.fault(FRACTION, "a share is at most 1", annotations[FRACTION])
        return -(-amount.numerator * 1000 // amount.denominator), 0
    if annotations.get(FRACTION_MEMORY):
        mib = inner.amount(FRACTION_MEMORY)
        return 0, int(-(-mib // 1)) * MIB
    return 0, 0


def _share_devices(annotations: Mapping[str, str], meta: Fields) -> int:
    """Of how many GPUs a pod wants its share."""
    if not annotations.get(FRACTION_DEVICES):
        return 1
    inner = meta.map("annotations")
    amount = inner.amount(FRACTION_DEVICES)
    if amount.denominator != 1 or not 1 <= amount <= MAX_NODE_GPUS:
        rule = f"a whole number of GPUs, at most {MAX_NODE_GPUS}, is wanted here"
        raise inner.fault(FRACTION_DEVICES, rule, annotations[FRACTION_DEVICES])
    return int(amount)


def read_tolerations(spec: Fields) -> tuple[tuple[Toleration, ...], bool]:
    """Tolerations that a spec has words for, and whether there are others."""
    found, left_out = [], False
    for entry in spec.maps("tolerations"):
        operator, key = entry.text("operator") or "Equal", entry.text("key")
        effect = entry.text("effect")
        known = operator in ("Equal", "Exists") and effect in (
            "",
            "NoSchedule",
            "PreferNoSchedule",
            "NoExecute",
        )
        if not known or (operator == "Equal" and not key):
            left_out = True
            continue
        if key in REPEATED:
            continue  # the nodes of the spec have no such taints
        value = entry.text("value") if operator == "Equal" else ""
        found.append(Toleration(key, operator, value, effect))
    return tuple(dict.fromkeys(found)), left_out


def _ignored(spec: Fields, annotations: Mapping[str, str]) -> Iterator[str]:
    """Features that bear on the place of a pod and that a spec has no word for."""
    if spec.map("affinity", "nodeAffinity").has("preferredDuringSchedulingIgnoredDuringExecution"):
        yield "preferred node affinity"
    for rule in spec.maps("topologySpreadConstraints"):
        hard = rule.text("whenUnsatisfiable") != "ScheduleAnyway"
        yield HARD_SPREAD + ("" if hard else " (soft)")
    for volume in spec.maps("volumes"):
        if volume.has("persistentVolumeClaim") or volume.has("ephemeral"):
            yield volumes.UNKNOWN
    if spec.has("resourceClaims"):
        yield claims.UNCLEAR
    for entry in spec.maps("tolerations"):
        every = not entry.text("key") and entry.text("operator") == "Exists"
        if (every or entry.text("key") == UNSCHEDULABLE) and entry.text("effect") in (
            "",
            "NoSchedule",
        ):
            yield CORDONED
    if spec.text("schedulerName") not in SCHEDULERS:
        yield f"scheduler {spec.text('schedulerName')}: what it does otherwise"
    if spec.has("workloadRef") or spec.has("schedulingGroup"):
        yield "gangs of scheduling.k8s.io"
    if spec.text("preemptionPolicy") == "Never":
        yield "preemptionPolicy Never"
    if any(read_host_ports(spec)):
        yield "host ports"
    if any(key in annotations for key in OTHER_FRACTIONS):
        yield "GPU sharing annotations other than gpu-fraction and gpu-memory"
    if any(key in annotations for key in EXCLUSIVE):
        yield "exclusive topology: others kept away"
