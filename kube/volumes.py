"""Volumes that bind pods to places: the node affinity of the volumes behind their claims.

A pod whose claim is bound may only run where the volume can be reached; a volume of a node's own
disk says that by node affinity, older ones of a cloud by labels of their zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kube.selectors import Requirement, Term, read_terms

if TYPE_CHECKING:
    from kube.records import Template
    from kube.snapshot import Snapshot
    from specs.importers.fields import Fields

UNKNOWN = "persistent volumes, which may bind a pod to a zone or node"
"""Remark of templates whose volumes are not known, or not bound yet."""

ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
MAX_TERMS = 256
"""Ways to choose a node that one affinity may have; volumes that make more of them stay unknown."""


@dataclass(slots=True)
class Volumes:
    """Volume behind each claim (by namespace and name), and where volumes can be reached."""

    bound: dict[tuple[str, str], str] = field(default_factory=dict)
    places: dict[str, tuple[Term, ...] | None] = field(default_factory=dict)


def read_volume(obj: Fields) -> tuple[Term, ...] | None:
    """Where a PersistentVolume can be reached; None: everywhere."""
    required = obj.map("spec", "nodeAffinity")
    if required.has("required"):
        return read_terms(required.map("required"))
    labels = obj.map("metadata").table("labels")
    zones = tuple(
        Requirement(key, "In", tuple(labels[key].split("__"))) for key in ZONES if labels.get(key)
    )
    return (zones,) if zones else None


def claim_names(meta: Fields, spec: Fields) -> tuple[str, ...]:
    """Claims behind the volumes of a pod; empty names where a claim is still to be made."""
    names = []
    for volume in spec.maps("volumes"):
        if volume.has("persistentVolumeClaim"):
            names.append(volume.map("persistentVolumeClaim").text("claimName"))
        elif volume.has("ephemeral"):
            pod = meta.text("name")
            names.append(f"{pod}-{volume.text('name')}" if pod else "")
    return tuple(names)


def settle_volumes(snapshot: Snapshot) -> None:
    """Bring the places of bound volumes into the node affinity of waiting work."""
    for place, pod in list(snapshot.pods.items()):
        if not pod.node and UNKNOWN in pod.template.ignored:
            told = _settled(snapshot, pod.template, pod.namespace)
            snapshot.pods[place] = replace(pod, template=told)
    for key, group in list(snapshot.groups.items()):
        if any(UNKNOWN in member.template.ignored for member in group.members):
            members = tuple(
                replace(member, template=_settled(snapshot, member.template, key.namespace))
                for member in group.members
            )
            snapshot.groups[key] = replace(group, members=members)


def _settled(snapshot: Snapshot, template: Template, namespace: str) -> Template:
    """The template with the places of its volumes, if all of them are known."""
    known, choice = snapshot.volumes, template.choice
    for name in template.volumes:
        volume = known.bound.get((namespace, name))
        if volume not in known.places:
            return template
        terms = known.places[volume]
        if terms is not None:
            choice = choice.within(terms)
            if len(choice.terms or ()) > MAX_TERMS:
                return template
    ignored = tuple(remark for remark in template.ignored if remark != UNKNOWN)
    return replace(template, choice=choice, ignored=ignored)
