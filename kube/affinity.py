"""What pods require of pods around them: affinity, anti-affinity, host ports of their own.

A rule picks pods by namespace and label. *Apart*: none of them on a node whose `key` label has the
value of the pod's own node; *together*: at least one of them. Anti-affinity binds both sides: a pod
does not go where another one is that must not have it near. A pod whose affinity is to its own
kind goes anywhere where there is none of them yet.

References
----------
``PodAffinityTerm`` of the API; the plugin InterPodAffinity of kube-scheduler.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kube.selectors import Requirement, read_requirement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kube.records import Node, Pod
    from kube.work import Work
    from specs.importers.fields import Fields

Labels = tuple[tuple[str, str], ...]
BETWEEN_JOBS = "required anti-affinity between pods of different jobs"
HARD_SPREAD = "topology spread constraints"


class PodRule(NamedTuple):
    """What a pod requires of pods around it.

    Parameters
    ----------
    apart
        None of them near; else at least one.
    key
        The label whose value is near.
    namespaces
        Where they are; empty: in the pod's own; None: anywhere, as far as is known.
    needs
        What their labels satisfy; None: nothing satisfies it.
    """

    apart: bool
    key: str
    namespaces: tuple[str, ...] | None
    needs: tuple[Requirement, ...] | None

    def picks(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about pods with these labels, the namespace aside."""
        return self.needs is not None and all(need.holds(labels, "") for need in self.needs)

    @property
    def own_namespace(self) -> bool:
        """Whether it is about the pod's own namespace only."""
        return self.namespaces == ()


def read_rules(spec: Fields, labels: Mapping[str, str]) -> Iterator[PodRule]:
    """Required rules of a pod with these labels.

    Raises
    ------
    ObjectFault
        A field has the wrong type, or an operator is none of the API's.
    """
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = spec.map("affinity", kind)
        for term in rules.maps("requiredDuringSchedulingIgnoredDuringExecution"):
            yield PodRule(
                kind == "podAntiAffinity",
                term.text("topologyKey"),
                None if term.has("namespaceSelector") else term.words("namespaces"),
                _needs(term, labels),
            )


def _needs(term: Fields, labels: Mapping[str, str]) -> tuple[Requirement, ...] | None:
    if not term.has("labelSelector"):
        return None
    selector = term.map("labelSelector")
    needs = [
        Requirement(key, "In", (value,))
        for key, value in sorted(selector.table("matchLabels").items())
    ]
    needs += [
        read_requirement(entry, entry.text("key")) for entry in selector.maps("matchExpressions")
    ]
    # The API server adds these to the selector of a pod; in a template they are still apart.
    for words, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        needs += [
            Requirement(key, operator, (labels[key],)) for key in term.words(words) if key in labels
        ]
    return tuple(dict.fromkeys(needs))


class HostPort(NamedTuple):
    """A port of the node that a pod takes; an empty address is all of them."""

    address: str
    protocol: str
    port: int

    def collides(self, other: HostPort) -> bool:
        """Whether a node cannot give out both."""
        apart = self.address and other.address and self.address != other.address
        return not apart and (self.protocol, self.port) == (other.protocol, other.port)


def read_host_ports(spec: Fields) -> Iterator[HostPort]:
    """Ports of its node that a pod takes, those of its sidecars included.

    Raises
    ------
    ObjectFault
        A field has the wrong type.
    """
    sidecars = [c for c in spec.maps("initContainers") if c.text("restartPolicy") == "Always"]
    for container in (*spec.maps("containers"), *sidecars):
        for entry in container.maps("ports"):
            port, address = entry.whole("hostPort", 0, 0, 65535), entry.text("hostIP")
            if port:
                every = address == "0.0.0.0"
                yield HostPort("" if every else address, entry.text("protocol") or "TCP", port)


@lru_cache(maxsize=4096)
def shared_labels(labels: Labels) -> Labels:
    """The same labels, one object for the pods of a controller."""
    return labels


Asked = tuple[str, PodRule]
"""A rule, and the namespace of the pods that have it."""


