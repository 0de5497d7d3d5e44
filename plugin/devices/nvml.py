"""GPUs of this node as the driver's library (NVML) lists them. Needs the extra ``nvml``.

An error of one GPU never ends a listing: the GPU stays in it with a fault.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from plugin.devices import nvml_mig
from plugin.devices.base import (
    GeometryError,
    GpuProcess,
    MigInstance,
    NodeDevices,
    PhysicalGpu,
    XidEvent,
)
from plugin.devices.nvml_events import XidMonitor, is_of_a_gpu
from plugin.devices.nvml_links import clique_of, links_of
from plugin.errors import DriverError
from topology.graph import NodeTopology
from topology.hardware import canonical_model

SYSFS = Path("/sys/bus/pci/devices")
CONTROL_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
LOST_ACCESS = (
    "a container loses its devices on systemctl daemon-reload where they are not in its spec; "
    "restart this pod if it lasts"
)


class NvmlSource:
    """The driver of this node.

    Parameters
    ----------
    library
        The binding; a stand-in in tests. None imports ``pynvml``.
    sysfs
        Where the system tells the NUMA node of a PCI device.
    """

    def __init__(self, library: Any = None, sysfs: Path = SYSFS) -> None:  # noqa: ANN401
        self._library, self._sysfs = library, sysfs
        self._lock = threading.Lock()
        self._ready = False
        self._handles: dict[str, Any] = {}
        self._last: dict[int, PhysicalGpu] = {}
        self._links: tuple[tuple[str, ...], NodeTopology] | None = None
        self._monitor: XidMonitor | None = None
        self._odd: dict[int, str] = {}

    # --- listing -------------------------------------------------------------------------------

    def scan(self) -> NodeDevices:
        """List all GPUs and instances.

        Raises
        ------
        DriverError
            The library is absent, does not fit the driver, or there is no GPU.
        """
        with self._lock:
            nvml = self._start()
            try:
                count = nvml.nvmlDeviceGetCount()
            except nvml.NVMLError as error:
                self._ready = False
                raise DriverError(f"NVML cannot count GPUs: {error}") from error
            if count == 0:
                raise DriverError("NVML works, but this node has no GPU")
            self._odd = {}
            gpus = tuple(self._gpu(index) for index in range(count))
            if self._odd and all(gpu.fault for gpu in gpus):
                self._ready = False
                raise DriverError(
                    f"NVML answers for none of {count} GPUs: {next(iter(self._odd.values()))}. "
                    f"They may be well: {LOST_ACCESS}"
                )
            gpus = self._watched(gpus)
            return NodeDevices(
                gpus=gpus,
                topology=self._topology(gpus),
                driver_version=_said(nvml, nvml.nvmlSystemGetDriverVersion, ""),
                cuda_version=_cuda(_said(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2, 0)),
                control_nodes=tuple(path for path in CONTROL_NODES if Path(path).exists()),
                clique=clique_of(nvml, [self._handles.get(gpu.uuid) for gpu in gpus]),
            )

    def _start(self) -> Any:  # noqa: ANN401 - the binding has no types
        if self._library is None:
            try:
                import pynvml
            except ImportError as error:
                raise DriverError(
                    "the binding of NVML is not installed: pip install 'unstrand[nvml]'"
                ) from error
            self._library = pynvml
        nvml = self._library
        if not self._ready:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()  # an updated driver is seen only after a fresh start
            try:
                nvml.nvmlInit()
            except nvml.NVMLError as error:
                raise DriverError(f"NVML cannot be used: {error}") from error
            self._ready, self._monitor, self._links = True, XidMonitor(nvml), None
        return nvml

    def _gpu(self, index: int) -> PhysicalGpu:
        nvml = self._library
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = self._facts(index, handle)
        except nvml.NVMLError as error:
            if not is_of_a_gpu(nvml, error):
                self._odd[index] = str(error)
            known = self._last.get(index)
            if known is None:
                return PhysicalGpu(
                    index=index,
                    uuid=f"GPU-unknown-{index}",
                    minor=index,
                    pci_bus_id="",
                    product="",
                    memory_mib=0,
                    fault=str(error),
                )
            return replace(known, fault=str(error))
        self._handles[gpu.uuid] = handle
        self._last[index] = gpu
        return gpu

    def _facts(self, index: int, handle: Any) -> PhysicalGpu:  # noqa: ANN401
        nvml = self._library
        bus = str(nvml.nvmlDeviceGetPciInfo(handle).busId)
        minor = nvml.nvmlDeviceGetMinorNumber(handle)
        capable, enabled = nvml_mig.mode(nvml, handle)
        instances, hidden = self._instances(index, handle, minor) if enabled else ((), None)
        return PhysicalGpu(
            index=index,
            uuid=str(nvml.nvmlDeviceGetUUID(handle)),
            minor=minor,
            pci_bus_id=bus,
            product=str(nvml.nvmlDeviceGetName(handle)),
            memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // 2**20,
            numa_node=self._numa(bus),
            mig_capable=capable,
            mig_enabled=enabled,
            instances=instances,
            hidden=hidden,
            compute_capability=tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        )

    def _instances(
        self,
        index: int,
        handle: Any,  # noqa: ANN401
        minor: int,
    ) -> tuple[tuple[MigInstance, ...], str | None]:
        """Instances of a GPU; where we may not look, those of the last look and the way out."""
        nvml = self._library
        try:
            return nvml_mig.instances(nvml, handle, minor), None
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NO_PERMISSION:
                raise
            known = self._last.get(index)
            return (known.instances if known else ()), f"{error}: {nvml_mig.MONITOR_WAY_OUT}"

    def _watched(self, gpus: tuple[PhysicalGpu, ...]) -> tuple[PhysicalGpu, ...]:
        """The same GPUs, with who of them reports no errors."""
        monitor = self._monitor
        if monitor is None:
            return gpus
        with contextlib.suppress(DriverError):  # said where events are waited for
            monitor.subscribe(self._handles)
        return tuple(replace(gpu, unmonitored=monitor.unmonitored.get(gpu.uuid)) for gpu in gpus)

    def _numa(self, bus: str) -> int | None:
        """NUMA node by sysfs, which writes a PCI domain with four digits and NVML with eight."""
        domain, _, rest = bus.lower().partition(":")
        try:
            node = int((self._sysfs / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _topology(self, gpus: tuple[PhysicalGpu, ...]) -> NodeTopology:
        """Links, asked for once: they do not change while the driver runs."""
        uuids = tuple(gpu.uuid for gpu in gpus)
        if self._links is None or self._links[0] != uuids:
            handles = [self._handles.get(uuid) for uuid in uuids]
            numa = {g.index: str(g.numa_node) for g in gpus if g.numa_node is not None}
            topology = NodeTopology(
                "this node",
                [canonical_model(gpu.product) if gpu.product else None for gpu in gpus],
                [gpu.memory_mib for gpu in gpus],
                links_of(self._library, handles),
                numa_affinity=dict(numa),
            )
            self._links = (uuids, topology)
        return self._links[1]

    # --- health --------------------------------------------------------------------------------

    def events(self, timeout_s: float) -> Iterator[XidEvent]:
        """Wait for a critical error; GPUs that report none are healthy and unmonitored.

        Raises
        ------
        DriverError
            The driver cannot be asked; that is no error of any GPU.
        """
        with self._lock:
            monitor = self._monitor if self._ready else None
            if monitor is not None and not monitor.subscribed:
                monitor.subscribe(self._handles)
        if monitor is None:
            threading.Event().wait(timeout_s)
            return
        event = monitor.wait(timeout_s, dict(self._handles))
        if event is not None:
            yield event

    def probe(self, gpu: str) -> str | None:
        """Ask a GPU for something small; what it says instead of an answer is the trouble."""
        nvml = self._library
        if not self._ready or nvml is None:
            raise DriverError("NVML is not started")
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu)
            nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            if is_of_a_gpu(nvml, error):
                return str(error)
            raise DriverError(f"NVML: {error}") from error
        return None

    def close(self) -> None:
        """Let go of the driver."""
        if self._ready:
            with contextlib.suppress(self._library.NVMLError):
                self._library.nvmlShutdown()
            self._ready = False

    # --- geometry ------------------------------------------------------------------------------

    def processes(self, gpu: str, gi: int) -> tuple[GpuProcess, ...]:
        """Processes that compute in an instance; GeometryError where the driver does not tell."""
        with self._lock:
            try:
                return nvml_mig.processes(self._library, self._handles[gpu], gi)
            except self._library.NVMLError as error:
                raise GeometryError(str(error)) from error

    def destroy(self, gpu: str, gi: int) -> None:
        """Destroy an instance; GeometryError where the driver refuses."""
        with self._lock:
            try:
                nvml_mig.destroy(self._library, self._handles[gpu], gi)
            except self._library.NVMLError as error:
                raise GeometryError(
                    f"instance {gi} not destroyed: {nvml_mig.why(self._library, error)}"
                ) from error

    def create(self, gpu: str, profile: str, start: int) -> int:
        """Make an instance; GeometryError where the driver refuses."""
        with self._lock:
            try:
                return nvml_mig.create(self._library, self._handles[gpu], profile, start)
            except self._library.NVMLError as error:
                reason = nvml_mig.why(self._library, error)
                raise GeometryError(f"{profile} at {start} not created: {reason}") from error


def _said(nvml: Any, ask: Any, default: Any) -> Any:  # noqa: ANN401
    try:
        return ask()
    except nvml.NVMLError:
        return default


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
