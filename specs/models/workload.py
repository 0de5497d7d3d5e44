"""Work as users write it: requests, roles, pending jobs, running work."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from specs.models.base import (
    Count,
    Duration,
    Flag,
    GpuIndex,
    GpuRequest,
    Name,
    PositiveCount,
    Priority,
    Quantity,
    StrictModel,
    Text,
    choice,
)

Mode = Annotated[Literal["required", "preferred"], choice("required", "preferred")]


class TolerationSpec(StrictModel):
    """A taint that the job does not mind (Kubernetes semantics)."""

    key: Text = Field("", description="Key of the taint; empty with Exists: every taint")
    operator: Annotated[Literal["Equal", "Exists"], choice("Equal", "Exists")] = Field(
        "Equal", description="Equal compares the value, Exists does not"
    )
    value: Text = Field("", description="Value of the taint, for Equal")
    effect: (
        Annotated[
            Literal["NoSchedule", "PreferNoSchedule", "NoExecute"],
            choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ]
        | None
    ) = Field(None, description="Effect of the taint; left out: every effect")


class RequestSpec(StrictModel):
    """What one replica asks of a node."""

    gpus: GpuRequest | None = Field(
        None, description="Whole GPUs per replica, or one share below 1 such as 0.5"
    )
    gpu_memory: Quantity | None = Field(
        None,
        description="A share of one GPU, said by its memory: 20Gi; gpus may say its compute",
    )
    mig: dict[Name, PositiveCount] = Field(
        default_factory=dict,
        description="MIG slices by profile, {2g.20gb: 1}, or by amounts, {20Gi+2g: 1}",
    )
    cpu: Quantity | None = Field(None, description="Cores per replica")
    memory: Quantity | None = Field(None, description="Memory per replica")
    gpu_models: tuple[Name, ...] = Field((), description="GPU models that will do; none: any")
    node_selector: dict[Name, Text] = Field(
        default_factory=dict, description="Labels that the node must carry"
    )
    tolerations: tuple[TolerationSpec, ...] = Field((), description="Taints that do not matter")
    link: Mode | None = Field(
        None, description="Whether the replica's GPUs must, or should, be connected by NVLink"
    )


class RoleSpec(RequestSpec):
    """Replicas of a job that are alike; request keys left out are the job's."""

    name: Name = Field(description="Name of the role, unique in its job")
    replicas: PositiveCount = Field(1, description="How many are wanted")
    min: Count | None = Field(None, description="How many must start together; default: all")


class TopologyRuleSpec(StrictModel):
    """The whole gang in one group of a level."""

    within: Name = Field(description="island, node, domain or one of the cluster's levels")
    mode: Mode = Field("required", description="Whether it must be so or should be so")


class SpreadSpec(StrictModel):
    """Replicas kept apart."""

    over: Name = Field("node", description="node, domain or one of the cluster's levels")
    max_per: PositiveCount = Field(1, description="Most replicas of the job in one group")


class PreemptionSpec(StrictModel):
    """What stopping the job means."""

    allowed: Flag = Field(True, description="Whether it may be stopped for other work")
    movable: Flag = Field(False, description="Whether it may go on elsewhere")
    checkpoint: Duration | None = Field(None, description="Time between checkpoints")
    restart: Duration | None = Field(None, description="Time to start again, by default 60s")
    cost_gpu_s: Count | None = Field(
        None, description="Cost of stopping it in GPU-seconds, instead of the computed one"
    )


class RunningPreemptionSpec(PreemptionSpec):
    """What stopping a job that runs means."""

    checkpoint_age: Duration | None = Field(None, description="Time since its last checkpoint")


class LoadSpec(StrictModel):
    """How many replicas a service wants over the day: a sine between min and replicas."""

    peak: Duration = Field(
        Fraction(14 * 3600), description="Time of day with the highest load (simulate)"
    )
    step: Duration = Field(Fraction(900), description="How often the load is looked at (simulate)")


class WorkSpec(RequestSpec):
    """What pending and running work have in common."""

    queue: Name | None = Field(None, description="Queue that pays for it; default: default")
    priority: Priority = Field(0, description="Higher goes first")
    kind: Annotated[Literal["training", "inference"], choice("training", "inference")] = Field(
        "training", description="What kind of work it is"
    )
    min: Count | None = Field(
        None, description="Fewest replicas that make sense: the job is elastic"
    )
    gang: Flag = Field(True, description="All or nothing; false: each replica for itself")
    across_instances: Flag = Field(
        False, description="Whether a gang may span MIG instances, which NVLink does not join"
    )
    share_group: Name | None = Field(
        None, description="Its shares go on a GPU only beside shares of the same group"
    )
    topology: TopologyRuleSpec | None = Field(None, description="Where the gang belongs together")
    spread: SpreadSpec | None = Field(None, description="How its replicas are kept apart")
    roles: tuple[RoleSpec, ...] = Field((), description="Replicas that differ, one gang together")
    start_group: Name | None = Field(
        None, description="Jobs of one group start together or not at all"
    )
    must: Flag = Field(False, description="Exit code 4 if the job cannot run")
    arrival: Duration | None = Field(None, description="When it arrives (simulate)")
    duration: Duration | None = Field(None, description="How long it runs (simulate)")
    load: LoadSpec | None = Field(
        None, description="Daily load of an inference job with min (simulate)"
    )


class JobSpec(WorkSpec):
    """A pending job."""

    name: Name = Field(description="Name of the job")
    replicas: PositiveCount | None = Field(None, description="How many replicas, by default 1")
    preemption: PreemptionSpec = Field(
        default_factory=PreemptionSpec, description="What stopping it will mean"
    )


def _held_kind(value: object) -> str:
    return "indices" if isinstance(value, list | tuple) else "amount"


HeldGpus = Annotated[
    Annotated[GpuRequest, Tag("amount")] | Annotated[tuple[GpuIndex, ...], Tag("indices")],
    Discriminator(_held_kind),
]


class RunningReplicaSpec(StrictModel):
    """One replica in place."""

    node: Name = Field(description="Node it runs on")
    role: Name | None = Field(None, description="Its role, where the job has roles")
    gpus: HeldGpus | None = Field(
        None, description="Indices of its GPUs, or a count or share whose indices are assumed"
    )
    gpu_memory: Quantity | None = Field(None, description="Its share of a GPU, said by memory")
    cpu: Quantity | None = Field(None, description="Cores it holds; left out: the job's")
    memory: Quantity | None = Field(None, description="Memory it holds; left out: the job's")


class RunningSpec(WorkSpec):
    """Work that holds GPUs now."""

    job: Name = Field(description="Name of the job")
    wanted: PositiveCount | None = Field(None, description="Replicas it may grow to")
    ends_in: Duration | None = Field(None, description="When it ends, if that is known")
    preemption: RunningPreemptionSpec = Field(
        default_factory=RunningPreemptionSpec, description="What stopping or moving it means"
    )
    replicas: tuple[RunningReplicaSpec, ...] = Field(description="Its replicas, each in its place")
