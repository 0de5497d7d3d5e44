"""The work: shapes of replicas, jobs (gangs) that wait, work that runs, queues that own both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from solver.cluster import GPU_MILLI, Toleration
from topology.errors import UnknownMigProfileError
from topology.mig.tables import MigTable, Profile

ResourceName = Literal["gpu_milli", "cpu_milli", "memory_mib"]
RESOURCES: tuple[ResourceName, ...] = ("gpu_milli", "cpu_milli", "memory_mib")


ANY_GROUP = "*"
"""Share group of what stands for shares in general: it goes beside every group."""


class LinkRule(StrEnum):
    """What a replica asks of the links between its GPUs."""

    NONE = "none"
    PREFERRED = "preferred"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """A MIG instance that is asked for: a profile by name, or the smallest one that is enough.

    Parameters
    ----------
    profile
        Name of the profile; empty where the amounts say which will do.
    memory_mib, compute
        Least usable memory and least compute slices of the instance.
    """

    profile: str = ""
    memory_mib: int = 0
    compute: int = 0

    def on(self, table: MigTable) -> Profile | None:
        """The profile that serves this on a GPU model; None where it has none."""
        if not self.profile:
            enough = table.at_least(self.memory_mib, self.compute)
            return enough[0] if enough else None
        try:
            return table.profile(self.profile)
        except UnknownMigProfileError:
            return None

    def __str__(self) -> str:
        if self.profile:
            return self.profile
        memory = f"{self.memory_mib / 1024:g}Gi" if self.memory_mib else ""
        compute = f"{self.compute}g" if self.compute else ""
        return "+".join(part for part in (memory, compute) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one replica asks of a node. Equal shapes are interchangeable, so they are counted.

    At most one of `gpus`, `share_milli`, `share_memory_mib` and `slices` is given.

    Parameters
    ----------
    gpus
        Whole GPUs.
    share_milli
        Share of one GPU, in thousandths (1 to 999).
    share_memory_mib
        Share of one GPU said by its memory; how many thousandths that is depends on the GPU.
    compute_milli
        Of a share: thousandths of the GPU's compute, where that is not the same part as its
        memory (0: the same). Memory is what a share occupies; compute may be oversubscribed
        (`Node.compute_limit_milli`).
    share_group
        Of a share: only shares of the same group are put on one GPU; those without a group are
        a group too.
    slices
        Sorted MIG instances with their number, all on one node.
    gpu_models
        Sorted canonical model names that will do; empty means any.
    node_selector
        Sorted (label, value) pairs that the node must carry.
    """

    gpus: int = 0
    share_milli: int = 0
    share_memory_mib: int = 0
    compute_milli: int = 0
    share_group: str = ""
    slices: tuple[tuple[Slice, int], ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_models: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    link: LinkRule = LinkRule.NONE

    def __post_init__(self) -> None:
        kinds = (self.gpus, self.share_milli, self.share_memory_mib, len(self.slices))
        if min(*kinds, self.cpu_milli, self.memory_mib) < 0:
            raise ValueError(f"a shape cannot ask for a negative amount: {self}")
        if sum(kind > 0 for kind in kinds) > 1:
            raise ValueError(f"a shape asks for whole GPUs, one share or slices: {self}")
        if self.share_milli >= GPU_MILLI:
            raise ValueError(f"a share is less than one GPU: {self}")
        if not 0 <= self.compute_milli <= (GPU_MILLI if self.is_share else 0):
            raise ValueError(f"only a share has a part of the compute, at most all: {self}")

    @property
    def is_share(self) -> bool:
        """Whether the replica takes part of a GPU."""
        return self.share_milli > 0 or self.share_memory_mib > 0

    @property
    def wants_gpu(self) -> bool:
        """Whether the replica takes any GPU at all."""
        return self.gpus > 0 or self.is_share or bool(self.slices)

    def milli_on(self, gpu_memory_mib: int | None) -> int | None:
        """Thousandths of one GPU that the replica takes there, or None where it cannot.

        Parameters
        ----------
        gpu_memory_mib
            Memory of the GPU; ``None`` (unknown) cannot serve a share said by memory.
        """
        if not self.share_memory_mib:
            return self.share_milli or GPU_MILLI
        if not gpu_memory_mib or self.share_memory_mib > gpu_memory_mib:
            return None
        return -(-GPU_MILLI * self.share_memory_mib // gpu_memory_mib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Replicas of a job that are alike.

    Parameters
    ----------
    replicas
        How many are wanted.
    min_replicas
        How many must start together; fewer than `replicas` makes the role elastic.
    held
        Where the replicas run already, for work of which it is decided whether it stays: each of
        them stays in its place or leaves it. Empty for work that has yet to start.
    asked
        What held replicas asked for when they started; None: `shape`.
    """

    name: str
    shape: Shape
    replicas: int = 1
    min_replicas: int = 1
    held: tuple[RunningReplica, ...] = ()
    asked: Shape | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.replicas or self.replicas < 1:
            raise ValueError(
                f"role {self.name!r}: min {self.min_replicas} of {self.replicas} replicas"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """The whole gang belongs in one group of a level, such as ``island``, ``node`` or a rack."""

    within: str
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """At most `max_per` replicas of the job in one group of level `over`."""

    over: str
    max_per: int = 1


def is_tied(
    topology: TopologyRule | None, spread: SpreadRule | None, shapes: Sequence[Shape], *, gang: bool
) -> bool:
    """Whether a replica may not go elsewhere without a look at the others, or at NVLink islands."""
    several = len(shapes) > 1
    if spread is not None and several:
        return True
    if topology is None or not topology.required:
        return False
    in_island = topology.within == "island" and any(shape.gpus > 1 for shape in shapes)
    return in_island or (gang and several)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The unit that a user submits.

    Parameters
    ----------
    gang
        All roles reach their minimum together or nothing starts. Otherwise the replicas are
        independent of each other (and `min_replicas` says nothing).
    start_group
        Jobs of the same group start together or not at all; they are gangs.
    must
        The user wants to hear (exit code 4) if this job cannot run.
    running
        The running job that this stands for, where it is decided whether that one stays (see
        `solver.preemption.lift`); None for a job that waits.
    """

    name: str
    roles: tuple[Role, ...]
    queue: str = "default"
    priority: int = 0
    kind: Literal["training", "inference"] = "training"
    gang: bool = True
    topology: TopologyRule | None = None
    spread: SpreadRule | None = None
    start_group: str | None = None
    must: bool = False
    running: RunningJob | None = None

    @property
    def replicas(self) -> int:
        """Replicas wanted, over all roles."""
        return sum(role.replicas for role in self.roles)

    @property
    def min_replicas(self) -> int:
        """Replicas that must start together, over all roles (independent replicas: 1)."""
        return sum(role.min_replicas for role in self.roles) if self.gang else 1

    @property
    def cpu_only(self) -> bool:
        """Whether no replica takes a GPU."""
        return not any(role.shape.wants_gpu for role in self.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningReplica:
    """One replica in place: the node, the very GPUs, what it holds of each of them.

    `share_milli` is what it holds of its (single) GPU; whole GPUs hold 1000 each. `share_group`
    and `compute_milli` are those of its shape.
    """

    node: str
    gpus: tuple[int, ...] = ()
    share_milli: int = GPU_MILLI
    cpu_milli: int = 0
    memory_mib: int = 0
    share_group: str = ""
    compute_milli: int = 0

    @classmethod
    def seated(
        cls, shape: Shape, node: str, gpus: tuple[int, ...], share_milli: int
    ) -> RunningReplica:
        """A replica of a shape in this place."""
        return cls(
            node=node,
            gpus=gpus,
            share_milli=share_milli,
            cpu_milli=shape.cpu_milli,
            memory_mib=shape.memory_mib,
            share_group=shape.share_group,
            compute_milli=shape.compute_milli,
        )

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs held."""
        return self.share_milli * len(self.gpus)

    def holds(self, resource: ResourceName) -> int:
        """What it holds of a resource."""
        if resource == "gpu_milli":
            return self.gpu_milli
        return self.cpu_milli if resource == "cpu_milli" else self.memory_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """What stopping or moving a running job means; durations in seconds."""

    allowed: bool = True
    movable: bool = False
    checkpoint_age_s: int = 0
    restart_s: int = 60
    cost_gpu_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """Work that holds GPUs now.

    Parameters
    ----------
    shapes
        The request of each replica, in the order of `replicas`.
    min_replicas
        Fewest replicas that make sense (0: each for itself); None: the whole gang is the unit.
    """

    name: str
    replicas: tuple[RunningReplica, ...]
    shapes: tuple[Shape, ...]
    queue: str = "default"
    priority: int = 0
    min_replicas: int | None = None
    wanted_replicas: int | None = None
    ends_in_s: int | None = None
    preemption: Preemption = field(default_factory=Preemption)

    @property
    def floor(self) -> int:
        """Replicas below which nothing of the job may be left running."""
        return len(self.replicas) if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A tenant: what it is guaranteed (`quota`), may use at most (`limit`), and its weight.

    Missing resources are 0 in `quota` and unlimited in `limit`; `demand` overrides what the
    queue's running and pending work adds up to. `past_gpu_s` is what its own jobs have used before
    now, decayed (see `solver.queues`).
    """

    name: str
    parent: str | None = None
    priority: int = 0
    weight: int = 1
    quota: Mapping[ResourceName, int] = field(default_factory=dict)
    limit: Mapping[ResourceName, int] = field(default_factory=dict)
    demand: Mapping[ResourceName, int] = field(default_factory=dict)
    past_gpu_s: float = 0.0
