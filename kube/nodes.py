"""Node objects to records: capacity, allocatable, labels, taints, readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.records import Node

if TYPE_CHECKING:
    from specs.importers.fields import Fields

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
REPEATED = frozenset((UNSCHEDULABLE, *NOT_READY))
"""Taints that say what the node says anyway. Every pod tolerates some of them for a while."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def read_node(name: str, obj: Fields) -> Node:
    """The record of a node.

    Taints that only repeat the cordon or the node's readiness are left out: a pod that tolerates
    them (those of DaemonSets do) is no reason to plan work for such a node.

    Raises
    ------
    ObjectFault
        A field has the wrong type.
    """
    spec, status = obj.map("spec"), obj.map("status")
    ready = None
    for condition in status.maps("conditions"):
        if condition.text("type") == "Ready":
            ready = condition.text("status") == "True"
    cordoned = spec.flag("unschedulable")
    taints = []
    for taint in spec.maps("taints"):
        key, effect = taint.text("key"), taint.text("effect")
        if not key or effect not in EFFECTS:
            rule = f"a taint has a key, and an effect out of {', '.join(EFFECTS)}"
            raise taint.fault("effect" if key else "key", rule, effect or None)
        if key in NOT_READY:
            ready = False
        elif key == UNSCHEDULABLE:
            cordoned = True
        else:
            taints.append((key, taint.text("value"), effect))
    allocatable = status.amounts("allocatable")
    return Node(
        name=name,
        capacity={**allocatable, **status.amounts("capacity")},
        allocatable=allocatable if status.has("allocatable") else status.amounts("capacity"),
        labels=obj.map("metadata").table("labels"),
        taints=tuple(taints),
        cordoned=cordoned,
        ready=ready,
    )
