"""Queues of the spec."""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm
from typing import TYPE_CHECKING, Any

from specs.importers.writing import cores, memory
from specs.models.base import MAX_COUNT
from specs.models.quantity import MIB, MILLI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.cluster import Cluster
    from kube.records import Queue

Entry = dict[str, Any]
MAX_WEIGHT = MAX_COUNT


class QueueEntries:
    """Queues as the spec has them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def entries(self, named: set[str]) -> list[Entry]:
        """The queues there are and those that work names; none where nobody speaks of queues."""
        known = dict(self.cluster.snapshot.queues)
        if not known and named <= {""}:
            return []
        wanted: dict[str, None] = dict.fromkeys(known)
        for queue in known.values():
            if queue.parent and queue.parent not in known:
                wanted[queue.parent] = None
        for name in sorted(named - {""} - known.keys()):
            wanted[name] = None
            self.cluster.report.assumed.add("queues that are only named: no quota, no limit", name)
        if "" in named:
            wanted.setdefault("default", None)
        unit = lcm(*(q.weight.denominator for q in known.values() if q.weight is not None), 1)
        if unit > MILLI:
            unit = MILLI
        return [self._queue(name, known.get(name), unit) for name in wanted]

    def _queue(self, name: str, queue: Queue | None, unit: int) -> Entry:
        entry: Entry = {"name": name}
        if queue is None:
            return entry | ({"weight": unit} if unit > 1 else {})
        for remark in queue.remarks:
            self.cluster.report.ignored.add(remark, name)
        parent = queue.parent
        if parent and parent != name:
            entry["parent"] = parent
        if queue.priority:
            entry["priority"] = queue.priority
        weight = Fraction(1) if queue.weight is None else queue.weight
        scaled = min(round(weight * unit), MAX_WEIGHT)
        if scaled != 1:
            entry["weight"] = scaled
        for key, amounts in (("quota", queue.quota), ("limit", queue.limit)):
            if table := self._quota(amounts):
                entry[key] = table
            for resource in amounts:
                if not self._counts(resource):
                    self.cluster.report.ignored.add(f"queue amounts of {resource}", name)
        return entry

    def _counts(self, resource: str) -> bool:
        plain = resource.removeprefix("requests.")
        return plain in ("cpu", "memory", "gpu") or self.cluster.devices.is_gpu(plain)

    def _quota(self, amounts: Mapping[str, Fraction]) -> Entry:
        table: Entry = {}
        gpus = [
            amount
            for name, amount in amounts.items()
            if name == "gpu" or self.cluster.devices.is_gpu(name.removeprefix("requests."))
        ]
        if gpus:
            milli = floor(sum(gpus) * MILLI)
            table["gpus"] = cores(milli)
        if "cpu" in amounts:
            table["cpu"] = cores(floor(amounts["cpu"] * MILLI))
        if "memory" in amounts:
            table["memory"] = memory(floor(amounts["memory"] / MIB))
        return table
