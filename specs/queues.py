"""Queues as users write them to the solver's, and what can be wrong between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solver.queues import decayed_gpu_s
from solver.workload import Queue, ResourceName
from specs.hints import did_you_mean
from specs.models.quantity import MIB, MILLI, Rounding, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.models.policy import AmountsSpec, QueueSpec
    from specs.places import Path

DEFAULT_QUEUE = "default"
HOUR_S = 3600


def compile_queues(loaded: LoadedSpec) -> tuple[Queue, ...]:
    """Queues of the spec; one named ``default`` where it has none."""
    entries = loaded.spec.queues
    half_life = loaded.spec.fair_share.half_life
    half_life_s = float(half_life) if half_life else None
    return tuple(_queue(entry, half_life_s) for entry in entries) or (Queue(name=DEFAULT_QUEUE),)


def _queue(entry: QueueSpec, half_life_s: float | None) -> Queue:
    return Queue(
        name=entry.name,
        parent=entry.parent,
        priority=entry.priority,
        weight=entry.weight,
        quota=amounts(entry.quota, "down"),
        limit=amounts(entry.limit, "down"),
        demand=amounts(entry.demand, "up"),
        past_gpu_s=0.0 if half_life_s is None else _past_gpu_s(entry, half_life_s),
    )


def _past_gpu_s(entry: QueueSpec, half_life_s: float) -> float:
    return sum(
        decayed_gpu_s(float(used.gpu_hours) * HOUR_S, float(used.age), half_life_s)
        for used in entry.past
    )


def amounts(entry: AmountsSpec, rounding: Rounding) -> dict[ResourceName, int]:
    """Amounts that are given, in thousandths of GPUs and cores and in MiB."""
    table: dict[ResourceName, int] = {}
    if entry.gpus is not None:
        table["gpu_milli"] = rounded(entry.gpus * MILLI, rounding)
    if entry.cpu is not None:
        table["cpu_milli"] = rounded(entry.cpu * MILLI, rounding)
    if entry.memory is not None:
        table["memory_mib"] = rounded(entry.memory / MIB, rounding)
    return table


def queue_faults(loaded: LoadedSpec) -> Iterator[SpecFault]:
    """Names used twice, parents that do not exist or go round, quotas above limits, lost pasts."""
    entries = loaded.spec.queues
    half_life = loaded.spec.fair_share.half_life
    if half_life is not None and half_life <= 0:
        yield loaded.fault(("fair_share", "half_life"), "a half life is longer than 0s", "Say 7d")
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        path: Path = ("queues", index)
        if entry.name in first:
            line = loaded.document.place(loaded.origin(("queues", first[entry.name], "name"))).line
            hint = f"Line {line} has it already"
            yield loaded.fault((*path, "name"), "the name of a queue is used twice", hint)
        first.setdefault(entry.name, index)
        if entry.past and half_life is None and not loaded.is_damaged(("fair_share",)):
            hint = "Say fair_share: {half_life: 7d}, or remove past"
            rule = "past use counts only where a half life says how fast it is forgotten"
            yield loaded.fault((*path, "past"), rule, hint, value=None)
        for resource in ("gpus", "cpu", "memory"):
            quota, limit = getattr(entry.quota, resource), getattr(entry.limit, resource)
            if quota is not None and limit is not None and quota > limit:
                hint = "Lower the quota or raise the limit"
                yield loaded.fault((*path, "quota", resource), "the quota is above the limit", hint)
    yield from _parent_faults(loaded, first)


def _parent_faults(loaded: LoadedSpec, index_of: dict[str, int]) -> Iterator[SpecFault]:
    parent_of = {entry.name: entry.parent for entry in loaded.spec.queues}
    reported: set[str] = set()
    for index, entry in enumerate(loaded.spec.queues):
        if entry.parent is None:
            continue
        at = ("queues", index, "parent")
        if entry.parent not in index_of:
            if not loaded.lost_names(("queues",)):
                hint = did_you_mean(entry.parent, index_of, "queues")
                yield loaded.fault(at, "no queue has this name", hint)
            continue
        chain = [entry.name]
        above: str | None = entry.parent
        while above is not None and above not in chain:
            chain.append(above)
            above = parent_of.get(above)
        if above == entry.name and entry.name not in reported:
            reported.update(chain)
            way = " → ".join([*chain, entry.name])
            hint = "Remove one of the parents"
            yield loaded.fault(at, f"queues cannot be their own parents: {way}", hint)


def unknown_queue(loaded: LoadedSpec, queue: str | None, path: Path) -> Iterator[SpecFault]:
    """The fault of work (at `path`) whose queue does not exist."""
    if loaded.lost_names(("queues",)):
        return
    names = {entry.name for entry in loaded.spec.queues} or {DEFAULT_QUEUE}
    if (queue or DEFAULT_QUEUE) in names:
        return
    if queue is None:
        rule = 'no queue is named "default", where work without a queue goes'
        hint = f"Say queue: {min(names)}, or declare default"
        yield loaded.fault(path, rule, hint, value=None)
        return
    hint = did_you_mean(queue, names, "queues")
    yield loaded.fault((*path, "queue"), "no queue has this name", hint)
