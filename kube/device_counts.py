"""Devices of slices and claims, counted: units of resources on nodes and in requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kube.claims import DRIVERS, UNCLEAR, Claim, DeviceId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import Template
    from kube.snapshot import Snapshot

NO_GPUS = ("compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com")
"""Classes of devices that pods have besides their GPUs: channels between the nodes of a rack."""

BY = "unstrand/gpus-by"
"""Label of nodes, where some have their GPUs by claim and others by a device plugin."""

PRODUCT = "nvidia.com/gpu.product"


class _Settling:
    """Nodes and templates of a snapshot with their devices as units of resources."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.known = snapshot, snapshot.device_claims
        newest: dict[tuple[str, str], int] = {}
        for piece in self.known.slices.values():
            pool = (piece.driver, piece.pool)
            newest[pool] = max(newest.get(pool, 0), piece.generation)
        self.slices = [
            piece
            for piece in self.known.slices.values()
            if piece.generation == newest[piece.driver, piece.pool]
        ]
        self.pools = set(newest)
        self.gpus = {
            DeviceId(piece.driver, piece.pool, name) for piece in self.slices for name in piece.gpus
        }
        self.taken: set[DeviceId] = set()
        self.asked: set[tuple[str, str]] = set()

    def nodes(self) -> None:
        """GPUs of nodes where no device plugin counts them."""
        report, nodes = self.snapshot.report, self.snapshot.nodes
        plugin = {
            (name, resource)
            for name, node in nodes.items()
            for resource in DRIVERS.values()
            if node.capacity.get(resource)
        }
        for piece in self.slices:
            if piece.others:
                remark = "devices of ResourceSlices that are no whole GPUs"
                report.ignored.add(remark, piece.driver, piece.others)
            node = nodes.get(piece.node)
            if not piece.gpus:
                continue
            resource = DRIVERS[piece.driver]
            if node is None or (piece.node, resource) in plugin:
                why = (
                    "of nodes that are not in the input"
                    if node is None
                    else "a device plugin counts"
                )
                remark = f"GPUs of ResourceSlices, {why}"
                report.ignored.add(remark, piece.node, len(piece.gpus))
                continue
            usable = len(piece.gpus) - piece.tainted
            more = {PRODUCT: piece.product.replace(" ", "-")} if piece.product else {}
            nodes[piece.node] = replace(
                node,
                capacity=_plus(node.capacity, resource, len(piece.gpus)),
                allocatable=_plus(node.allocatable, resource, usable),
                labels={**more, **node.labels},
                by_claim=tuple(dict.fromkeys((*node.by_claim, resource))),
            )
            report.assumed.add("GPUs as ResourceSlices have them", piece.node, len(piece.gpus))

    def mixed(self) -> set[str]:
        """Resources that some nodes have by claim and others by a device plugin.

        The scheduler gives devices of slices to claims alone, and those of plugins to plain
        requests, so nodes are labelled with what theirs are for.
        """
        nodes = self.snapshot.nodes
        found = {
            resource
            for node in nodes.values()
            for resource in node.by_claim
            if any(n.capacity.get(resource) and resource not in n.by_claim for n in nodes.values())
        }
        for name, node in nodes.items() if found else ():
            here = [resource for resource in found if node.capacity.get(resource)]
            if here:
                by = "claim" if set(here) <= set(node.by_claim) else "plugin"
                nodes[name] = replace(node, labels={**node.labels, BY: by})
                remark = "GPUs for claims (DRA), and others for plain requests, are kept apart"
                self.snapshot.report.assumed.add(remark, name)
        return found

    def kept_apart(self, before: Template, after: Template, mixed: set[str]) -> Template:
        """The template, on nodes whose GPUs it may be given: by claim, or by a device plugin.

        Plain requests may be met by claims too, where a class of devices says so (KEP-5004).
        """
        plain = {resource for resource in mixed if before.requests.get(resource)}
        claimed = {resource for resource in mixed if after.requests.get(resource)} - plain
        if claimed:
            return replace(after, choice=after.choice.labelled(BY, "claim"))
        if plain - self.known.extended:
            return replace(after, choice=after.choice.labelled(BY, "plugin"))
        return after

    def template(self, template: Template, namespace: str, name: str, *, placed: bool) -> Template:
        """The template with the devices of its claims among its requests, where they are clear."""
        if UNCLEAR not in template.ignored:
            return template
        requests = dict(template.requests)
        remarks: list[str] = []
        for own, made_of in template.claims:
            claim = self.known.claims.get((namespace, own))
            shared = claim is not None and not made_of
            if claim is None:
                claim = self.known.templates.get((namespace, made_of))
            if claim is None:
                return template
            units = self._held(claim, name) if placed and claim.has else None
            if units is None:
                if not claim.clear or claim.has or (shared and (namespace, own) in self.asked):
                    return template
                self.asked.add((namespace, own))
                units = self._wanted(claim, remarks)
            if units is None:
                return template
            for resource, count in units.items():
                requests = _plus(requests, resource, count)
        kept = [remark for remark in template.ignored if remark != UNCLEAR]
        return replace(template, requests=requests, ignored=(*kept, *dict.fromkeys(remarks)))

    def _held(self, claim: Claim, name: str) -> Counter[str] | None:
        """Units that a running pod has; a device that several pods share counts once."""
        units: Counter[str] = Counter()
        for device in claim.has:
            resource = DRIVERS.get(device.driver)
            if resource is None:
                continue
            if device not in self.gpus and (device.driver, device.pool) in self.pools:
                return None  # a part of a GPU
            if device not in self.gpus and not set(claim.wants) & set(self.known.resources):
                return None
            if device in self.taken:
                remark = "pods that share the GPU of a claim: it counts for the first of them"
                self.snapshot.report.assumed.add(remark, name)
                continue
            self.taken.add(device)
            units[resource] += 1
        return units

    def _wanted(self, claim: Claim, remarks: list[str]) -> Counter[str] | None:
        """Units that a waiting pod asks for."""
        units: Counter[str] = Counter()
        for device_class, count in claim.wants.items():
            resource = self.known.resources.get(device_class)
            if resource is not None:
                units[resource] += count
            elif device_class in NO_GPUS:
                remarks.append(f"claims for devices of class {device_class}")
            else:
                return None  # its selectors may mean GPUs
        return units


def settle_claims(snapshot: Snapshot) -> None:
    """Count devices of claims and slices like those that device plugins offer."""
    settling = _Settling(snapshot)
    settling.nodes()
    mixed = settling.mixed()
    # Devices that are held come first: a claim that waiting pods share may be one of those.
    for pod in sorted(snapshot.pods.values(), key=lambda pod: not pod.node):
        template = settling.template(
            pod.template, pod.namespace, pod.full_name, placed=bool(pod.node)
        )
        template = settling.kept_apart(pod.template, template, mixed)
        if template is not pod.template:
            snapshot.pods[pod.namespace, pod.name] = replace(pod, template=template)
    for key, group in snapshot.groups.items():
        members = tuple(
            replace(
                member,
                template=settling.kept_apart(
                    member.template,
                    settling.template(member.template, key.namespace, str(key), placed=False),
                    mixed,
                ),
            )
            for member in group.members
        )
        if any(new is not old for new, old in zip(members, group.members, strict=True)):
            snapshot.groups[key] = replace(group, members=members)


def _plus(amounts: Mapping[str, Fraction], resource: str, count: int) -> dict[str, Fraction]:
    return {**amounts, resource: amounts.get(resource, Fraction(0)) + count}
