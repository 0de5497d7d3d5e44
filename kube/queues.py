"""Queues of Kueue, Volcano and KAI, and priority classes, to records."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kube.records import Queue

if TYPE_CHECKING:
    from kube.requests import Amounts
    from specs.importers.fields import Fields

MEGABYTE = 10**6
LENDING = "lending limits of ClusterQueues: what they do not use is lent whole"
PREEMPTION = "preemption rules of ClusterQueues: preempt_for of the spec holds instead"


def cluster_queue(name: str, obj: Fields) -> Queue:
    """A ClusterQueue of Kueue: nominal quota, and with borrowing limits what it may use at most."""
    spec = obj.map("spec")
    cohort = spec.text("cohortName") or spec.text("cohort")
    quota, limit = _groups(spec, borrows=bool(cohort))
    lends = any(
        resource.has("lendingLimit")
        for group in spec.maps("resourceGroups")
        for flavor in group.maps("flavors")
        for resource in flavor.maps("resources")
    )
    return Queue(
        name=name,
        parent=cohort,
        weight=_weight(spec),
        quota=quota,
        limit=limit,
        held=spec.text("stopPolicy", "None") != "None",
        remarks=(PREEMPTION, LENDING) if lends else (PREEMPTION,),
    )


def cohort(name: str, obj: Fields) -> Queue:
    """A Cohort of Kueue: a queue of queues."""
    spec = obj.map("spec")
    parent = spec.text("parentName") or spec.text("parent")
    quota, limit = _groups(spec, borrows=True)
    return Queue(name=name, parent=parent, weight=_weight(spec), quota=quota, limit=limit)


def _groups(spec: Fields, *, borrows: bool) -> tuple[Amounts, Amounts]:
    """Quota and limit, summed over flavors."""
    quota: dict[str, Fraction] = {}
    extra: dict[str, Fraction | None] = {}
    for group in spec.maps("resourceGroups"):
        for flavor in group.maps("flavors"):
            for resource in flavor.maps("resources"):
                name = resource.text("name")
                quota[name] = quota.get(name, Fraction(0)) + resource.amount("nominalQuota")
                before = extra.get(name, Fraction(0))
                bounded = resource.has("borrowingLimit") or not borrows
                more = resource.amount("borrowingLimit") if borrows else Fraction(0)
                extra[name] = before + more if bounded and before is not None else None
    limit = {name: quota[name] + more for name, more in extra.items() if more is not None}
    return quota, limit


def _weight(spec: Fields) -> Fraction | None:
    sharing = spec.map("fairSharing")
    return sharing.amount("weight") if sharing.has("weight") else None


def local_queue(namespace: str, name: str, obj: Fields) -> tuple[tuple[str, str], str]:
    """Namespace and name of a LocalQueue, and the ClusterQueue behind it."""
    return (namespace, name), obj.map("spec").text("clusterQueue")


def volcano_queue(name: str, obj: Fields) -> Queue:
    """A Queue of Volcano: guaranteed or deserved, capability, weight."""
    spec = obj.map("spec")
    deserved = spec.amounts("deserved") or spec.map("guarantee").amounts("resource")
    limit = spec.amounts("capability")
    return Queue(
        name=name,
        parent=spec.text("parent") if spec.text("parent") != "root" else "",
        weight=Fraction(spec.whole("weight", 1, 0)),
        priority=spec.whole("priority", 0),
        quota={key: min(amount, limit.get(key, amount)) for key, amount in deserved.items()},
        limit=limit,
        held=obj.map("status").text("state", "Open") != "Open",
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
        name=name,
        parent=spec.text("parentQueue"),
        weight=gpu.amount("overQuotaWeight") if gpu.has("overQuotaWeight") else None,
        priority=spec.whole("priority", 0),
        quota=quota,
        limit=limit,
        remarks=tuple(remarks),
    )


def _given(entry: Fields, key: str) -> bool:
    """Whether an amount is there and has an end: -1 has none."""
    return entry.has(key) and entry.text(key) not in ("-1", "-1.0")
