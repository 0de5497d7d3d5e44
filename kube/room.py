"""Room of nodes for what a spec has no word for: how many pods they take, and other resources.

A binding is final and no scheduler checks it, and the kubelet refuses a pod that does not fit: so
what is bound or pinned is counted here as the scheduler counts it, on top of what stays.

References
----------
The plugin NodeResourcesFit of kube-scheduler.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube.records import Node, Pod

PODS = "pods"
PLANNED = ("cpu", "memory")
"""Resources that no plan gives out twice, on nodes that say how much they have."""


class Room:
    """What nodes have left beside the pods that stay on them, and those let in since."""

    def __init__(self, nodes: Mapping[str, Node], staying: Iterable[Pod]) -> None:
        self._nodes = nodes
        self._held: dict[str, Counter[str]] = defaultdict(Counter)
        for pod in staying:
            self._held[pod.node] += _wants(pod)

    def let_in(self, pod: Pod, node: str) -> str:
        """Count a pod on a node; a text says what the node has too little of, and it is not."""
        usable, held, wants = self._nodes[node].allocatable, self._held[node], _wants(pod)
        for name, amount in sorted(wants.items()):
            if name == PODS and PODS not in usable:
                continue
            left = usable.get(name, Fraction(0)) - held[name]
            if amount > left and name == PODS:
                return "the node has as many pods as it takes"
            if amount > left:
                return f"it asks for {amount} of {name}, and the node has {max(left, 0)} left"
        held.update(wants)
        return ""


def _wants(pod: Pod) -> Counter[str]:
    """Whole units of what a pod takes of its node."""
    found: Counter[str] = Counter({PODS: 1})
    for name, amount in pod.template.requests.items():
        if amount and name not in PLANNED:
            found[name] = -(-amount.numerator // amount.denominator)
    return found
