"""Queues of Kueue, Volcano and KAI, and priority classes, to records."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kube.records import Queue

if TYPE_CHECKING:
    from kube.fields import Fields
    from kube.requests import Amounts

MEGABYTE = 10**6


def cluster_queue(name: str, obj: Fields) -> Queue:
    """A ClusterQueue of Kueue: nominal quota, and with borrowing limits what it may use at most."""
    spec = obj.map("spec")
    cohort = spec.text("cohortName") or spec.text("cohort")
    quota, limit = _groups(spec, borrows=bool(cohort))
    return Queue(
        name=name,
        parent=cohort,
        weight=_weight(spec),
        quota=quota,
        limit=limit,
        held=spec.text("stopPolicy", "None") != "None",
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
    for resource, unit in scale.items():
        entry = resources.map(resource)
        for key, table in (("quota", quota), ("limit", limit)):
            if entry.has(key) and entry.text(key) not in ("-1", "-1.0"):
                table[resource] = entry.amount(key) * unit
    for name_of, amount in limit.items():
        quota[name_of] = min(quota.get(name_of, Fraction(0)), amount)
    gpu = resources.map("gpu")
    return Queue(
        name=name,
        parent=spec.text("parentQueue"),
        weight=gpu.amount("overQuotaWeight") if gpu.has("overQuotaWeight") else None,
        priority=spec.whole("priority", 0),
        quota=quota,
        limit=limit,
    )
