"""Tiers of tenants and the kinds of GPUs that they could share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from solver.advice import Device, Tier
from specs.errors import SpecErrors
from specs.requests import mib

if TYPE_CHECKING:
    from solver.problem import Problem
    from specs.loaded import LoadedSpec


def tiers_of(loaded: LoadedSpec, devices: tuple[Device, ...]) -> tuple[Tier, ...]:
    """The tiers of a spec.

    Raises
    ------
    SpecErrors
        A tier needs more memory than any GPU has, or keeps more than one GPU busy, or nothing.
    """
    faults = []
    most = max((device.memory_mib for device in devices), default=0)
    for index, entry in enumerate(loaded.spec.tenants):
        path = ("tenants", index)
        if mib(entry.gpu_memory) > most:
            rule = f"memory beyond the card: the largest GPU has {most:,} MiB"
            faults.append(loaded.fault((*path, "gpu_memory"), rule, "Spread it over several GPUs"))
        if not 0 < entry.busy <= 1:
            rule = "a part of one GPU, above 0 and at most 1"
            faults.append(loaded.fault((*path, "busy"), rule, "For more, write gpus"))
    if faults:
        raise SpecErrors(faults)
    return tuple(
        Tier(
            name=entry.name,
            memory_mib=mib(entry.gpu_memory),
            busy_ratio=float(entry.busy),
            trusted=entry.trusted,
            work=entry.work,
            burst=entry.burst,
            count=entry.count,
            gpus=entry.gpus,
            oversubscribe=entry.oversubscribe,
        )
        for entry in loaded.spec.tenants
    )


def devices_of(problem: Problem) -> tuple[Device, ...]:
    """The kinds of GPUs of a cluster whose model and memory are known, each once."""
    found: dict[str, Device] = {}
    most: Counter[str] = Counter()
    for node in problem.nodes:
        for name, count in Counter(m for m in node.topology.gpu_models if m).items():
            most[name] = max(most[name], count)
    for node in problem.nodes:
        topology = node.topology
        for gpu, (model, memory_mib) in enumerate(
            zip(topology.gpu_models, topology.gpu_memory_mib, strict=True)
        ):
            if model is not None and memory_mib is not None:
                table = node.mig_tables[gpu]
                device = Device(
                    model=model, memory_mib=memory_mib, table=table, on_one_node=most[model]
                )
                found.setdefault(model, device)
    return tuple(found.values())
