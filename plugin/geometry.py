"""A wanted MIG geometry, reached one safe step at a time.

The file is the answer of ``mig plan`` (JSON): for each GPU what to destroy and what to create, with
start slots. The order: instances that must go are told as unhealthy; once no container holds them
and no process runs in them they are destroyed; then the new ones are created. If a creation fails,
the former layout is put back. What is intended is on disk before anything is done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from plugin.devices.base import GeometryDriver, GeometryError, NodeDevices, PhysicalGpu
from plugin.errors import PluginError
from plugin.intent import Intent, IntentFile, Slot
from plugin.names import device_of
from plugin.wanted import Change, WantedGpu, changes, illegal, read_wanted

log = logging.getLogger("unstrand.plugin")

MAX_BYTES = 4 * 2**20
RETIRING = "instances are being retired"


class GeometryTask:
    """Brings a node to the geometry of a file, and follows the file.

    Parameters
    ----------
    file
        Answer of ``mig plan``.
    state
        Where the intent is kept over a crash.
    node
        Name of this node in the file.

    Attributes
    ----------
    waiting
        Why GPUs are not cut yet, by index.
    refused
        Why GPUs are left as they are until the file changes, by index.
    """

    def __init__(
        self, driver: GeometryDriver, file: Path, state: Path, node: str | None = None
    ) -> None:
        self._driver, self._file, self._node = driver, file, node
        self._intent = IntentFile(state)
        self._wanted: tuple[WantedGpu, ...] = ()
        self._stamp: tuple[int, int] | None = None
        self._trouble = ""
        self._absent: tuple[int, ...] = ()
        self._told: frozenset[str] = frozenset()
        self._former: dict[str, tuple[Slot, ...]] | None = None
        self.busy = False
        self.changed_devices = False
        self.waiting: dict[int, str] = {}
        self.refused: dict[int, str] = {}

    @property
    def remarks(self) -> Iterator[str]:
        """What keeps the node from its geometry."""
        if self._trouble:
            yield f"geometry: {self._trouble}"
        for index in self._absent:
            yield f"geometry: this node has no GPU {index}"
        for index, why in sorted(self.refused.items()):
            yield f"geometry: GPU {index} stays as it is: {why}"
        for index, why in sorted(self.waiting.items()):
            if why != RETIRING:
                yield f"geometry: GPU {index} waits: {why}"

    def advance(self, node: NodeDevices, in_use: Mapping[str, str] | None) -> frozenset[str]:
        """Do what can be done now.

        Parameters
        ----------
        in_use
            IDs that containers hold, with the pod of each; None where the kubelet does not tell,
            and then nothing is destroyed.

        Returns
        -------
        frozenset of str
            UUIDs of instances that are on their way out: not to be given out any more.
        """
        self._read()
        self.changed_devices = False
        self.waiting = {}
        self._resume(node)
        known = {gpu.index for gpu in node.gpus}
        self._absent = tuple(one.index for one in self._wanted if one.index not in known)
        retiring: set[str] = set()
        for change in changes(node, self._wanted):
            if change.gpu.index in self.refused:
                continue
            if (clash := illegal(change.gpu, self._wanted)) is not None:
                # Said before anything is destroyed for a layout that no driver will make.
                self.refused[change.gpu.index] = clash
                continue
            if not change.gpu.mig_enabled:
                self.waiting[change.gpu.index] = "MIG is off; its mode is not changed from here"
                continue
            if change.gpu.hidden is not None:
                self.waiting[change.gpu.index] = change.gpu.hidden
                continue
            held = self._held(change, in_use)
            victims = {instance.uuid for instance in change.destroy}
            # First the word that they are going, and only at the next look their end: until the
            # kubelet has heard it, it may still give them out.
            told = victims <= self._told
            retiring |= victims
            if held or not told:
                self.waiting[change.gpu.index] = held or RETIRING
                continue
            self._apply(change)
        self._told = frozenset(retiring)
        self.busy = bool(self.waiting)
        return frozenset(retiring) if not self.changed_devices else frozenset()

    def _held(self, change: Change, in_use: Mapping[str, str] | None) -> str:
        """Who is in the way, by name; empty where nobody is."""
        if not change.destroy:
            return ""
        if in_use is None:
            return "the kubelet does not tell who holds instances"
        holders = []
        for instance in change.destroy:
            what = f"{instance.profile} at {instance.start} ({instance.uuid})"
            pods = sorted({pod for one, pod in in_use.items() if device_of(one) == instance.uuid})
            holders += [f"pod {pod} holds {what}" for pod in pods]
            try:
                running = self._driver.processes(change.gpu.uuid, instance.gi)
            except GeometryError as error:
                holders.append(f"nobody can tell what runs in {what}: {error}")
                continue
            holders += [f"{process} runs in {what}" for process in running]
        return "; ".join(holders)

    def _resume(self, node: NodeDevices) -> None:
        """Take up what was under way when the plugin ended."""
        if self._former is not None:
            return
        self._former = {}
        intent = self._intent.load()
        gpu = next((one for one in node.gpus if intent and one.uuid == intent.gpu), None)
        if intent is None or gpu is None:
            return
        log.warning("GPU %d: a change of its instances had begun when the plugin ended", gpu.index)
        there = {(one.profile, one.start) for one in gpu.instances}
        missing = tuple(slot for slot in intent.destroy if slot not in there)
        if any(change.gpu.uuid == gpu.uuid for change in changes(node, self._wanted)):
            self._former[gpu.uuid] = missing  # the file stays until the change has come to its end
            return
        if missing and all(target.index != gpu.index for target in self._wanted):
            # Nobody wants it changed any more.
            self._put_back(gpu, missing, ())
            self.changed_devices = True
        self._intent.clear()

    def _apply(self, change: Change) -> None:
        """Destroy and create; on failure put the former instances back."""
        gpu = change.gpu
        former = (self._former or {}).get(gpu.uuid, ())
        going = tuple((one.profile, one.start or 0) for one in change.destroy)
        try:
            self._intent.save(Intent(gpu=gpu.uuid, destroy=(*former, *going), create=change.create))
        except OSError as error:
            self.waiting[gpu.index] = f"what is intended cannot be written down: {error}"
            return
        destroyed: list[Slot] = list(former)
        made: list[int] = []
        self.changed_devices = True
        try:
            for instance, slot in zip(change.destroy, going, strict=True):
                self._driver.destroy(gpu.uuid, instance.gi)
                destroyed.append(slot)
            for profile, start in change.create:
                made.append(self._driver.create(gpu.uuid, profile, start))
        except GeometryError as error:
            self.refused[gpu.index] = f"{error}; the former layout was put back"
            self._put_back(gpu, destroyed, made)
        else:
            log.info("GPU %d: %d destroyed, %d created", gpu.index, len(destroyed), len(made))
        self._former = {**(self._former or {}), gpu.uuid: ()}
        self._intent.clear()

    def _put_back(self, gpu: PhysicalGpu, destroyed: Sequence[Slot], made: Sequence[int]) -> None:
        try:
            for gi in made:
                self._driver.destroy(gpu.uuid, gi)
            for profile, start in destroyed:
                self._driver.create(gpu.uuid, profile, start)
        except GeometryError as error:
            self.refused[gpu.index] = f"the former layout could not be put back: {error}"
            log.error("GPU %d: not put back: %s", gpu.index, error)

    def _read(self) -> None:
        """Read the file if it changed; one that is wrong is said and changes nothing."""
        try:
            found = self._file.stat()
        except OSError as error:
            self._trouble = f"{error.strerror}: {self._file}"
            self._stamp = None
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return
        self._stamp, self._trouble = stamp, ""
        try:
            if found.st_size > MAX_BYTES:
                raise PluginError(f"larger than {MAX_BYTES} bytes")
            data = json.loads(self._file.read_text(encoding="utf-8"))
            self._wanted = read_wanted(data, self._node)
            self.refused = {}
        except (OSError, ValueError, RecursionError, PluginError) as error:
            self._trouble = f"{self._file}: {error}; the wanted geometry stays as it was"
            return
        if not self._wanted:
            whose = f" of node {self._node}" if self._node is not None else ""
            self._trouble = f"{self._file}: has no GPU{whose}; nothing is changed"
