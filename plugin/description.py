"""What a node would advertise, as plain values."""

from __future__ import annotations

from typing import Any

from plugin.devices.base import NodeDevices
from plugin.exposure import Exposure
from plugin.resources import Device, Offer, Resource

SCHEMA = "unstrand/plugin-devices/v1"


def describe(node: NodeDevices, offered: Offer, exposure: Exposure | None = None) -> dict[str, Any]:
    """Resources of a node with their devices (schema ``unstrand/plugin-devices/v1``).

    ``runtime`` is whom the node's container runtime believes, None where nobody looked.
    """
    return {
        "schema": SCHEMA,
        "gpus": len(node.gpus),
        "driver_version": node.driver_version,
        "resources": [_resource(resource) for resource in offered.resources],
        "runtime": None if exposure is None else exposure.describe(),
        "notes": list(offered.notes),
    }


def _resource(resource: Resource) -> dict[str, Any]:
    sharing = resource.sharing
    return {
        "name": resource.name,
        "allocatable": len(resource.owner),
        "sharing": "none" if sharing is None else "mps" if sharing.mps else "time-slicing",
        "replicas": sharing.replicas if sharing else 1,
        "devices": [_device(device) for device in resource.devices],
    }


def _device(device: Device) -> dict[str, Any]:
    instance = device.instance
    return {
        "id": device.uuid,
        "gpu": device.gpu.index,
        "product": device.gpu.product,
        "memory_mib": device.memory_mib,
        "numa_node": device.gpu.numa_node,
        "profile": instance.profile if instance else None,
        "start": instance.start if instance else None,
        "fault": device.gpu.fault,
        "unmonitored": device.gpu.unmonitored,
    }
