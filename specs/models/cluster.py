"""Machines as users write them: pools, single nodes, their GPUs, links, taints and places."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from specs.models.base import (
    Decimal,
    Flag,
    GpuCapacity,
    GpuIndex,
    Name,
    PositiveCount,
    Quantity,
    StrictModel,
    Text,
    choice,
    refuse,
)
from topology.links import Link


def _link(value: object) -> Link:
    if isinstance(value, Link):
        return value
    try:
        return Link.parse(str(value))
    except ValueError:
        refuse("a link as nvidia-smi prints it: NV1 to NV18, XGMI, PIX, PXB, PHB, NODE or SYS")


LinkLabel = Annotated[
    Link,
    PlainValidator(_link),
    WithJsonSchema({"type": "string", "pattern": "^(NV[0-9]+|XGMI|PIX|PXB|PHB|NODE|SYS|SOC)$"}),
]


class GpuSpec(StrictModel):
    """One device of a node whose GPUs differ."""

    model: Name = Field(description="Model from the catalogue, or any name of your own")
    memory: Quantity | None = Field(None, description="Memory, by default the model's")


class LinkSpec(StrictModel):
    """A link between two GPUs of the node; pairs that are not listed are SYS."""

    a: GpuIndex = Field(description="Index of one GPU")
    b: GpuIndex = Field(description="Index of the other")
    kind: LinkLabel = Field(description="As nvidia-smi prints it: NV12, PIX, PHB, …")


class TopologySpec(StrictModel):
    """Where GPUs and links of a node come from: a preset or a capture."""

    file: Text | None = Field(
        None, description="Text of `nvidia-smi topo -m`, relative to the spec's folder"
    )
    preset: Name | None = Field(None, description="Name of a machine preset, such as hgx-h100")


class TaintSpec(StrictModel):
    """A mark that keeps replicas off the node unless they tolerate it."""

    key: Name = Field(description="Key of the taint")
    value: Text = Field("", description="Value of the taint")
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"],
        choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
    ] = Field("NoSchedule", description="What it does to replicas that do not tolerate it")


class ReservedSpec(StrictModel):
    """What the system keeps for itself: allocatable = capacity - reserved."""

    cpu: Quantity | None = Field(None, description="Cores")
    memory: Quantity | None = Field(None, description="Memory")


class MigInstanceSpec(StrictModel):
    """One MIG instance that exists on a GPU."""

    profile: Name = Field(description="Such as 3g.40gb")
    start: GpuIndex | None = Field(None, description="First memory slice")
    used_by: Name | None = Field(None, description="Who uses it")


class MigGpuSpec(StrictModel):
    """A GPU that is cut into MIG instances."""

    gpu: GpuIndex = Field(description="Index of the GPU")
    instances: tuple[MigInstanceSpec, ...] = Field((), description="Its instances")


def _gpus_kind(value: object) -> str:
    return "devices" if isinstance(value, list | tuple) else "count"


Gpus = Annotated[
    Annotated[GpuCapacity, Tag("count")] | Annotated[tuple[GpuSpec, ...], Tag("devices")],
    Discriminator(_gpus_kind),
]


class MachineSpec(StrictModel):
    """What pools and nodes have in common."""

    preset: Name | None = Field(
        None, description="Machine preset: GPUs, links, default CPU and memory, NVLink domain"
    )
    topology: TopologySpec | None = Field(None, description="Source of GPUs and links")
    gpu_model: Name | None = Field(None, description="Model of all GPUs of the node")
    gpus: Gpus | None = Field(None, description="How many GPUs, or a list of devices that differ")
    links: tuple[LinkSpec, ...] = Field((), description="Links beside or instead of topology")
    cpu: Quantity | None = Field(None, description="Cores; left out: the preset's, or no limit")
    memory: Quantity | None = Field(None, description="Memory; left out: the preset's, or no limit")
    location: dict[Name, Name] = Field(
        default_factory=dict, description="Level (or domain) to the group that the node is in"
    )
    labels: dict[Name, Text] = Field(default_factory=dict, description="Labels of the node")
    taints: tuple[TaintSpec, ...] = Field((), description="Taints of the node")
    reserved: ReservedSpec = Field(default_factory=ReservedSpec, description="Kept for the system")
    ready: Flag = Field(True, description="Whether the node works at all")
    cordoned: Flag = Field(False, description="Whether it takes no new replicas")
    gpus_unhealthy: tuple[GpuIndex, ...] = Field(
        (), description="GPUs that are never free, though running work may still hold them"
    )
    mig: tuple[MigGpuSpec, ...] = Field((), description="GPUs that are cut into MIG instances")
    oversubscribe: Decimal = Field(
        Fraction(1),
        description="How often the compute of a GPU may be given to shares, 1 to 100",
    )


class PoolSpec(MachineSpec):
    """Machines that are alike: NAME-0 to NAME-(count-1)."""

    name: Name = Field(description="Name of the pool; its nodes are NAME-0, NAME-1, …")
    count: PositiveCount = Field(1, description="How many nodes")
    nodes_per: dict[Name, PositiveCount] = Field(
        default_factory=dict,
        description="Level to nodes in one group: {rack: 4} puts the first four in NAME-rack-0",
    )


class NodeSpec(MachineSpec):
    """One machine."""

    name: Name = Field(description="Name of the node, also its label kubernetes.io/hostname")


class Cluster(StrictModel):
    """The machines."""

    name: Name = Field("cluster", description="Name of the cluster")
    levels: tuple[Name, ...] = Field(
        (),
        description="Levels, outermost first; domain, node and island are built in",
    )
    pools: tuple[PoolSpec, ...] = Field((), description="Machines that are alike")
    nodes: tuple[NodeSpec, ...] = Field((), description="Single machines")
