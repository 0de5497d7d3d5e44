"""GPUs that are not there: any preset or capture as a node, with faults on demand.

What tests and newcomers use. A state file, read again whenever it changes, says what goes wrong.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plugin.devices.base import (
    GeometryError,
    GpuProcess,
    MigInstance,
    NodeDevices,
    PhysicalGpu,
    XidEvent,
)
from plugin.devices.fake_state import StateError, read_state
from plugin.devices.nvml_events import NO_XIDS
from plugin.devices.nvml_mig import MONITOR_WAY_OUT
from plugin.errors import DriverError
from topology.graph import NodeTopology
from topology.hardware import gpu_model
from topology.mig.layouts import Instance, fits
from topology.mig.tables import mig_table_or_none

log = logging.getLogger("unstrand.plugin")

NAMESPACE = uuid.UUID("6d1f7e0a-3b0e-4f3c-9a55-0e6f4b7c2d10")
POLL_S = 0.05

CAPABILITIES: Mapping[str, tuple[int, int]] = {
    "V100": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A30": (8, 0),
    "L4": (8, 9),
    "L40S": (8, 9),
    "H100": (9, 0),
    "H200": (9, 0),
    "GH200": (9, 0),
    "B200": (10, 0),
    "GB200": (10, 0),
    "B300": (10, 3),
    "GB300": (10, 3),
}
"""CUDA compute capability by the first word of a model (NVIDIA's list of CUDA GPUs)."""


def _capability(model: str) -> tuple[int, int] | None:
    return CAPABILITIES.get(model.split("-", 1)[0])


class FakeSource:
    """A node made of a topology.

    Parameters
    ----------
    topology
        GPUs and links.
    state
        File with faults, or None.
    """

    def __init__(self, topology: NodeTopology, state: Path | None = None) -> None:
        self._topology, self._path = topology, state
        self._state: Mapping[str, Any] = {}
        self._read_at: tuple[int, int] | None = None
        self._told = 0
        self._made = 0
        self._mig: dict[int, dict[int, MigInstance]] = {}
        self._mig_said: object = None

    def scan(self) -> NodeDevices:
        """List the GPUs of the topology.

        Raises
        ------
        DriverError
            The state file says that the driver is absent.
        """
        state = self._look()
        time.sleep(float(state.get("slow_s", 0)))
        if "driver" in state:
            raise DriverError(f"the driver cannot be used: {state['driver']}")
        gpus = tuple(self._gpu(index, state) for index in range(self._topology.n_gpus))
        return NodeDevices(
            gpus=gpus,
            topology=self._topology,
            driver_version="570.00.00",
            cuda_version="12.8",
            control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),
        )

    def _gpu(self, index: int, state: Mapping[str, Any]) -> PhysicalGpu:
        model = self._topology.gpu_models[index]
        known = gpu_model(model) if model else None
        numa = self._topology.numa_affinity.get(index)
        instances = tuple(self._mig.get(index, {}).values())
        return PhysicalGpu(
            index=index,
            uuid=self.uuid(index),
            minor=index,
            pci_bus_id=f"00000000:{index + 1:02X}:00.0",
            product=f"NVIDIA {(model or 'GPU').replace('-', ' ')}",
            memory_mib=self._topology.gpu_memory_mib[index] or 0,
            numa_node=int(numa) if numa is not None and numa.isdecimal() else None,
            mig_capable=bool(known and known.supports_mig),
            mig_enabled=index in self._mig,
            instances=instances,
            compute_capability=_capability(model or ""),
            fault="GPU is lost" if index in state.get("lost", ()) else None,
            hidden=MONITOR_WAY_OUT if index in state.get("hidden", ()) else None,
            unmonitored=NO_XIDS if index in state.get("unmonitored", ()) else None,
        )

    def uuid(self, index: int) -> str:
        """UUID of a GPU: the same each time."""
        return f"GPU-{uuid.uuid5(NAMESPACE, f'{self._topology.name}/{index}')}"

    def events(self, timeout_s: float) -> Iterator[XidEvent]:
        """Give the entries of `xids` that are new."""
        until = time.monotonic() + timeout_s
        while True:
            self._check_monitor()
            xids = list(self._look().get("xids", ()))
            fresh, self._told = xids[self._told :], len(xids)
            for entry in fresh:
                gpu = entry.get("gpu")
                yield XidEvent(
                    xid=int(entry["xid"]),
                    gpu=self.uuid(gpu) if gpu is not None else None,
                    gi=entry.get("gi"),
                    ci=entry.get("ci"),
                )
            if fresh or time.monotonic() >= until:
                return
            time.sleep(POLL_S)

    def probe(self, gpu: str) -> str | None:
        """Say whether the GPU is lost."""
        self._check_monitor()
        lost = {self.uuid(index) for index in self._look().get("lost", ())}
        return "GPU is lost" if gpu in lost else None

    def _check_monitor(self) -> None:
        trouble = self._look().get("monitor")
        if trouble is not None:
            raise DriverError(f"the driver cannot be asked: {trouble}")

    def close(self) -> None:
        """Nothing to let go of."""

    # --- geometry ------------------------------------------------------------------------------

    def processes(self, gpu: str, gi: int) -> tuple[GpuProcess, ...]:
        """Processes that the state file says run in an instance."""
        index = self._index(gpu)
        return tuple(
            GpuProcess(one["pid"], one.get("name", ""))
            for one in self._look().get("processes", ())
            if (one["gpu"], one["gi"]) == (index, gi)
        )

    def destroy(self, gpu: str, gi: int) -> None:
        """Destroy an instance."""
        index = self._index(gpu)
        if gi not in self._mig.get(index, {}):
            raise GeometryError(f"GPU {index} has no instance {gi}")
        del self._mig[index][gi]

    def create(self, gpu: str, profile: str, start: int) -> int:
        """Make an instance at a slot; give its number."""
        index = self._index(gpu)
        taken = self._mig.setdefault(index, {})
        if profile in self._state.get("refuse", ()):
            raise GeometryError(f"GPU {index}: {profile} at {start}: insufficient resources")
        table = mig_table_or_none(self._topology.gpu_models[index])
        there = [Instance(one.start or 0, one.profile) for one in taken.values()]
        if table is not None and not fits(table, sorted([*there, Instance(start, profile)])):
            raise GeometryError(f"GPU {index}: {profile} at {start}: insufficient resources")
        self._made += 1
        instance = self._instance(index, profile, start, gi=max(taken, default=0) + 1)
        self._mig[index] = {**taken, instance.gi: instance}
        return instance.gi

    def _index(self, gpu: str) -> int:
        return next(i for i in range(self._topology.n_gpus) if self.uuid(i) == gpu)

    def _instance(self, index: int, profile: str, start: int, gi: int) -> MigInstance:
        gb = re.search(r"(\d+)gb", profile)
        name = f"{self.uuid(index)}/{profile}/{start}/{self._made}"
        return MigInstance(
            uuid=f"MIG-{uuid.uuid5(NAMESPACE, name)}",
            profile=profile,
            gi=gi,
            start=start,
            memory_mib=int(gb[1]) * 1024 if gb else 0,
            capability_nodes=(f"/dev/nvidia-caps/nvidia-cap{index * 135 + gi * 9}",),
        )

    def _look(self) -> Mapping[str, Any]:
        if self._path is None:
            return self._state
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._read_at:
                self._read_at = stamp
                self._state = read_state(self._path)
        except OSError:
            return self._state  # not there yet: the last good one holds
        except StateError as error:
            log.warning("%s; the last good one holds", error)
            return self._state
        said = self._state.get("mig")
        if said != self._mig_said:
            self._mig_said = said
            self._made += 1
            self._mig = {
                int(index): {
                    gi: self._instance(int(index), one["profile"], one["start"], gi)
                    for gi, one in enumerate(instances, start=1)
                }
                for index, instances in (said or {}).items()
            }
        return self._state
