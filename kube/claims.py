"""Devices by resource claim (DRA), counted as units of the resource that such devices are.

A ResourceSlice has the devices that a driver offers on a node, a ResourceClaim what a pod wants
and, once it is allocated, which devices it has. Whole GPUs become units of their resource on both
sides, so that everything else needs to know one way of counting only. What is not that simple
(alternatives, CEL selectors, claims that waiting pods share, MIG devices) stays a remark.

References
----------
KEP-4381 (structured parameters), KEP-5004 (extended resources by DRA), KEP-5055 (device taints);
``resource.k8s.io`` v1, v1beta2 and v1beta1, whose requests and devices are nested differently.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specs.importers.fields import Fields

UNCLEAR = "resource claims (DRA)"
"""Remark of templates whose claims are not understood whole."""

DRIVERS = {"gpu.nvidia.com": "nvidia.com/gpu", "gpu.amd.com": "amd.com/gpu"}
"""Driver, and name of its class of whole GPUs, to the resource that they are units of."""


class DeviceId(NamedTuple):
    """A device, by what is unique in a cluster."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Whole GPUs that a driver offers on a node; `tainted` of them are not to be used."""

    node: str
    driver: str
    pool: str
    generation: int
    gpus: tuple[str, ...]
    tainted: int
    others: int
    product: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a claim wants by device class, and the devices that it has. `clear`: that is all."""

    wants: Mapping[str, int]
    clear: bool
    has: tuple[DeviceId, ...] = ()


@dataclass(slots=True)
class Claims:
    """What a snapshot knows of claims: slices, claims and templates by namespace and name.

    `resources` are those that classes of devices stand for, `extended` those that a pod may ask for
    without a claim and be given by one all the same.
    """

    slices: dict[str, Slice] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    templates: dict[tuple[str, str], Claim] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=lambda: dict(DRIVERS))
    extended: set[str] = field(default_factory=set)


def read_slice(obj: Fields) -> Slice:
    """A ResourceSlice."""
    spec = obj.map("spec")
    driver, pool = spec.text("driver"), spec.map("pool")
    gpus, tainted, product, others = [], 0, "", 0
    for device in spec.maps("devices"):
        body = device.map("basic") if device.has("basic") else device
        attributes = body.map("attributes")

        def told(name: str, attributes: Fields = attributes) -> str:
            key = name if attributes.has(name) else f"{driver}/{name}"
            return attributes.map(key).text("string")

        if driver not in DRIVERS or told("type") not in ("", "gpu", "amdgpu"):
            others += 1
            continue
        gpus.append(device.text("name"))
        effects = {taint.text("effect") for taint in body.maps("taints")}
        tainted += bool(effects & {"NoSchedule", "NoExecute"})
        product = product or told("productName")
    return Slice(
        node=spec.text("nodeName"),
        driver=driver,
        pool=pool.text("name"),
        generation=pool.whole("generation", 0),
        gpus=tuple(gpus),
        tainted=tainted,
        others=others,
        product=product,
    )


def read_claim(spec: Fields, status: Fields) -> Claim:
    """A ResourceClaim, or the spec inside a template of one."""
    wants: Counter[str] = Counter()
    clear, watchers = True, set()
    for request in spec.map("devices").maps("requests"):
        body = request.map("exactly") if request.has("exactly") else request
        if body.flag("adminAccess"):
            watchers.add(request.text("name"))  # looks at devices that others hold
            continue
        plain = body.text("allocationMode", "ExactCount") == "ExactCount"
        clear &= plain and body.has("deviceClassName")
        clear &= not any(body.has(key) for key in ("selectors", "firstAvailable", "capacity"))
        wants[body.text("deviceClassName")] += body.whole("count", 1, 1)
    results = status.map("allocation", "devices").maps("results")
    has = [
        DeviceId(entry.text("driver"), entry.text("pool"), entry.text("device"))
        for entry in results
        if entry.text("request") not in watchers
    ]
    return Claim(wants=dict(wants), clear=clear, has=tuple(has))


def references(spec: Fields, status: Fields | None) -> tuple[tuple[str, str], ...]:
    """Name of each claim of a pod, where it is known, and of the template that it is made of."""
    made = {
        entry.text("name"): entry.text("resourceClaimName")
        for entry in (status.maps("resourceClaimStatuses") if status is not None else ())
    }
    return tuple(
        (
            entry.text("resourceClaimName") or made.get(entry.text("name"), ""),
            entry.text("resourceClaimTemplateName"),
        )
        for entry in spec.maps("resourceClaims")
    )
