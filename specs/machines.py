"""Pools and nodes as users write them to the solver's nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from solver.cluster import BUILT_IN_LEVELS, GPU_MILLI, Node, Taint
from specs.hints import did_you_mean
from specs.models.cluster import PoolSpec
from specs.models.quantity import MIB, MILLI, rounded
from specs.slices import cuttable, existing, mig_gpu_faults
from specs.topologies import Hardware, Topologies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.models.cluster import MachineSpec, MigGpuSpec, NodeSpec
    from specs.models.policy import MigRulesSpec
    from specs.places import Path

MAX_NODES = 100_000
"""Pools that expand to more are a slip of the keyboard."""

MOST_OVERSUBSCRIBED = 100
"""Times that the compute of a GPU may be given to shares: far beyond what is any use."""


@dataclass(kw_only=True)
class Machines:
    """Nodes of the spec by name, in its order: pools first, then single nodes.

    `unsure` has the nodes whose entry is at fault: what they hold cannot be checked.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)


def expand_machines(loaded: LoadedSpec, faults: list[SpecFault], notes: list[str]) -> Machines:
    """All nodes of the spec; what is wrong with its machines is added to `faults`."""
    cluster = loaded.spec.cluster
    faults.extend(_level_faults(loaded))
    machines = Machines()
    topologies = Topologies(loaded, faults, notes)
    first: dict[str, int] = {}
    entries: list[tuple[Path, PoolSpec | NodeSpec]] = [
        *((("cluster", "pools", i), pool) for i, pool in enumerate(cluster.pools)),
        *((("cluster", "nodes", i), node) for i, node in enumerate(cluster.nodes)),
    ]
    total = 0
    for path, entry in entries:
        count = entry.count if isinstance(entry, PoolSpec) else 1
        total += count
        if total > MAX_NODES:
            at = (*path, "count") if isinstance(entry, PoolSpec) else path
            faults.append(loaded.fault(at, f"more than {MAX_NODES} nodes"))
            break
        before = len(faults)
        hardware = topologies.of(entry, path)
        faults.extend(_machine_faults(loaded, entry, path, hardware))
        sound = len(faults) == before and not loaded.is_damaged(path)
        _add(machines, loaded, faults, entry, path, hardware if sound else None, first)
    if not entries and not loaded.lost_names(("cluster", "pools"), ("cluster", "nodes")):
        faults.append(
            loaded.fault(("cluster",), "a cluster has nodes", "Add pools or nodes", value=None)
        )
    return machines


def _add(
    machines: Machines,
    loaded: LoadedSpec,
    faults: list[SpecFault],
    entry: PoolSpec | NodeSpec,
    path: Path,
    hardware: Hardware | None,
    first: dict[str, int],
) -> None:
    """Add the nodes of one entry; of nodes with the same name the first stays."""
    line = loaded.document.place(loaded.origin(path)).line
    if isinstance(entry, PoolSpec):
        names = [f"{entry.name}-{index}" for index in range(entry.count)]
    else:
        names = [entry.name]
    twice = [name for name in names if name in first]
    if twice:
        rule = "the name of a node is used twice"
        rule += f': "{twice[0]}"' if isinstance(entry, PoolSpec) else ""
        hint = f"Line {first[twice[0]]} has it already"
        faults.append(loaded.fault((*path, "name"), rule, hint))
    if hardware is None:
        machines.unsure.update(names)
    else:
        for index, name in enumerate(names):
            mig = loaded.spec.mig
            machines.nodes.setdefault(name, _node(entry, hardware, name, index, mig))
    for name in names:
        first.setdefault(name, line)


def _node(
    entry: PoolSpec | NodeSpec, hardware: Hardware, name: str, index: int, mig: MigRulesSpec
) -> Node:
    cpu_milli, memory_mib = _allocatable(entry, hardware)
    models = hardware.topology.gpu_models
    cut = frozenset(gpu.gpu for gpu in entry.mig)
    return Node(
        name=name,
        topology=hardware.topology.without_nvlink(cut),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        location=_location(entry, hardware, index),
        labels=entry.labels,
        taints=tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in entry.taints),
        ready=entry.ready,
        cordoned=entry.cordoned,
        unhealthy_gpus=frozenset(entry.gpus_unhealthy),
        mig_gpus=frozenset(gpu.gpu for gpu in entry.mig if not _comes_back(gpu, mig, models)),
        mig_mode=frozenset(gpu.gpu for gpu in entry.mig),
        cuttable_gpus=_cuttable(entry, mig, models),
        instances=existing(entry.mig, models),
        compute_limit_milli=int(entry.oversubscribe * GPU_MILLI),
    )


def _comes_back(entry: MigGpuSpec, mig: MigRulesSpec, models: Sequence[str | None]) -> bool:
    """Whether a GPU in MIG mode may be whole again: nobody uses it, and the spec allows it."""
    used = any(instance.used_by is not None for instance in entry.instances)
    return mig.back_to_whole and not used and entry.gpu in cuttable(models)


def _cuttable(
    entry: MachineSpec, mig: MigRulesSpec, models: Sequence[str | None]
) -> frozenset[int]:
    fixed = {g.gpu for g in entry.mig if not _comes_back(g, mig, models)}
    if mig.cut_whole:
        return cuttable(models) - fixed - set(entry.gpus_unhealthy)
    return frozenset(g.gpu for g in entry.mig) - fixed


