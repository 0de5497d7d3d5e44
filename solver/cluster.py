"""The machines: nodes with their GPUs, labels, taints and places in the hierarchy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from weakref import WeakValueDictionary

from topology.graph import NodeTopology
from topology.mig.layouts import Instance, Layout
from topology.mig.tables import MigTable, mig_table_or_none

GPU_MILLI = 1000
"""One whole GPU, in thousandths: the unit in which GPUs are counted everywhere."""

HOSTNAME = "kubernetes.io/hostname"
"""The label by which a single node can be asked for."""

BUILT_IN_LEVELS = ("domain", "node", "island")
"""Levels below the cluster's own ones: NVLink domain, host, NVLink island inside a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A mark that keeps replicas off a node unless they tolerate it (Kubernetes semantics)."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"

    @property
    def repels(self) -> bool:
        """Whether the taint forbids (rather than discourages) new replicas."""
        return self.effect != "PreferNoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What a job tolerates: a taint matches when key, effect and (for ``Equal``) value agree.

    An empty ``key`` with ``Exists`` tolerates everything; ``effect=None`` means every effect.
    """

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration lets a replica onto a node with `taint`."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A MIG instance that exists; one that somebody uses stays where it is."""

    gpu: int
    instance: Instance
    used_by: str = ""


_KINDS: WeakValueDictionary[tuple[object, ...], Node] = WeakValueDictionary()


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """A host: its GPUs with their links, and what it can give to replicas.

    Parameters
    ----------
    name
        Unique in the cluster; also the value of the label ``kubernetes.io/hostname``.
    topology
        GPUs (models, memory) and the links between them; shared by all nodes of a kind.
    cpu_milli, memory_mib
        Allocatable amounts (capacity minus reservations); ``None`` is no limit.
    location
        Level name to group name, for the cluster's own levels and ``domain``.
        A level that is not named makes the node a group of its own.
    unhealthy_gpus
        Indices that running work may still hold but that are never free.
    mig_gpus
        Indices cut into MIG instances: no whole GPU and no share can be taken from them.
    mig_mode
        Indices whose MIG mode is on; those not in `mig_gpus` may be switched back to whole ones.
    cuttable_gpus
        Usable indices that may be cut (again) while nobody holds them.
    instances
        MIG instances that exist.
    compute_limit_milli
        Thousandths of compute that the shares of one GPU may add up to; more than 1000 is
        oversubscription.
    """

    name: str
    topology: NodeTopology
    cpu_milli: int | None = None
    memory_mib: int | None = None
    location: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    unhealthy_gpus: frozenset[int] = frozenset()
    mig_gpus: frozenset[int] = frozenset()
    mig_mode: frozenset[int] = frozenset()
    cuttable_gpus: frozenset[int] = frozenset()
    instances: tuple[MigInstance, ...] = ()
    compute_limit_milli: int = GPU_MILLI

    @property
    def n_gpus(self) -> int:
        """Installed GPUs, healthy or not."""
        return self.topology.n_gpus

    @property
    def schedulable(self) -> bool:
        """Whether the node takes new replicas at all."""
        return self.ready and not self.cordoned

    @cached_property
    def usable_gpus(self) -> tuple[int, ...]:
        """Indices of healthy GPUs that are not cut into MIG instances."""
        out = self.unhealthy_gpus | self.mig_gpus
        return tuple(gpu for gpu in range(self.n_gpus) if gpu not in out)

    @cached_property
    def mig_tables(self) -> tuple[MigTable | None, ...]:
        """By GPU, its MIG profiles; None where it cannot be cut or the model is not known."""
        return tuple(mig_table_or_none(model) for model in self.topology.gpu_models)

    @cached_property
    def used_layouts(self) -> tuple[Layout, ...]:
        """By GPU, the instances that somebody uses."""
        return self._layouts(used=True)

    @cached_property
    def idle_layouts(self) -> tuple[Layout, ...]:
        """By GPU, the instances that nobody uses; they may be destroyed."""
        return self._layouts(used=False)

    def _layouts(self, *, used: bool) -> tuple[Layout, ...]:
        found: list[list[Instance]] = [[] for _ in range(self.n_gpus)]
        for held in self.instances:
            if bool(held.used_by) is used:
                found[held.gpu].append(held.instance)
        return tuple(tuple(sorted(layout)) for layout in found)

    @cached_property
    def switchable_gpus(self) -> frozenset[int]:
        """GPUs in MIG mode that may become whole ones again."""
        return self.mig_mode - self.mig_gpus

    @cached_property
    def kind(self) -> Node:
        """A node that stands for all that are alike but for their name and place.

        What a node could take when it is empty is asked once for each kind.
        """
        signature = (
            self.topology,
            self.cpu_milli,
            self.memory_mib,
            frozenset(self.labels.items()),
            self.taints,
            self.ready,
            self.cordoned,
            self.unhealthy_gpus,
            self.mig_gpus,
            self.mig_mode,
            self.cuttable_gpus,
            self.instances,
            self.compute_limit_milli,
        )
        return _KINDS.setdefault(signature, self)

    @cached_property
    def all_labels(self) -> Mapping[str, str]:
        """The labels with ``kubernetes.io/hostname``, which every node carries by itself."""
        return {HOSTNAME: self.name, **self.labels}

    def group(self, level: str, levels: tuple[str, ...]) -> tuple[str, ...]:
        """Identity of the group of `level` that the node is in.

        For a level of the cluster the identity is the path from the outermost level (two racks
        `r1` in different blocks are two racks); a domain is known by its own name.

        Parameters
        ----------
        level
            One of `levels`, ``domain`` or ``node``.
        levels
            The cluster's own levels, outermost first.
        """
        if level == "node" or level not in self.location:
            return ("node", self.name)
        if level == "domain":
            return ("domain", self.location["domain"])
        path = levels[: levels.index(level) + 1]
        return (level, *(self.location.get(outer, "") for outer in path))
