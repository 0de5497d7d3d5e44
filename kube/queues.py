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
    """A Queue of Volcano: guaranteed or deserved, capability, weight."""
    spec = obj.map("spec")
    deserved = spec.amounts("deserved") or spec.map("guarantee").amounts("resource")
    limit = spec.amounts("capability")
    return Queue(
        key=QueueKey("Volcano", name),
        parent=QueueKey("Volcano", spec.text("parent"))
        if spec.text("parent") not in ("", "root")
        else None,
        weight=Fraction(spec.whole("weight", 1, 0)),
        priority=spec.whole("priority", 0),
        quota={key: min(amount, limit.get(key, amount)) for key, amount in deserved.items()},
        limit=limit,
        held="" if obj.map("status").text("state", "Open") == "Open" else STOPPED,
    )


def kai_queue(name: str, obj: Fields) -> Queue:
    """A Queue of KAI: GPUs, thousandths of cores and megabytes; -1 is without end."""
    spec = obj.map("spec")
    quota: dict[str, Fraction] = {}
    limit: dict[str, Fraction] = {}
    scale = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(MEGABYTE)}
    resources = spec.map("resources")
    remarks = []
    for resource, unit in scale.items():
        entry = resources.map(resource)
        if _given(entry, "limit"):
            limit[resource] = entry.amount("limit") * unit
        if _given(entry, "quota"):
            quota[resource] = entry.amount("quota") * unit
        elif entry.has("quota") and resource in limit:
            quota[resource] = limit[resource]
        elif entry.has("quota"):
            remarks.append(f"quotas of {resource} without end")
    for resource, amount in limit.items():
        quota[resource] = min(quota.get(resource, Fraction(0)), amount)
    gpu = resources.map("gpu")
    return Queue(
        key=QueueKey("KAI", name),
        parent=QueueKey("KAI", spec.text("parentQueue")) if spec.text("parentQueue") else None,
        weight=gpu.amount("overQuotaWeight") if gpu.has("overQuotaWeight") else None,
        priority=spec.whole("priority", 0),
        quota=quota,
        limit=limit,
        remarks=tuple(remarks),
    )


def _given(entry: Fields, key: str) -> bool:
    """Whether an amount is there and has an end: -1 has none."""
    return entry.has(key) and entry.text(key) not in ("-1", "-1.0")
