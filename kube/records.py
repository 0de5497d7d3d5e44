"""What is kept of API objects: small frozen records, so that large clusters fit into memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kube.selectors import NodeChoice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from kube.affinity import HostPort, PodRule


class GroupKey(NamedTuple):
    """What pods belong to: the kind, namespace and name of the object that holds them together."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Toleration(NamedTuple):
    """A taint that does not matter, as the API has it."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node. `ready` None: it does not say; `by_claim`: resources that only claims give out."""

    name: str
    capacity: Mapping[str, Fraction]
    allocatable: Mapping[str, Fraction]
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    cordoned: bool
    ready: bool | None
    by_claim: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What one pod asks for: of a pod, or of the pods that a controller will make.

    Parameters
    ----------
    requests
        Effective requests by resource.
    share_milli, share_memory
        Part of a GPU that annotations ask for: thousandths, or bytes of its memory.
    share_devices
        Of how many GPUs it wants such a part.
    topology
        Key of a topology label that the pods share a value of, and whether they must.
    topology_group
        What pods of other templates share that value too; empty: none do.
    spread
        Key of a label that no two pods share a value of (own anti-affinity).
    rules
        Required affinity and anti-affinity to pods, those of its own kind included.
    host_ports
        Ports of the node that it takes.
    ignored
        What the pod asks of its place that a spec cannot say.
    claims
        Resource claims (DRA): the name of each, and of the template that it is made of.
    volumes
        Claims of its persistent volumes; empty where a claim is still to be made.
    """

    requests: Mapping[str, Fraction]
    choice: NodeChoice = field(default_factory=NodeChoice)
    tolerations: tuple[Toleration, ...] = ()
    share_milli: int = 0
    share_memory: int = 0
    share_devices: int = 1
    topology: tuple[str, bool] | None = None
    topology_group: str = ""
    spread: str | None = None
    rules: tuple[PodRule, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    ignored: tuple[str, ...] = ()
    priority: int | None = None
    priority_class: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that counts: on a node and not ended, or not on a node and not leaving.

    Parameters
    ----------
    node
        Where it is; empty while it waits.
    gates
        Scheduling gates that hold it back.
    group, role, order
        What it belongs to, the kind of member it is there, its place among those.
    independent
        Whether its peers do without it, as far as the pod itself tells.
    made_by
        The controller that makes its pods, where `group` is what starts them together.
    gpu_groups
        Mark of each GPU that it shares with others that have the same mark.
    fixed
        Whether its scheduler stops it for nobody.
    bound
        Whether it is part of its node: a DaemonSet's or the kubelet's own.
    owned
        Whether a controller would make it anew.
    uid
        What tells it from a later pod of the same name.
    labels
        Labels, in order.
    """

    namespace: str
    name: str
    node: str
    template: Template
    group: GroupKey
    role: str
    order: int
    independent: bool
    queue: str
    created: str
    owner: GroupKey | None = None
    gates: tuple[str, ...] = ()
    made_by: GroupKey | None = None
    gpu_groups: tuple[str, ...] = ()
    fixed: bool = False
    bound: bool = False
    owned: bool = False
    leaving: bool = False
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Pods of one role that a controller wants: `least` of them at the least."""

    role: str
    count: int
    least: int
    template: Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An object that says how pods belong together: a gang, a queue, a priority.

    Parameters
    ----------
    key
        The object.
    stands_for
        The object whose pods these are, where it is another one (the Job of a Workload).
    least
        How many pods start together; None: it does not say.
    members
        Pods it is about, where it has their templates.
    state
        ``waits`` for a queue's decision, ``goes`` (its pods are, or will be, made), or
        ``held`` (suspended, inactive, ended).
    fixed_from
        Priority from which on its pods, once they run, are stopped for nobody; None: from none.
    ignored
        What the object asks that a spec cannot say.
    """

    key: GroupKey
    stands_for: GroupKey | None = None
    least: int | None = None
    least_of_role: Mapping[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    queue: str = ""
    priority: int | None = None
    priority_class: str = ""
    topology: tuple[str, bool] | None = None
    state: str = "goes"
    independent: bool = False
    created: str = ""
    fixed_from: int | None = None
    ignored: tuple[str, ...] = ()


class QueueKey(NamedTuple):
    """A queue: the kind of object that it is, and its name. Kinds do not share their names."""

    kind: str
    name: str


class Nominal(NamedTuple):
    """What a queue of Kueue has of a resource in one flavor; None: without a limit."""

    quota: Fraction
    borrowing: Fraction | None = None
    lending: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A tenant's queue.

    Parameters
    ----------
    quota, limit
        Amounts by resource.
    flavors
        Of Kueue's queues, whose limits follow from those around them: what there is of each
        flavor and resource.
    held
        Why its pending work does not start; empty where it does.
    remarks
        What of it a spec cannot say.
    assumed
        What it does not say, and is taken for.
    """

    key: QueueKey
    parent: QueueKey | None = None
    weight: Fraction | None = None
    priority: int = 0
    quota: Mapping[str, Fraction] = field(default_factory=dict)
    limit: Mapping[str, Fraction] = field(default_factory=dict)
    flavors: Mapping[tuple[str, str], Nominal] = field(default_factory=dict)
    held: str = ""
    remarks: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


class LocalQueue(NamedTuple):
    """The ClusterQueue behind a LocalQueue of Kueue, and why its pending work does not start."""

    cluster_queue: str
    held: str = ""
