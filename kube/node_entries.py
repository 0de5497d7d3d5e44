"""Nodes of the spec."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from kube.cluster import offer_label
from kube.labels import PRESETS
from specs.importers.writing import cores, memory
from specs.models.quantity import MIB, MILLI
from topology.hardware import gpu_model

if TYPE_CHECKING:
    from kube.cluster import Cluster
    from kube.devices import Gpus
    from kube.holdings import Held, Holdings
    from kube.records import Node

Entry = dict[str, Any]


class NodeEntries:
    """Nodes as the spec has them; labels that no job asks for are left out."""

    def __init__(self, cluster: Cluster, holdings: Holdings) -> None:
        self.cluster, self.holdings = cluster, holdings

    def entry(self, node: Node) -> Entry:
        """The node as the spec has it."""
        gpus, held = self.holdings.gpus[node.name], self.holdings.held[node.name]
        entry: Entry = {"name": node.name}
        preset = PRESETS.get((gpus.model or "", gpus.count)) if not gpus.cut else None
        if preset is not None:
            entry["topology"] = {"preset": preset}
            self.cluster.report.assumed.add(
                f"links of preset {preset}, by model and number of GPUs"
            )
        elif gpus.count and gpus.model and gpu_model(gpus.model) is None and gpus.memory_mib:
            device = {"model": gpus.model, "memory": memory(gpus.memory_mib)}
            entry["gpus"] = (device,) * gpus.count
        elif gpus.count:
            entry["gpus"] = gpus.count
            model = gpus.model or self._opaque_model(node)
            if model:
                entry["gpu_model"] = model
        if gpus.count and gpus.model is None:
            self.cluster.report.assumed.add("GPUs of unknown model: no label tells it", node.name)
        entry |= self._room(node, held)
        location = self.cluster.levels.location(node.labels)
        if location:
            entry["location"] = location
        labels = {
            key: node.labels[key] for key in sorted(self.cluster.marks.labels & node.labels.keys())
        }
        labels |= {
            name: "yes"
            for choice, name in self.cluster.marks.choices.items()
            if choice.allows(node.labels, node.name)
        }
        labels |= {
            offer_label(resource, unit): "yes"
            for resource, unit in self.cluster.offered[node.name].items()
            if offer_label(resource, unit) in self.cluster.marks.labels
        }
        if labels:
            entry["labels"] = labels
        if node.taints:
            entry["taints"] = tuple(
                {"key": key, "value": value, "effect": effect}
                if value
                else {"key": key, "effect": effect}
                for key, value, effect in node.taints
            )
        if node.ready is False:
            entry["ready"] = False
        elif node.ready is None:
            self.cluster.report.assumed.add("nodes without a Ready condition are ready", node.name)
        if node.cordoned:
            entry["cordoned"] = True
        most = node.allocatable.get("pods")
        if most is not None and held.pods >= most and not node.cordoned:
            entry["cordoned"] = True
            self.cluster.report.assumed.add(
                "nodes with as many pods as they take are cordoned", node.name
            )
        if gpus.unhealthy:
            entry["gpus_unhealthy"] = gpus.unhealthy
        if gpus.cut:
            entry["mig"] = tuple(
                {"gpu": gpu, "instances": tuple(instances)}
                for gpu, instances in sorted(_instances(gpus, held).items())
            )
        return entry

    def _opaque_model(self, node: Node) -> str:
        """GPUs of several vendors are told apart even where no label names the model."""
        vendors = {resource.partition("/")[0] for resource, _ in self.cluster.kinds}
        own = sorted(resource.partition("/")[0] for resource in self.cluster.offered[node.name])
        return own[0] if len(vendors) > 1 and own else ""

    def _room(self, node: Node, held: Held) -> Entry:
        """CPU and memory, with what the system and bound pods keep as reserved."""
        entry: Entry = {}
        reserved: Entry = {}
        scales = (
            ("cpu", Fraction(MILLI), cores, held.cpu),
            ("memory", Fraction(1, MIB), memory, held.memory),
        )
        for name, scale, written, bound in scales:
            if name not in node.capacity and name not in node.allocatable:
                self.cluster.report.assumed.add(
                    f"nodes that say no {name} have no limit of it", node.name
                )
                continue
            usable = floor(node.allocatable.get(name, Fraction(0)) * scale)
            capacity = max(usable, floor(node.capacity.get(name, Fraction(0)) * scale))
            kept = capacity - usable + ceil(bound * scale)
            if kept > capacity:
                self.cluster.report.assumed.add(
                    f"nodes that have promised more {name} than they have: none is free", node.name
                )
            entry[name] = written(capacity)
            if kept:
                reserved[name] = written(min(kept, capacity))
        if reserved:
            entry["reserved"] = reserved
        return entry


def _instances(gpus: Gpus, held: Held) -> dict[int, list[Entry]]:
    """The MIG instances of each GPU; which of them a pod has is assumed: the first that is free."""
    users: dict[str, list[str]] = {}
    for profile, job in held.slices:
        users.setdefault(profile, []).append(job)
    told: dict[int, list[Entry]] = {}
    for gpu, instances in sorted(gpus.cut.items()):
        told[gpu] = []
        for placed in instances:
            entry: Entry = {"profile": placed.profile}
            if placed.start is not None:
                entry["start"] = placed.start
            if waiting := users.get(placed.profile):
                entry["used_by"] = waiting.pop(0)
            told[gpu].append(entry)
    return told
