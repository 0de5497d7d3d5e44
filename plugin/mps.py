"""MPS: what its control daemon is told, and whether it is there.

The daemon is a process of its own (NVIDIA's ``nvidia-cuda-mps-control``, one per resource, with its
pipe folder under the MPS root). The plugin neither starts it nor speaks to it: it gives out shares
only while the daemon's control pipe is there.
"""

from __future__ import annotations

from pathlib import Path

from plugin.config import PluginConfig
from plugin.resources import Resource


def daemon_trouble(resource: Resource, config: PluginConfig) -> str | None:
    """Why clients of a resource would not find their daemon; None where all is well or no MPS."""
    if resource.sharing is None or not resource.sharing.mps or config.mps_root is None:
        return None
    pipe = Path(config.mps_root) / resource.name.rpartition("/")[2] / "pipe" / "control"
    return None if pipe.exists() else f"the MPS daemon is not there: no {pipe}"


def control_commands(resource: Resource) -> tuple[str, ...]:
    """Commands for the daemon of a resource that give every client its part of each GPU.

    The limits are per client process: two processes in one container have twice as much.

    Examples
    --------
    A GPU of 80,000 MiB in four shares gives ``set_default_device_pinned_mem_limit 0 20000M`` and
    ``set_default_active_thread_percentage 25``.
    """
    if resource.sharing is None or not resource.sharing.mps:
        return ()
    replicas = resource.sharing.replicas
    limits = tuple(
        f"set_default_device_pinned_mem_limit {device.gpu.index} {device.memory_mib // replicas}M"
        for device in resource.devices
    )
    return (*limits, f"set_default_active_thread_percentage {100 // replicas}")
