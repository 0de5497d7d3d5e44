"""A snapshot with its conventions: which resources are GPUs, which labels are places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kube.devices import SHARED, Devices, Unit
from kube.levels import Levels, find_levels, merged
from specs.errors import SpecErrors, SpecFault
from specs.models.base import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import Node, Template
    from kube.selectors import NodeChoice
    from kube.snapshot import Snapshot
    from specs.importers.report import ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user says about a cluster's conventions.

    Parameters
    ----------
    gpu_resources
        Resources that are GPUs.
    levels
        Name and label of each level, outermost first; empty: the known ones.
    domains
        Further labels of NVLink domains.
    """

    gpu_resources: tuple[str, ...] = Devices().resources
    levels: tuple[tuple[str, str], ...] = ()
    domains: tuple[str, ...] = ()


@dataclass
class Marks:
    """Labels that nodes of the spec carry because some job asks for them.

    `choices` has one made-up label for each node affinity that is more than a selector: nodes
    that satisfy it carry the label.
    """

    labels: set[str] = field(default_factory=set)
    choices: dict[NodeChoice, str] = field(default_factory=dict)

    def of(self, choice: NodeChoice) -> str:
        """The label of a node affinity."""
        return self.choices.setdefault(choice, f"affinity-{len(self.choices) + 1}")


class Cluster:
    """A snapshot with its conventions.

    `offered` has the GPU resources of each node, with what a unit of each is there; `kinds` all
    that there are in the cluster.
    """

    def __init__(self, snapshot: Snapshot, options: ImportOptions) -> None:
        self.snapshot = snapshot
        self.nodes: Mapping[str, Node] = snapshot.nodes
        self.report: ImportReport = snapshot.report
        self.devices = Devices(options.gpu_resources)
        keys, one_line = merged(snapshot.topologies)
        if not one_line and not options.levels:
            remark = "Topology objects that are no one line: a level counts within those above it"
            self.report.assumed.add(remark, " > ".join(keys))
        self.levels: Levels = find_levels(
            self.nodes.values(), options.levels, keys, options.domains
        )
        for name, label in options.levels:
            if not any(label in node.labels for node in self.nodes.values()):
                self.report.ignored.add(f"level {name}: no node has the label {label}")
        self._check_resources(options.gpu_resources)
        self.marks = Marks()
        self.offered = {name: self.devices.offered(node) for name, node in self.nodes.items()}
        self.kinds: set[tuple[str, Unit]] = {
            pair for offer in self.offered.values() for pair in offer.items()
        }

    def _check_resources(self, named: tuple[str, ...]) -> None:
        """Say what GPU resources the user did not mean, or meant in vain."""
        usual = Devices().resources
        if named == usual:
            return
        offered = {
            name.removesuffix(SHARED) for node in self.nodes.values() for name in node.capacity
        }
        for name in sorted({*named} - offered):
            self.report.ignored.add("GPU resources that no node has", name)
        for name in sorted({*usual} & offered - {*named}):
            self.report.ignored.add("GPU resources that are not among those named", name)

    def gpu_units(self, template: Template, name: str) -> dict[str, int]:
        """Units of each GPU resource that a pod asks for."""
        found = {}
        for resource, amount in template.requests.items():
            if not amount or not self.devices.is_gpu(resource):
                continue
            if amount.denominator != 1 or amount > MAX_COUNT:
                rule = f"whole units of {resource}, at most {MAX_COUNT}"
                fault = SpecFault(file="input", path=f"Pod {name}", value=str(amount), rule=rule)
                raise SpecErrors([fault])
            found[resource] = int(amount)
        return found


def offer_label(resource: str, unit: Unit) -> str:
    """The label of nodes that offer a resource in one way, where a cluster knows several."""
    return f"offers {resource}" + (f" in {unit.parts} parts" if unit.parts > 1 else "")
