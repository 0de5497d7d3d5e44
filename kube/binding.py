"""Pods that a binding alone does not start rightly: their scheduler does more than to name a node.

It allocates their resource claims (DRA), makes a claim for GPUs that only claims give out, and
tells volumes that wait for their first consumer where to be. The Binding of the API does nothing
of that: a pod bound by it keeps its room and never runs. Nor does it look at rules between pods.

References
----------
KEP-4381 (claims are allocated before a pod is bound), KEP-5004 (extended resources by DRA);
``volumeBindingMode: WaitForFirstConsumer`` of StorageClasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.affinity import HARD_SPREAD
from kube.volumes import UNKNOWN

if TYPE_CHECKING:
    from kube.records import Node, Pod


def hindrance(pod: Pod, node: Node) -> str:
    """Why a binding to a node would not start a pod; empty where it would."""
    if pod.template.claims:
        return "a binding allocates none of its resource claims"
    if any(pod.template.requests.get(resource) for resource in node.by_claim):
        return f"a binding makes no claim for it, and {node.name} has GPUs by claim (DRA) only"
    if UNKNOWN in pod.template.ignored:
        return "a binding binds no volumes, and the objects do not show its own as bound"
    if HARD_SPREAD in pod.template.ignored:
        return "its topology spread constraints are not planned, and no binding minds them"
    return ""
