"""GPUs as Kubernetes counts them: what a unit of a resource is, which GPUs a node has.

The API knows counts of resources. A unit of ``nvidia.com/gpu`` is a GPU, or one of several shares
of it where it is time-sliced, or a MIG instance; ``nvidia.com/gpu.shared`` and
``nvidia.com/mig-1g.10gb`` say so by their names, otherwise labels of the node do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from kube.labels import ACCELERATOR_MODELS, ACCELERATORS, INSTANCE_TYPE, MACHINES
from kube.mig import Placed, arranged
from specs.models.base import MAX_NODE_GPUS
from topology.hardware import canonical_model, gpu_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import Node

REPLICAS_OF = "{}.replicas"
"""Label with the shares of each unit of a resource, as gpu-feature-discovery names it."""
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
SHARED = ".shared"
COUNT, REPLICAS, PRODUCT, MEMORY = (
    f"nvidia.com/gpu.{word}" for word in ("count", "replicas", "product", "memory")
)
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
AMD_PRODUCTS = ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")

_SLICES, _MEMORY_SLICES = 7, 8
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb", re.ASCII)
_PRODUCT_MIG = re.compile(r"-MIG-(\d+g\.\d+gb(?:\.me)?)", re.ASCII)
_GIGABYTES = re.compile(r"(\d+)GB", re.ASCII)


class Unit(NamedTuple):
    """What one unit of a resource is: a GPU or a MIG instance, or one of `parts` of it."""

    parts: int = 1
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Devices:
    """Which resources are GPUs."""

    resources: tuple[str, ...] = GPU_RESOURCES

    def is_gpu(self, resource: str) -> bool:
        """Whether units of the resource are GPUs, or parts of them."""
        base = resource.removesuffix(SHARED)
        return base in self.resources or bool(self.profile(base))

    def profile(self, resource: str) -> str:
        """The MIG profile that a resource is named after; empty for any other."""
        if "/mig-" not in resource:
            return ""
        vendor, slash, name = resource.partition("/")
        ours = any(own.startswith(vendor + slash) for own in self.resources)
        if not (ours and name.startswith("mig-") and _PROFILE.match(name[4:])):
            return ""
        return name[4:].replace(".me", "+me")

    def unit(self, resource: str, node: Node) -> Unit:
        """What a unit of the resource is on a node."""
        base = resource.removesuffix(SHARED)
        replicas = _number(node.labels.get(REPLICAS)) or _number(node.labels.get(GKE_CLIENTS)) or 1
        if profile := self.profile(base):
            own = _number(node.labels.get(REPLICAS_OF.format(base)))
            return Unit(own or (replicas if base != resource else 1), profile)
        count, units = _number(node.labels.get(COUNT)), _units(node.capacity, resource)
        if found := _PRODUCT_MIG.search(node.labels.get(PRODUCT, "")):
            # The label counts instances; replicas may be advertised under another name.
            renamed = base == resource and count and units <= count
            return Unit(1 if renamed else replicas, found[1].replace(".me", "+me"))
        if node.labels.get(GKE_PARTITION):
            return Unit(replicas, node.labels[GKE_PARTITION])
        if replicas == 1 and base == resource and count and units > count and not units % count:
            return Unit(units // count)  # several units for each GPU, whoever advertises them
        if replicas > 1 and base == resource and count and units <= count:
            return Unit()  # replicas are advertised under another name
        return Unit(max(1, replicas))

    def offered(self, node: Node) -> dict[str, Unit]:
        """GPU resources of a node, with what a unit of each is."""
        names = {**node.capacity, **node.allocatable}
        return {
            name: self.unit(name, node)
            for name in sorted(names)
            if self.is_gpu(name) and (names[name] or node.capacity.get(name))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The physical GPUs of a node.

    Parameters
    ----------
    count
        How many, those that have failed under running work included.
    unhealthy
        Indices that are never free. Which of them failed is not in the API: the last ones.
    cut
        Index to its MIG instances.
    assumed
        What had to be assumed.
    """

    count: int = 0
    model: str | None = None
    memory_mib: int | None = None
    unhealthy: tuple[int, ...] = ()
    cut: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


class TooManyGpusError(ValueError):
    """More GPUs than a node can have."""


