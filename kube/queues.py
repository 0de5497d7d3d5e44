"""Queues of Kueue, Volcano and KAI, and priority classes, to records."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kube.records import LocalQueue, Nominal, Queue, QueueKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from specs.importers.fields import Fields

MEGABYTE = 10**6
STOPPED = "which is stopped"
CLOSED = "which is open to no namespace (no namespaceSelector)"
FINER = {
    "preemption": "preemption rules of ClusterQueues: preempt_for of the spec holds instead",
    "admissionChecks": "admission checks of ClusterQueues: taken as passed",
    "admissionChecksStrategy": "admission checks of ClusterQueues: taken as passed",
    "flavorFungibility": "flavorFungibility of ClusterQueues: which flavor is tried first",
    "admissionScope": "admissionScope of ClusterQueues: past use moves no order",
}
"""Fields of ClusterQueues that say more than a spec can, and the remark about each."""
STRICT = "StrictFIFO of ClusterQueues: later work may start before earlier work that waits"
NAMESPACES = "namespaceSelectors of ClusterQueues: labels of namespaces are not in the input"
FLAVORS = "flavors of queues count together: where one is used up, another one goes on"
LENDING = "lending limits hold for each borrower alone, not for several together"

VOLCANO = {
    "affinity": "affinity of Volcano queues to groups of nodes",
    "guarantee": "guarantees of Volcano queues are kept free for them: here they are lent",
    "extendClusters": "extendClusters of Volcano queues",
}
KAI = {
    "preemptMinRuntime": "least run times of KAI queues, before which work is not stopped",
    "reclaimMinRuntime": "least run times of KAI queues, before which work is not stopped",
}
"""Fields of other queues that say more than a spec can, and the remark about each."""
VOLCANO_ROOT = "root"
KAI_PRIORITY = 100
"""Priority of a queue of KAI that says none."""


def cluster_queue(name: str, obj: Fields) -> Queue:
    """A ClusterQueue of Kueue."""
    spec = obj.map("spec")
    cohort_name = spec.text("cohortName") or spec.text("cohort")
    held = STOPPED if spec.text("stopPolicy", "None") != "None" else ""
    if not spec.has("namespaceSelector"):
        # As the API has it: null selects nothing, an empty selector everything.
        held = held or CLOSED
    flavors = _flavors(spec)
    remarks = [FINER["preemption"]]
    remarks += [remark for key, remark in FINER.items() if spec.has(key)]
    if spec.text("queueingStrategy") == "StrictFIFO":
        remarks.append(STRICT)
    if spec.map("namespaceSelector"):
        remarks.append(NAMESPACES)
    return Queue(
        key=QueueKey("ClusterQueue", name),
        parent=QueueKey("Cohort", cohort_name) if cohort_name else None,
        weight=_weight(spec),
        quota=_nominal(flavors),
        flavors=flavors,
        held=held,
        remarks=tuple(dict.fromkeys([*remarks, *_remarks(flavors)])),
    )


def cohort(name: str, obj: Fields) -> Queue:
    """A Cohort of Kueue: a queue of queues."""
    spec = obj.map("spec")
    parent = spec.text("parentName") or spec.text("parent")
    flavors = _flavors(spec)
    return Queue(
        key=QueueKey("Cohort", name),
        parent=QueueKey("Cohort", parent) if parent else None,
        weight=_weight(spec),
        quota=_nominal(flavors),
        flavors=flavors,
        remarks=tuple(_remarks(flavors)),
    )


def _flavors(spec: Fields) -> dict[tuple[str, str], Nominal]:
    """What there is of each flavor and resource."""
    return {
        (flavor.text("name"), resource.text("name")): Nominal(
            max(Fraction(0), resource.amount("nominalQuota")),
            *(
                max(Fraction(0), resource.amount(key)) if resource.has(key) else None
                for key in ("borrowingLimit", "lendingLimit")
            ),
        )
        for group in spec.maps("resourceGroups")
        for flavor in group.maps("flavors")
        for resource in flavor.maps("resources")
    }


def _nominal(flavors: Mapping[tuple[str, str], Nominal]) -> dict[str, Fraction]:
    """The quota of each resource, over all flavors."""
    quota: dict[str, Fraction] = {}
    for (_, resource), nominal in flavors.items():
        quota[resource] = quota.get(resource, Fraction(0)) + nominal.quota
    return quota


def _remarks(flavors: Mapping[tuple[str, str], Nominal]) -> Iterator[str]:
    resources = [resource for _, resource in flavors]
    if len(resources) != len(set(resources)):
        yield FLAVORS
    if any(nominal.lending is not None for nominal in flavors.values()):
        yield LENDING


def _weight(spec: Fields) -> Fraction | None:
    sharing = spec.map("fairSharing")
    return sharing.amount("weight") if sharing.has("weight") else None


def local_queue(namespace: str, name: str, obj: Fields) -> tuple[tuple[str, str], LocalQueue]:
    """Namespace and name of a LocalQueue, and what is behind it."""
    spec = obj.map("spec")
    held = STOPPED if spec.text("stopPolicy", "None") != "None" else ""
    return (namespace, name), LocalQueue(spec.text("clusterQueue"), held)


def volcano_queue(name: str, obj: Fields) -> Queue:
    """A Queue of Volcano: deserved or guaranteed, capability, weight; all are below `root`."""
    spec = obj.map("spec")
    deserved = spec.amounts("deserved") or spec.map("guarantee").amounts("resource")
    limit = spec.amounts("capability")
    remarks = [remark for key, remark in VOLCANO.items() if spec.has(key)]
    if spec.has("reclaimable") and not spec.flag("reclaimable"):
        remarks.append("reclaimable: false of Volcano queues: who makes way is of the spec")
    if spec.text("dequeueStrategy") == "fifo":
        remarks.append("dequeueStrategy fifo of Volcano queues: later work may start first")
    if any(key.startswith("volcano.sh/hierarchy") for key in obj.map("metadata").annotations()):
        remarks.append("hierarchy annotations of Volcano queues (hdrf)")
    parent = spec.text("parent") or VOLCANO_ROOT
    return Queue(
        key=QueueKey("Volcano", name),
        parent=QueueKey("Volcano", parent) if name != VOLCANO_ROOT else None,
        weight=Fraction(spec.whole("weight", 1, 0)),
        priority=spec.whole("priority", 0),
        quota={key: min(amount, limit.get(key, amount)) for key, amount in deserved.items()},
        limit=limit,
        held="" if obj.map("status").text("state", "Open") == "Open" else STOPPED,
        remarks=tuple(remarks),
    )


def kai_queue(name: str, obj: Fields) -> Queue:
    """A Queue of KAI: GPUs, thousandths of cores and megabytes.

    -1 is without end. What is not said is 0, as for the scheduler: a limit of nothing, no quota,
    no part of the surplus.
    """
    spec = obj.map("spec")
    quota: dict[str, Fraction] = {}
    limit: dict[str, Fraction] = {}
    scale = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(MEGABYTE)}
    resources = spec.map("resources")
    remarks = [remark for key, remark in KAI.items() if spec.has(key)]
    assumed = []
    for resource, unit in scale.items():
        entry = resources.map(resource)
        if not entry.has("limit"):
            assumed.append(f"KAI queues that say no limit of {resource}: it is 0, none may be used")
        if _finite(entry, "limit"):
            limit[resource] = max(Fraction(0), entry.amount("limit")) * unit
        if _finite(entry, "quota"):
            quota[resource] = max(Fraction(0), entry.amount("quota")) * unit
        elif resource in limit:
            quota[resource] = limit[resource]
        else:
            remarks.append(f"quotas of {resource} without end")
        if entry.has("lendingLimit"):
            remarks.append("lending limits of KAI queues: what they do not use is lent whole")
    for resource, amount in limit.items():
        quota[resource] = min(quota.get(resource, Fraction(0)), amount)
    weight = resources.map("gpu").amount("overQuotaWeight")
    if any(resources.map(key).amount("overQuotaWeight") != weight for key in ("cpu", "memory")):
        remarks.append("weights of CPU and memory of KAI queues: that of GPUs counts")
    return Queue(
        key=QueueKey("KAI", name),
        parent=QueueKey("KAI", spec.text("parentQueue")) if spec.text("parentQueue") else None,
        weight=max(Fraction(0), weight),
        priority=spec.whole("priority", KAI_PRIORITY),
        quota=quota,
        limit=limit,
        remarks=tuple(dict.fromkeys(remarks)),
        assumed=tuple(assumed),
    )


def _finite(entry: Fields, key: str) -> bool:
    """Whether an amount has an end: -1 has none, 0 is what is not said."""
    return entry.text(key) not in ("-1", "-1.0")
