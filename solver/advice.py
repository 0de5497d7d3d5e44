"""Which way of sharing a GPU suits which tenant: whole, MIG, MPS or time-slicing.

The order of the rules is the argument: what must be isolated decides first, then what must be
punctual, then what wastes least.

1. Several GPUs, or more memory than one can give to a part: whole GPUs.
2. Not trusted: MIG; where it cannot be cut, a whole GPU. MPS and time-slicing share faults.
3. Latency: MIG, because nobody else's kernels can be in the way. With bursts beyond what an
   instance has, MPS for trusted tenants: an instance cannot borrow.
4. Batch: MPS, whose clients run at the same time.
5. Interactive: time-slicing, because most of the time nobody computes.

Memory is a hard limit in every case: as many tenants share a GPU as their memory allows, and as
many as keep it busy once, unless the tier says that it may be oversubscribed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from solver.slices import most_beside
from topology.mig.tables import MigTable, Profile

Work = Literal["latency", "batch", "interactive"]
Degree = Literal["yes", "soft", "no"]


class Mechanism(StrEnum):
    """A way to share a GPU."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICING = "time-slicing"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What one tenant is spared of another: fully, softly, or not at all."""

    memory: Degree
    faults: Degree
    bandwidth: Degree
    sms: Degree


ISOLATION: Mapping[Mechanism, Isolation] = {
    Mechanism.WHOLE: Isolation("yes", "yes", "yes", "yes"),
    Mechanism.MIG: Isolation("yes", "yes", "yes", "yes"),
    # Address spaces of their own and a limit on allocations, but one server: a fatal fault of a
    # client ends the others. The share of threads is a cap, no reservation.
    Mechanism.MPS: Isolation("soft", "no", "no", "soft"),
    # Address spaces of their own, and no limit: who allocates first has it.
    Mechanism.TIME_SLICING: Isolation("no", "soft", "no", "no"),
}
"""From NVIDIA's MIG and MPS guides and the README of its Kubernetes device plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Tenants that are alike.

    Parameters
    ----------
    memory_mib
        GPU memory that one of them needs.
    busy_ratio
        The part of a whole GPU's SMs that one keeps busy, on average.
    burst
        Whether it wants more than that at times, and it matters.
    count
        How many there are.
    oversubscribe
        Whether together they may be busier than the GPU; memory is never oversubscribed.
    """

    name: str
    memory_mib: int
    busy_ratio: float
    trusted: bool = True
    work: Work = "batch"
    burst: bool = False
    count: int = 1
    gpus: int = 0
    oversubscribe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The kind of GPU that is shared.

    Parameters
    ----------
    table
        None where it cannot be cut.
    on_one_node
        Most of them on one node.
    """

    model: str
    memory_mib: int
    table: MigTable | None
    on_one_node: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One mechanism for a tier on a kind of GPU.

    Parameters
    ----------
    per_gpu
        Tenants that one GPU carries.
    utilization_ratio
        How busy the GPU then is, from 0 to 1.
    slowdown
        How much longer the average work takes for want of SMs: 1 is not at all.
    profile
        The MIG profile.
    """

    mechanism: Mechanism
    per_gpu: int
    utilization_ratio: float
    slowdown: float
    profile: Profile | None = None

    def gpus_for(self, tier: Tier) -> int:
        """GPUs that all tenants of a tier need."""
        if tier.gpus > 1:
            return tier.gpus * tier.count
        return -(-tier.count // self.per_gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What suits a tier, why, and what the others would mean."""

    tier: Tier
    device: Device
    chosen: Option
    options: tuple[Option, ...]
    reasons: tuple[str, ...]


def advise(tiers: Sequence[Tier], devices: Sequence[Device]) -> tuple[Advice, ...]:
    """The mechanism for each tier, on the kind of GPU where it takes the fewest of them.

    Raises
    ------
    ValueError
        No GPU has the memory that a tier needs.
    """
    return tuple(_advise(tier, devices) for tier in tiers)


def _advise(tier: Tier, devices: Sequence[Device]) -> Advice:
    large_enough = [device for device in devices if device.memory_mib >= tier.memory_mib]
    if not large_enough:
        most = max((device.memory_mib for device in devices), default=0)
        raise ValueError(
            f"tier {tier.name!r}: needs {tier.memory_mib} MiB of GPU memory, "
            f"the largest GPU has {most}"
        )
    together = [device for device in large_enough if device.on_one_node >= tier.gpus]
    found = [_on(tier, device) for device in together or large_enough]
    # A GPU that does what the rules ask for comes before one that cannot, then the fewest GPUs.
    return min(
        found,
        key=lambda a: (
            a.chosen.mechanism is Mechanism.WHOLE,
            a.chosen.gpus_for(tier),
            a.device.memory_mib,
            a.device.model,
        ),
    )


def _on(tier: Tier, device: Device) -> Advice:
    options = options_on(tier, device)
    wanted, reasons = _rule(tier, Mechanism.MIG in options)
    if wanted not in options:
        reasons = (*reasons, f"{wanted.value} has no room for two of them on a {device.model}")
        wanted = Mechanism.WHOLE
    return Advice(
        tier=tier,
        device=device,
        chosen=options[wanted],
        options=tuple(options.values()),
        reasons=reasons,
    )


def _rule(tier: Tier, can_be_cut: bool) -> tuple[Mechanism, tuple[str, ...]]:
    if tier.gpus > 1:
        return Mechanism.WHOLE, ("several GPUs that work together are whole ones: no P2P with MIG",)
    if not tier.trusted:
        why = "not trusted: memory and faults have to be isolated in hardware"
        if can_be_cut:
            return Mechanism.MIG, (why,)
        return Mechanism.WHOLE, (why, "no MIG profile serves it, and MPS shares faults")
    if tier.work == "latency" and tier.burst:
        why = "latency with bursts: an instance cannot borrow SMs, an MPS client can"
        return Mechanism.MPS, (why, "the tenants are trusted, so shared faults are acceptable")
    if tier.work == "latency":
        why = "latency: own SMs, cache and bandwidth, so nobody else's kernels are in the way"
        if can_be_cut:
            return Mechanism.MIG, (why,)
        return Mechanism.MPS, ("latency, and no MIG profile serves it: MPS caps each client",)
    if tier.work == "batch":
        return Mechanism.MPS, ("batch, trusted: clients of MPS run at the same time",)
    return Mechanism.TIME_SLICING, ("interactive: mostly idle, and alone when it computes",)


def options_on(tier: Tier, device: Device) -> dict[Mechanism, Option]:
    """Every mechanism by which the GPU could serve the tier."""
    found = {
        Mechanism.WHOLE: Option(
            mechanism=Mechanism.WHOLE,
            per_gpu=1,
            utilization_ratio=min(1.0, tier.busy_ratio),
            slowdown=max(1.0, tier.busy_ratio),
        )
    }
    if tier.gpus > 1:
        return found
    profile = _profile(tier, device)
    if device.table is not None and profile is not None:
        sms = profile.compute / device.table.compute
        number = most_beside(device.table, (), profile)
        found[Mechanism.MIG] = Option(
            mechanism=Mechanism.MIG,
            per_gpu=number,
            utilization_ratio=min(1.0, number * min(tier.busy_ratio, sms)),
            slowdown=max(1.0, tier.busy_ratio / sms),
            profile=profile,
        )
    together = device.memory_mib // tier.memory_mib if tier.memory_mib else MOST_CLIENTS
    if not tier.oversubscribe and tier.busy_ratio:
        together = min(together, int(1 / tier.busy_ratio + 1e-9))
    together = min(together, MOST_CLIENTS)
    if together >= 2:
        load = together * tier.busy_ratio
        for mechanism in (Mechanism.MPS, Mechanism.TIME_SLICING):
            found[mechanism] = Option(
                mechanism=mechanism,
                per_gpu=together,
                utilization_ratio=min(1.0, load),
                slowdown=max(1.0, load),
            )
    return found


MOST_CLIENTS = 48
"""Clients of one MPS server on Volta and later (NVIDIA MPS guide); used for time-slicing too."""


def _profile(tier: Tier, device: Device) -> Profile | None:
    """The smallest profile with the memory, and with the SMs where the work cannot wait."""
    if device.table is None:
        return None
    compute = 0
    if tier.work == "latency":
        compute = -int(-tier.busy_ratio * device.table.compute // 1)
    enough = device.table.at_least(tier.memory_mib, min(compute, device.table.compute))
    return enough[0] if enough else None