class Peers:
    """Pods by their labels, and the anti-affinity among them."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._alike: dict[tuple[str, Labels], list[Pod]] = defaultdict(list)
        self._by_pair: dict[tuple[str, str], set[tuple[str, Labels]]] = defaultdict(set)
        self._picked: dict[Asked, tuple[Pod, ...]] = {}
        self.owners: dict[Asked, list[Pod]] = defaultdict(list)
        for pod in pods:
            kind = (pod.namespace, pod.labels)
            if kind not in self._alike:
                for pair in pod.labels:
                    self._by_pair[pair].add(kind)
            self._alike[kind].append(pod)
            for rule in pod.template.rules:
                if rule.apart:
                    self.owners[pod.namespace, rule].append(pod)

    def picked(self, namespace: str, rule: PodRule) -> tuple[Pod, ...]:
        """Pods that a rule of a pod in a namespace is about."""
        asked = (namespace, rule)
        if asked not in self._picked:
            spaces = (namespace,) if rule.own_namespace else rule.namespaces
            self._picked[asked] = tuple(
                pod
                for kind in sorted(self._candidates(rule))
                if (spaces is None or kind[0] in spaces) and rule.picks(dict(kind[1]))
                for pod in self._alike[kind]
            )
        return self._picked[asked]

    def _candidates(self, rule: PodRule) -> Iterable[tuple[str, Labels]]:
        for need in rule.needs or ():
            if need.operator == "In" and need.key is not None:
                return {kind for v in need.values for kind in self._by_pair.get((need.key, v), ())}
        return self._alike


def kept_apart(works: Iterable[Work]) -> set[str]:
    """Names of jobs with required anti-affinity to or from pods of other jobs."""
    pods = {pod.full_name: work.name for work in works for task in work.tasks for pod in task.pods}
    everyone = [pod for work in works for task in work.tasks for pod in task.pods]
    peers = Peers(everyone)
    found: set[str] = set()
    for (namespace, rule), owners in peers.owners.items():
        by = {pods[pod.full_name] for pod in owners}
        of = {pods[pod.full_name] for pod in peers.picked(namespace, rule)}
        if len(by | of) > 1 and by and of:
            found |= {name for name in by if of - {name}} | {name for name in of if by - {name}}
    return found


class Neighbourhood:
    """Where pods are after a plan, and what required rules say about that.

    `absent` has names of pods that may not be there after all: they keep others away, and are no
    company for anybody.
    """

    def __init__(
        self, at: Mapping[str, str], pods: Sequence[Pod], nodes: Mapping[str, Node]
    ) -> None:
        self._at, self._nodes = at, nodes
        self.absent: set[str] = set()
        self._peers = Peers(pods)
        self._near: dict[Asked, dict[str, list[Pod]]] = {}
        self._not_near: dict[Asked, dict[str, list[Pod]]] = {}
        self._against: dict[str, list[Asked]] = defaultdict(list)
        self._with_ports: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.template.host_ports:
                self._with_ports[at[pod.full_name]].append(pod)
        for asked, owners in self._peers.owners.items():
            self._not_near[asked] = self._by_place(asked[1].key, owners)
            for pod in self._peers.picked(*asked):
                self._against[pod.full_name].append(asked)

    def broken(self, pod: Pod) -> str:
        """Which required rule does not hold for a pod where it is; empty: all hold."""
        labels = self._nodes[self._at[pod.full_name]].labels
        for rule in pod.template.rules:
            by_place = self._picked_by_place(pod.namespace, rule)
            but = set() if rule.apart else self.absent
            near = self._others(by_place, labels, rule.key, pod, but)
            if rule.apart and near is not None:
                return f"its anti-affinity keeps it from {near.full_name}"
            if not rule.apart and near is None and not self._first(pod, rule, labels):
                return "no pod of its required affinity is there"
        for asked in self._against[pod.full_name]:
            near = self._others(self._not_near[asked], labels, asked[1].key, pod)
            if near is not None:
                return f"the anti-affinity of {near.full_name} keeps it away"
        return self._port_taken(pod)

    def _port_taken(self, pod: Pod) -> str:
        for other in self._with_ports.get(self._at[pod.full_name], ()):
            for own in pod.template.host_ports if other.full_name != pod.full_name else ():
                if any(own.collides(port) for port in other.template.host_ports):
                    return f"{other.full_name} has its host port {own.port} there"
        return ""

    def _first(self, pod: Pod, rule: PodRule, labels: Mapping[str, str]) -> bool:
        """Whether it is the first of its kind, which is near enough to itself."""
        picked = [one.full_name for one in self._peers.picked(pod.namespace, rule)]
        there = [name for name in picked if name == pod.full_name or name not in self.absent]
        return rule.key in labels and there == [pod.full_name]

    def _others(
        self,
        by_place: Mapping[str, list[Pod]],
        labels: Mapping[str, str],
        key: str,
        pod: Pod,
        but: Collection[str] = (),
    ) -> Pod | None:
        near = by_place.get(labels[key], ()) if key in labels else ()
        others = (one for one in near if one.full_name != pod.full_name)
        return next((one for one in others if one.full_name not in but), None)

    def _picked_by_place(self, namespace: str, rule: PodRule) -> Mapping[str, list[Pod]]:
        asked = (namespace, rule)
        if asked not in self._near:
            self._near[asked] = self._by_place(rule.key, self._peers.picked(*asked))
        return self._near[asked]

    def _by_place(self, key: str, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            labels = self._nodes[self._at[pod.full_name]].labels
            if key in labels:
                found[labels[key]].append(pod)
        return found
