"""What one replica asks for, as users write it, to the shape that the solver counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solver.cluster import GPU_MILLI, Toleration
from solver.workload import LinkRule, Shape
from specs.models.quantity import MIB, MILLI, rounded
from specs.slices import slices_of
from topology.hardware import canonical_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.models.workload import RequestSpec, RoleSpec, TolerationSpec
    from specs.places import Path

GPU_KEYS = ("gpus", "gpu_memory", "mig")
"""Keys that say what is asked of GPUs; a role that has one of them takes none from its job."""


def inherited(role: RoleSpec, job: RequestSpec) -> RoleSpec:
    """The role with the request keys that it leaves out taken from its job."""
    own = role.model_fields_set
    taken = {
        key: getattr(job, key)
        for key in ("cpu", "memory", "gpu_models", "node_selector", "tolerations", "link")
        if key not in own
    }
    if not own.intersection(GPU_KEYS):
        taken |= {key: getattr(job, key) for key in GPU_KEYS}
    return role.model_copy(update=taken)


def shape_of(request: RequestSpec, *, planned: bool = True) -> Shape:
    """The shape of a request; what cannot matter (links of one GPU) is not part of it.

    Slices of work that runs (not `planned`) are instances of its node, and no part of its shape.
    """
    milli = rounded((request.gpus or 0) * MILLI, "up")
    share_memory_mib = mib(request.gpu_memory) if request.gpu_memory else 0
    is_share = 0 < milli < GPU_MILLI and not share_memory_mib
    gpus = 0 if is_share or share_memory_mib else milli // GPU_MILLI
    slices = slices_of(request) if planned else ()
    wants_gpu = milli > 0 or share_memory_mib > 0 or bool(slices)
    models = {canonical_model(model) for model in request.gpu_models} if wants_gpu else set()
    return Shape(
        gpus=gpus,
        share_milli=milli if is_share else 0,
        share_memory_mib=share_memory_mib,
        compute_milli=milli if share_memory_mib else 0,
        slices=slices,
        cpu_milli=cpu_milli(request.cpu),
        memory_mib=mib(request.memory),
        gpu_models=tuple(sorted(models)),
        node_selector=tuple(sorted(request.node_selector.items())),
        tolerations=tuple(toleration(entry) for entry in request.tolerations),
        link=LinkRule(request.link) if request.link and gpus > 1 else LinkRule.NONE,
    )


def cpu_milli(cores: Fraction | None) -> int:
    """Thousandths of a core that a request takes."""
    return rounded(cores * MILLI, "up") if cores else 0


def mib(amount: Fraction | None) -> int:
    """MiB that a request takes."""
    return rounded(amount / MIB, "up") if amount else 0


def toleration(entry: TolerationSpec) -> Toleration:
    """What a job tolerates."""
    return Toleration(
        key=entry.key, operator=entry.operator, value=entry.value, effect=entry.effect
    )


def request_faults(loaded: LoadedSpec, request: RequestSpec, path: Path) -> Iterator[SpecFault]:
    """Rules inside one request: one way to ask for GPUs, tolerations that can match."""
    given = [key for key in GPU_KEYS if key in request.model_fields_set]
    if given == ["gpus", "gpu_memory"]:
        if request.gpus is not None and not 0 < request.gpus <= 1:
            rule = "beside gpu_memory, gpus is the part of the compute: above 0, at most 1"
            hint = "For whole GPUs use gpus and gpu_models, without gpu_memory"
            yield loaded.fault((*path, "gpus"), rule, hint)
    elif len(given) > 1:
        hint = "gpu_memory is a share of one GPU; for whole GPUs use gpus and gpu_models"
        rule = f"{given[0]} and {given[1]} are two ways to ask for the same thing"
        yield loaded.fault((*path, given[1]), rule, hint if "gpu_memory" in given else "")
    elif request.mig and request.link is not None:
        hint = "Remove link, or ask for whole GPUs"
        yield loaded.fault((*path, "link"), "MIG instances have no NVLink", hint)
    if request.gpu_memory is not None and not request.gpu_memory:
        yield loaded.fault((*path, "gpu_memory"), "a share is more than nothing")
    for index, entry in enumerate(request.tolerations):
        at = (*path, "tolerations", index)
        if entry.operator == "Exists" and entry.value:
            hint = "Remove the value, or use operator: Equal"
            yield loaded.fault((*at, "value"), "Exists compares no value", hint)
        if entry.operator == "Equal" and not entry.key:
            hint = "Name the key, or use operator: Exists for every taint"
            yield loaded.fault(at, "Equal needs a key", hint)
