"""GPUs and resources for tests of the plugin's pure parts."""

from plugin.config import PluginConfig, Sharing
from plugin.devices.base import MigInstance, NodeDevices, PhysicalGpu
from plugin.resources import Device, Resource
from topology.presets import preset


def gpu(index: int = 0, *profiles: str, **facts: object) -> PhysicalGpu:
    instances = tuple(
        MigInstance(uuid=f"MIG-{index}-{gi}", profile=profile, gi=gi, start=gi - 1)
        for gi, profile in enumerate(profiles, start=1)
    )
    given = {
        "index": index,
        "uuid": f"GPU-{index}",
        "minor": index,
        "pci_bus_id": f"00000000:0{index}:00.0",
        "product": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "mig_capable": True,
        "mig_enabled": bool(profiles),
        "instances": instances,
        "compute_capability": (9, 0),
        **facts,
    }
    return PhysicalGpu(**given)


def node(*gpus: PhysicalGpu, fake: str = "hgx-h100") -> NodeDevices:
    return NodeDevices(gpus=gpus, topology=preset(fake))


def whole(n: int, replicas: int = 0, **sharing: object) -> Resource:
    """`n` GPUs, each in so many shares."""
    shared = Sharing(suffix="gpu", replicas=replicas, **sharing) if replicas else None
    devices = tuple(Device(gpu=gpu(index)) for index in range(n))
    return Resource(name="nvidia.com/gpu", devices=devices, sharing=shared)


DEFAULTS = PluginConfig()
