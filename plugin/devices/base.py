"""What the plugin knows of the GPUs of its node, and what it may ask of a source of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from plugin.errors import PluginError
from topology.graph import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A MIG device: a GPU instance with a compute instance in it.

    Parameters
    ----------
    uuid
        The driver's name for it; a new one each time the instance is made.
    profile
        ``1g.10gb``, as the driver writes it.
    gi, ci
        Numbers of its GPU instance and compute instance.
    start
        First memory slot; None where it is not known.
    memory_mib
        Its memory.
    multiprocessors
        Its SMs; 0 where unknown.
    capability_nodes
        Device nodes that give access to it (``/dev/nvidia-caps/nvidia-cap12``).
    """

    uuid: str
    profile: str
    gi: int
    ci: int = 0
    start: int | None = None
    memory_mib: int = 0
    multiprocessors: int = 0
    capability_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalGpu:
    """One GPU of the node.

    Parameters
    ----------
    index
        Position at the driver, and in the node's topology.
    product
        Name that the driver gives, e.g. ``NVIDIA H100 80GB HBM3``.
    numa_node
        Where it is attached, None where the system does not say.
    instances
        Its MIG instances, by GPU instance number; empty where MIG is off.
    compute_capability
        (major, minor), None where unknown.
    fault
        Why the driver cannot use it, None where it can: such a GPU stays in the list, so that its
        devices are told to be unhealthy and do not just vanish.
    hidden
        Why its instances cannot be listed, though MIG is on; None where they can. `instances` are
        then those that were known before.
    unmonitored
        Why the driver does not report its critical errors (XIDs); None where it does. Such a GPU is
        healthy until a probe fails.
    """

    index: int
    uuid: str
    minor: int
    pci_bus_id: str
    product: str
    memory_mib: int
    numa_node: int | None = None
    mig_capable: bool = False
    mig_enabled: bool = False
    instances: tuple[MigInstance, ...] = ()
    compute_capability: tuple[int, int] | None = None
    fault: str | None = None
    hidden: str | None = None
    unmonitored: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """All GPUs of the node, in the order of its topology.

    Parameters
    ----------
    control_nodes
        Device nodes of the driver as a whole, those that exist on the host.
    clique
        ``<cluster UUID>.<clique id>`` of its NVLink domain, None outside of one.
    """

    gpus: tuple[PhysicalGpu, ...]
    topology: NodeTopology
    driver_version: str = ""
    cuda_version: str = ""
    control_nodes: tuple[str, ...] = ()
    clique: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """A critical error that the driver reports.

    Parameters
    ----------
    gpu
        UUID of the GPU; None where the driver cannot say which, so all of them are meant.
    gi, ci
        The instance; None for the whole GPU.
    """

    xid: int
    gpu: str | None = None
    gi: int | None = None
    ci: int | None = None


class DeviceSource(Protocol):
    """Where GPUs come from: the driver, or a preset.

    Calls may block; the plugin makes them from threads, one at a time per method.
    """

    def scan(self) -> NodeDevices:
        """List all GPUs and their instances as they are now.

        Raises
        ------
        DriverError
            The driver's library is absent, does not fit the driver, or finds no device.
        """
        ...

    def events(self, timeout_s: float) -> Iterator[XidEvent]:
        """Give the errors reported since the last call, waiting up to `timeout_s` for one.

        Raises
        ------
        DriverError
            The driver cannot be asked, which says nothing about any GPU.
        """
        ...

    def probe(self, gpu: str) -> str | None:
        """Say what is wrong with a GPU at this moment; None where it answers and needs nothing.

        Raises
        ------
        DriverError
            The driver cannot be asked, so neither is known.
        """
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...


class GeometryError(PluginError):
    """The driver refuses to make or destroy an instance."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU; its name may be unknown, as of one outside of our namespace."""

    pid: int
    name: str = ""

    def __str__(self) -> str:
        return f"PID {self.pid} ({self.name})" if self.name else f"PID {self.pid}"


class GeometryDriver(Protocol):
    """What it takes to cut a GPU anew; a `DeviceSource` that can do so has these as well."""

    def processes(self, gpu: str, gi: int) -> tuple[GpuProcess, ...]:
        """Processes that compute in an instance.

        Raises
        ------
        GeometryError
            The driver does not tell.
        """
        ...

    def destroy(self, gpu: str, gi: int) -> None:
        """Destroy an instance: its compute instances first.

        Raises
        ------
        GeometryError
            It is in use, or there is no such instance.
        """
        ...

    def create(self, gpu: str, profile: str, start: int) -> int:
        """Make an instance with its compute instance at a memory slot; give its number.

        Raises
        ------
        GeometryError
            The slot is taken, or the profile unknown.
        """
        ...