def gpus_of(
    node: Node, devices: Devices, held: Mapping[str, int] | None = None, shared_gpus: int = 0
) -> Gpus:
    """The GPUs of a node.

    Parameters
    ----------
    held
        Units of each resource that running pods hold; a device that vanished under its pod is
        still a device that the pod has.
    shared_gpus
        GPUs that pods share by annotation, besides those.

    Raises
    ------
    TooManyGpusError
        The node would have more than 256.
    """
    whole = healthy = 0
    held = held or {}
    offered = devices.offered(node)
    instances: dict[str, int] = {}
    assumed: list[str] = []
    for name in sorted({*offered, *held}):
        unit = devices.unit(name, node)
        units = max(_units(node.capacity, name), _units(node.allocatable, name), held.get(name, 0))
        if unit.profile:
            count = -(-units // unit.parts)
            instances[unit.profile] = instances.get(unit.profile, 0) + count
            continue
        if unit.parts > 1 and not (node.labels.get(REPLICAS) or node.labels.get(GKE_CLIENTS)):
            assumed.append("more units than GPUs: each is a share of one")
        extra = shared_gpus if name in devices.resources else 0
        whole += max(-(-units // unit.parts), -(-held.get(name, 0) // unit.parts) + extra)
        healthy += _units(node.allocatable, name) // unit.parts
    if shared_gpus and not any(name in devices.resources for name in {*offered, *held}):
        whole += shared_gpus
    alike = _PRODUCT_MIG.search(node.labels.get(PRODUCT, "")) is not None
    # Where all GPUs are cut alike, the label counts instances and not GPUs.
    counted = 0 if alike else _number(node.labels.get(COUNT)) or 0
    if instances:
        cut = _cut(instances, node, max(0, counted - whole))
        assumed.append("which GPU has which MIG instances")
    else:
        cut = []
        if counted > whole and counted <= MAX_NODE_GPUS:
            whole = counted
            if not offered and not held:
                assumed.append("GPUs that labels tell of and no device plugin offers")
    amounts = [node.capacity.get(name, Fraction(0)) for name in offered]
    if any(amount.denominator > 1 for amount in amounts):
        assumed.append("parts of a GPU that a node counts are left out")
    if len({name.partition("/")[0] for name in offered}) > 1:
        assumed.append("GPUs of two vendors on one node are taken for one model")
    if whole + len(cut) > MAX_NODE_GPUS:
        raise TooManyGpusError(f"a node has at most {MAX_NODE_GPUS} GPUs")
    model = model_of(node)
    places = arranged(cut, model)
    if places is None:
        # Better none of them free than one that somebody uses.
        places = []
        assumed.append("GPUs with MIG instances that do not fit on their model are out of order")
    lost = range(min(healthy, whole), whole)
    if lost:
        assumed.append("which GPUs are out of order: the last ones")
    return Gpus(
        count=whole + len(cut),
        model=model,
        memory_mib=memory_mib_of(node),
        unhealthy=(*lost, *range(whole + len(places), whole + len(cut))),
        cut={whole + index: instances for index, instances in enumerate(places)},
        assumed=tuple(assumed),
    )


@cache
def per_gpu(profile: str, model: str | None) -> int:
    """Most instances of one profile on a GPU, by compute and memory slices."""
    found = _PROFILE.match(profile)
    if found is None or not int(found[1]):
        return 1
    most = _SLICES // int(found[1])
    memory = _GIGABYTES.search(model or "")
    if memory and int(memory[1]):
        slices = round(Fraction(int(found[2]) * _MEMORY_SLICES, int(memory[1])))
        most = min(most, _MEMORY_SLICES // max(1, slices))
    return max(1, most)


def _cut(instances: Mapping[str, int], node: Node, counted: int) -> list[tuple[str, ...]]:
    """Profiles of each MIG GPU: spread evenly over as many as the node says, else as need be."""
    model = model_of(node)
    parts = sum(Fraction(n, per_gpu(profile, model)) for profile, n in instances.items())
    gpus = max(ceil(parts), counted if counted <= MAX_NODE_GPUS else 0)
    if gpus > MAX_NODE_GPUS:
        raise TooManyGpusError(f"a node has at most {MAX_NODE_GPUS} GPUs")
    cut: list[list[str]] = [[] for _ in range(gpus)]
    for profile, count in instances.items():
        for index in range(min(count, gpus * _SLICES)):
            cut[index % gpus].append(profile)
    return [tuple(profiles) for profiles in cut]


def model_of(node: Node) -> str | None:
    """The model of a node's GPUs: by device labels, those of the cloud, or the machine type."""
    labels = node.labels
    for key in (PRODUCT, *AMD_PRODUCTS):
        if labels.get(key):
            return canonical_model(labels[key])
    vague = None
    for key in ACCELERATORS:
        if labels.get(key):
            model = ACCELERATOR_MODELS.get(labels[key], canonical_model(labels[key]))
            if gpu_model(model) is not None:
                return model
            vague = vague or model
    return MACHINES.get(labels.get(INSTANCE_TYPE, ""), vague)


def memory_mib_of(node: Node) -> int | None:
    """Memory of each of a node's GPUs, by its model or a device label."""
    known = gpu_model(model_of(node))
    return known.memory_mib if known else _number(node.labels.get(MEMORY))


def _units(amounts: Mapping[str, Fraction], resource: str) -> int:
    return int(amounts.get(resource, 0))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else None
