"""A wanted MIG geometry and what a node still lacks of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plugin.devices.base import MigInstance, NodeDevices, PhysicalGpu
from plugin.errors import ConfigError
from plugin.intent import Slot
from topology.errors import TopologyError
from topology.hardware import canonical_model
from topology.mig.layouts import Instance, clash
from topology.mig.tables import mig_table_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGpu:
    """Instances that a GPU should have in the end."""

    index: int
    final: tuple[Slot, ...]


def read_wanted(data: object, node: str | None = None) -> tuple[WantedGpu, ...]:
    """The geometry of this node in an answer of ``mig plan``.

    Parameters
    ----------
    data
        The JSON document.
    node
        Name of this node; entries for others are left out, those without a node are for us.

    Raises
    ------
    ConfigError
        The document is not of that form; the path says where.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("gpus"), list):
        raise ConfigError(("gpus",), "a list of GPUs is wanted here", "Is it from mig plan?")
    nodes = {e["node"] for e in data["gpus"] if isinstance(e, Mapping) and e.get("node")}
    if node is None and len(nodes) > 1:
        names = ", ".join(sorted(map(str, nodes))[:3]) + (", …" if len(nodes) > 3 else "")
        hint = "Say with --node-name which node this is"
        raise ConfigError(("gpus",), f"there are GPUs of {len(nodes)} nodes: {names}", hint)
    wanted: dict[int, WantedGpu] = {}
    for at, entry in enumerate(data["gpus"]):
        try:
            if node is not None and entry.get("node", node) != node:
                continue
            final = tuple((str(one["profile"]), int(one["start"])) for one in entry["final"])
            index = int(entry["gpu"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                ("gpus", at), f"wants gpu and final[{{profile, start}}]: {error}"
            ) from error
        if index in wanted:
            raise ConfigError(("gpus", at), f"GPU {index} was there before")
        wanted[index] = WantedGpu(index=index, final=final)
    return tuple(wanted.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one GPU still needs."""

    gpu: PhysicalGpu
    destroy: tuple[MigInstance, ...]
    create: tuple[Slot, ...]


def changes(node: NodeDevices, wanted: Sequence[WantedGpu]) -> tuple[Change, ...]:
    """What is different from the wanted geometry; instances that fit it are left alone."""
    found = []
    by_index = {gpu.index: gpu for gpu in node.gpus}
    for target in wanted:
        gpu = by_index.get(target.index)
        if gpu is None:
            continue
        missing = list(target.final)
        surplus = []
        for instance in gpu.instances:
            slot = (instance.profile, instance.start)
            if instance.start is not None and slot in missing:
                missing.remove((instance.profile, instance.start))
            else:
                surplus.append(instance)
        if surplus or missing:
            found.append(Change(gpu=gpu, destroy=tuple(surplus), create=tuple(missing)))
    return tuple(found)


def illegal(gpu: PhysicalGpu, wanted: Sequence[WantedGpu]) -> str | None:
    """Why no GPU of this model can be cut as wanted; None where it can, or where nobody knows.

    The tables are the solver's own.
    """
    table = mig_table_or_none(canonical_model(gpu.product))
    target = next((one for one in wanted if one.index == gpu.index), None)
    if table is None or target is None:
        return None
    layout = sorted(Instance(start=start, profile=profile) for profile, start in target.final)
    try:
        found = clash(table, layout)
    except TopologyError as error:
        return str(error)
    return None if found is None else str(found)
