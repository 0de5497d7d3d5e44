"""A wanted MIG geometry, reached one safe step at a time.

The file is the answer of ``mig plan`` (JSON): for each GPU what to destroy and what to create, with
start slots. The order: instances that must go are told as unhealthy; once no container holds them
and no process runs in them they are destroyed; then the new ones are created. If a creation fails,
the former layout is put back. What is intended is on disk before anything is done.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugin.devices.base import (
    GeometryDriver,
    GeometryError,
    MigInstance,
    NodeDevices,
    PhysicalGpu,
)
from plugin.errors import ConfigError, PluginError
from topology.errors import TopologyError
from topology.hardware import canonical_model
from topology.mig.layouts import Instance, clash
from topology.mig.tables import mig_table_or_none

log = logging.getLogger("unstrand.plugin")

MAX_BYTES = 4 * 2**20

Slot = tuple[str, int]
"""Profile and start."""


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
    wanted = []
    for at, entry in enumerate(data["gpus"]):
        try:
            if node is not None and entry.get("node", node) != node:
                continue
            final = tuple((str(one["profile"]), int(one["start"])) for one in entry["final"])
            wanted.append(WantedGpu(index=int(entry["gpu"]), final=final))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                ("gpus", at), f"wants gpu and final[{{profile, start}}]: {error}"
            ) from error
    return tuple(wanted)


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


class GeometryTask:
    """Brings a node to the geometry of a file, and follows the file.

    Parameters
    ----------
    file
        Answer of ``mig plan``.
    state
        Where the intent is kept over a crash.
    """

    def __init__(
        self, driver: GeometryDriver, file: Path, state: Path, node: str | None = None
    ) -> None:
        self._driver, self._file, self._state, self._node = driver, file, state, node
        self._wanted: tuple[WantedGpu, ...] = ()
        self._stamp: tuple[int, int] | None = None
        self._failed: set[int] = set()
        self.busy = False
        self.changed_devices = False
        self.waiting: dict[int, str] = {}

    def advance(self, node: NodeDevices, in_use: frozenset[str] | None) -> frozenset[str]:
        """Do what can be done now.

        Parameters
        ----------
        in_use
            IDs that containers hold; None where the kubelet does not tell, and then nothing is
            destroyed.

        Returns
        -------
        frozenset of str
            UUIDs of instances that are on their way out: not to be given out any more.
        """
        self._read()
        self.changed_devices = False
        self.waiting = {}
        retiring: set[str] = set()
        for change in changes(node, self._wanted):
            if change.gpu.index in self._failed:
                continue
            if (clash := illegal(change.gpu, self._wanted)) is not None:
                # Said before anything is destroyed for a layout that no driver will make.
                log.error("GPU %d: %s; it stays as it is", change.gpu.index, clash)
                self._failed.add(change.gpu.index)
                continue
            if not change.gpu.mig_enabled:
                self.waiting[change.gpu.index] = "MIG is off; its mode is not changed from here"
                continue
            held = self._held(change, in_use)
            victims = {instance.uuid for instance in change.destroy}
            # First the word that they are going, and only at the next look their end: until the
            # kubelet has heard it, it may still give them out.
            told = victims <= self._told
            retiring |= victims
            if held or not told:
                self.waiting[change.gpu.index] = held or "instances are being retired"
                continue
            self._apply(change)
        self._told = frozenset(retiring)
        self.busy = bool(self.waiting)
        return frozenset(retiring) if not self.changed_devices else frozenset()

    _told: frozenset[str] = frozenset()

    def _held(self, change: Change, in_use: frozenset[str] | None) -> str:
        if not change.destroy:
            return ""
        if in_use is None:
            return "the kubelet does not tell who holds instances"
        for instance in change.destroy:
            if any(one.split("::", 1)[0] == instance.uuid for one in in_use):
                return f"a container holds {instance.uuid}"
            if self._driver.processes(change.gpu.uuid, instance.gi):
                return f"a process runs in {instance.uuid}"
        return ""

    def _apply(self, change: Change) -> None:
        """Destroy and create; on failure put the former instances back."""
        gpu = change.gpu
        self._save(change)
        destroyed: list[MigInstance] = []
        made: list[int] = []
        self.changed_devices = True
        try:
            for instance in change.destroy:
                self._driver.destroy(gpu.uuid, instance.gi)
                destroyed.append(instance)
            for profile, start in change.create:
                made.append(self._driver.create(gpu.uuid, profile, start))
        except GeometryError as error:
            self._failed.add(gpu.index)
            log.error("GPU %d: %s; the former layout is put back", gpu.index, error)
            self._put_back(gpu, destroyed, made)
        else:
            log.info("GPU %d: %d destroyed, %d created", gpu.index, len(destroyed), len(made))
        self._state.unlink(missing_ok=True)

    def _put_back(
        self, gpu: PhysicalGpu, destroyed: Sequence[MigInstance], made: Sequence[int]
    ) -> None:
        try:
            for gi in made:
                self._driver.destroy(gpu.uuid, gi)
            for instance in destroyed:
                self._driver.create(gpu.uuid, instance.profile, instance.start or 0)
        except GeometryError as error:
            log.error("GPU %d: not put back: %s", gpu.index, error)

    def _save(self, change: Change) -> None:
        intent: dict[str, Any] = {
            "gpu": change.gpu.uuid,
            "destroy": [[one.profile, one.start] for one in change.destroy],
            "create": list(change.create),
        }
        draft = self._state.with_name(f".{self._state.name}.{os.getpid()}.tmp")
        draft.write_text(json.dumps(intent), encoding="utf-8")
        draft.replace(self._state)

    def _read(self) -> None:
        """Read the file if it changed; one that is wrong is said once and changes nothing."""
        try:
            found = self._file.stat()
        except OSError:
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            if found.st_size > MAX_BYTES:
                raise PluginError(f"{self._file}: larger than {MAX_BYTES} bytes")
            data = json.loads(self._file.read_text(encoding="utf-8"))
            self._wanted = read_wanted(data, self._node)
            self._failed = set()
        except (OSError, ValueError, PluginError) as error:
            log.error("%s: %s; the geometry stays as it is", self._file, error)