def _capacity(
    entry: MachineSpec, hardware: Hardware
) -> tuple[Fraction | int | None, Fraction | int | None]:
    """Thousandths of cores and MiB that are installed, exactly; None is no limit."""
    preset = hardware.preset
    cpu = preset.cpu_milli if preset and entry.cpu is None else None
    memory = preset.memory_mib if preset and entry.memory is None else None
    return (
        entry.cpu * MILLI if entry.cpu is not None else cpu,
        entry.memory / MIB if entry.memory is not None else memory,
    )


def _allocatable(entry: MachineSpec, hardware: Hardware) -> tuple[int | None, int | None]:
    cpu, memory = _capacity(entry, hardware)
    reserved_cpu, reserved_memory = _reserved(entry)
    return (
        None if cpu is None else rounded(cpu - reserved_cpu, "down"),
        None if memory is None else rounded(memory - reserved_memory, "down"),
    )


def _reserved(entry: MachineSpec) -> tuple[Fraction, Fraction]:
    """Thousandths of cores and MiB that the system keeps, exactly."""
    nothing = Fraction(0)
    reserved = entry.reserved
    return (reserved.cpu or nothing) * MILLI, (reserved.memory or nothing) / MIB


def _location(entry: PoolSpec | NodeSpec, hardware: Hardware, index: int) -> Mapping[str, str]:
    """Groups of the node number `index`; those of a pool are named POOL-LEVEL-NUMBER."""
    if not isinstance(entry, PoolSpec):
        return entry.location
    per = dict(entry.nodes_per)
    preset = hardware.preset
    if preset is not None and preset.domain_nodes > 1 and "domain" not in entry.location:
        per.setdefault("domain", preset.domain_nodes)
    if not per:
        return entry.location
    numbered = {level: f"{entry.name}-{level}-{index // size}" for level, size in per.items()}
    return {**entry.location, **numbered}


def _level_faults(loaded: LoadedSpec) -> Iterator[SpecFault]:
    seen: set[str] = set()
    for index, level in enumerate(loaded.spec.cluster.levels):
        path = ("cluster", "levels", index)
        if level in BUILT_IN_LEVELS:
            hint = "Remove it; it is there by itself"
            yield loaded.fault(path, "this level is built in", hint)
        elif level in seen:
            yield loaded.fault(path, "the name of a level is used twice", "Remove one of them")
        seen.add(level)


def _machine_faults(
    loaded: LoadedSpec, entry: PoolSpec | NodeSpec, path: Path, hardware: Hardware | None
) -> Iterator[SpecFault]:
    yield from _place_faults(loaded, entry, path)
    if hardware is None:
        return
    for key, capacity, reserved in zip(
        ("cpu", "memory"),
        _capacity(entry, hardware),
        _reserved(entry),
        strict=True,
    ):
        if capacity is not None and reserved > capacity:
            hint = "Lower it"
            yield loaded.fault((*path, "reserved", key), "more than the node has", hint)
    n_gpus = hardware.topology.n_gpus
    rule = f"the node has GPUs 0 to {n_gpus - 1}" if n_gpus else "the node has no GPUs"
    if not 1 <= entry.oversubscribe <= MOST_OVERSUBSCRIBED:
        rule = f"compute can be given 1 to {MOST_OVERSUBSCRIBED} times"
        hint = "Memory never is oversubscribed: it is not meant here"
        yield loaded.fault((*path, "oversubscribe"), rule, hint)
    for index, gpu in enumerate(entry.gpus_unhealthy):
        if gpu >= n_gpus:
            yield loaded.fault((*path, "gpus_unhealthy", index), rule)
    cut: set[int] = set()
    for index, mig in enumerate(entry.mig):
        at = (*path, "mig", index, "gpu")
        if mig.gpu >= n_gpus:
            yield loaded.fault(at, rule)
        elif mig.gpu in cut:
            yield loaded.fault(at, "this GPU is listed twice", "Join its instances")
        else:
            model = hardware.topology.gpu_models[mig.gpu]
            yield from mig_gpu_faults(loaded, mig, (*path, "mig", index), model)
        cut.add(mig.gpu)


def _place_faults(
    loaded: LoadedSpec, entry: PoolSpec | NodeSpec, path: Path
) -> Iterator[SpecFault]:
    """Levels that do not exist, and groups given twice."""
    known = [*loaded.spec.cluster.levels, "domain"]
    sure = ("cluster", "levels") not in loaded.damaged
    keys = ["location", "nodes_per"] if isinstance(entry, PoolSpec) else ["location"]
    for key in keys:
        for level in getattr(entry, key):
            at = (*path, key, level)
            if level in ("node", "island"):
                hint = "Name one of your own levels, or domain"
                yield loaded.fault(at, f"{level} is built in and needs no place", hint, key=True)
            elif level not in known and sure:
                hint = did_you_mean(level, known, "levels")
                rule = "no such level in cluster.levels"
                yield loaded.fault(at, rule, hint, value=level, key=True)
            elif key == "nodes_per" and level in entry.location:
                rule = "location gives this level already"
                yield loaded.fault(at, rule, "Keep one of them", value=level, key=True)
