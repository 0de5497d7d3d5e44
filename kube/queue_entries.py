"""Queues of the spec."""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm
from typing import TYPE_CHECKING, Any

from kube.cohorts import Cohorts
from kube.tenancy import DEFAULT
from specs.importers.writing import cores, memory
from specs.models.base import MAX_COUNT
from specs.models.quantity import MIB, MILLI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.cluster import Cluster
    from kube.records import Queue
    from kube.tenancy import Tenancy

Entry = dict[str, Any]
MAX_WEIGHT = MAX_COUNT


class QueueEntries:
    """Queues as the spec has them."""

    def __init__(self, cluster: Cluster, tenancy: Tenancy) -> None:
        self.cluster, self.tenancy = cluster, tenancy
        queues = tenancy.queues
        self._kueue = {k: q for k, q in queues.items() if k.kind in ("ClusterQueue", "Cohort")}
        self._cohorts = Cohorts(self._kueue)

    def entries(self, named: set[str]) -> list[Entry]:
        """The queues there are and those that work names; none where nobody speaks of queues."""
        known = self.tenancy.queues
        if not known and named <= {""}:
            return []
        unit = lcm(*(q.weight.denominator for q in known.values() if q.weight is not None), 1)
        unit = min(unit, MILLI)
        entries = [self._queue(queue, unit) for queue in known.values()]
        there = set(self.tenancy.names.values())
        for name in sorted(named - there - {""}):
            entries.append(_unknown(name, unit))
            if name == self.tenancy.unqueued:
                remark = "work that names no queue is in one of its own"
            else:
                remark = "queues that are only named: no quota, no limit"
            self.cluster.report.assumed.add(remark, name)
        if "" in named and DEFAULT not in named:
            entries.append(_unknown(DEFAULT, unit))
        return entries

    def _queue(self, queue: Queue, unit: int) -> Entry:
        name = self.tenancy.names[queue.key]
        entry: Entry = {"name": name}
        for remark in queue.remarks:
            self.cluster.report.ignored.add(remark, name)
        for remark in queue.assumed:
            self.cluster.report.assumed.add(remark, name)
        if queue.parent is not None:
            entry["parent"] = self.tenancy.names[queue.parent]
        if queue.priority:
            entry["priority"] = queue.priority
        weight = Fraction(1) if queue.weight is None else queue.weight
        scaled = min(round(weight * unit), MAX_WEIGHT)
        if scaled != 1:
            entry["weight"] = scaled
        if queue.key in self._kueue:
            quota, limit = self._of_kueue(queue)
        else:
            quota, limit = queue.quota, self._whole_limit(queue, name)
        for key, amounts in (("quota", quota), ("limit", limit)):
            if table := self._quota(amounts):
                entry[key] = table
            for resource in amounts:
                if not self._counts(resource):
                    self.cluster.report.ignored.add(f"queue amounts of {resource}", name)
        return entry

    def _of_kueue(self, queue: Queue) -> tuple[Mapping[str, Fraction], Mapping[str, Fraction]]:
        """Quota and limit of a queue of Kueue: those that its parent does not imply."""
        own = {resource: amount for resource, amount in queue.quota.items() if amount}
        if queue.key.kind == "Cohort":
            total = self._cohorts.quotas[queue.key]
            own = {resource: total[resource] for resource in own}
        limits = self._cohorts.limits
        above = limits[queue.parent] if queue.parent is not None else {}
        limit = {
            resource: amount
            for resource, amount in limits[queue.key].items()
            if resource not in above or amount < above[resource]
        }
        # All GPU resources are one amount in a spec: a limit of one alone would bind the rest.
        gpus = {r: n for r, n in limits[queue.key].items() if self.cluster.devices.is_gpu(r)}
        if gpus.keys() & limit.keys():
            limit |= gpus
        if queue.key.kind != "ClusterQueue":
            return own, limit
        # What a ClusterQueue does not cover it admits nothing of.
        covered = {resource for _, resource in queue.flavors}
        closed = {r for r in ("cpu", "memory") if r not in covered}
        if not any(self.cluster.devices.is_gpu(resource) for resource in covered):
            closed.add("gpu")
        for resource in sorted(closed):
            limit[resource] = Fraction(0)
            words = "GPUs" if resource == "gpu" else resource
            remark = f"ClusterQueues that do not cover {words} admit no work that asks for any"
            self.cluster.report.assumed.add(remark, self.tenancy.names[queue.key])
        return own, limit

    def _whole_limit(self, queue: Queue, name: str) -> Mapping[str, Fraction]:
        """The limit of a queue, that of GPUs only where it is about all that it has a quota of."""
        gpus = {resource for resource in queue.quota if self._is_gpus(resource)}
        limited = {resource for resource in queue.limit if self._is_gpus(resource)}
        if not limited or gpus <= limited:
            return queue.limit
        for resource in sorted(limited):
            self.cluster.report.ignored.add(f"limit of {resource} alone, beside other GPUs", name)
        return {r: amount for r, amount in queue.limit.items() if r not in limited}

    def _is_gpus(self, resource: str) -> bool:
        return resource == "gpu" or self.cluster.devices.is_gpu(resource.removeprefix("requests."))

    def _counts(self, resource: str) -> bool:
        plain = resource.removeprefix("requests.")
        return plain in ("cpu", "memory") or self._is_gpus(plain)

    def _quota(self, amounts: Mapping[str, Fraction]) -> Entry:
        table: Entry = {}
        gpus = [amount for name, amount in amounts.items() if self._is_gpus(name)]
        if gpus:
            milli = floor(sum(gpus) * MILLI)
            table["gpus"] = cores(milli)
        if "cpu" in amounts:
            table["cpu"] = cores(floor(amounts["cpu"] * MILLI))
        if "memory" in amounts:
            table["memory"] = memory(floor(amounts["memory"] / MIB))
        return table


def _unknown(name: str, unit: int) -> Entry:
    """A queue that nothing is known of but its name."""
    return {"name": name} | ({"weight": unit} if unit > 1 else {})
