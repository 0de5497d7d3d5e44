"""GPUs that are given out twice, as far as the kubelet's PodResources service can tell. Pure.

It can happen without anyone's fault: a kubelet that loses its checkpoint forgets what running
containers hold, and so does one that sees a resource under a new name for the first time. Nobody
can take a device back from a container, so it is reported and left to people.
"""

from __future__ import annotations

from collections.abc import Iterable

from plugin.devices.base import NodeDevices, PhysicalGpu
from plugin.names import REPLICA_MARK, device_of
from plugin.pod_resources import Holding


def double_uses(holdings: Iterable[Holding], node: NodeDevices) -> tuple[str, ...]:
    """One line for each GPU of the node that is in use twice, with who holds it.

    In use twice is a GPU with one ID in two pods, with a device under two resources or both whole
    and in shares, or held whole beside one of its instances. Several shares of a device under one
    resource are what sharing is for, and so are several instances of a GPU.
    """
    gpu_of = {gpu.uuid: gpu for gpu in node.gpus}
    gpu_of |= {instance.uuid: gpu for gpu in node.gpus for instance in gpu.instances}
    by_gpu: dict[str, list[Holding]] = {}
    for one in holdings:
        gpu = gpu_of.get(device_of(one.device))
        if gpu is not None:
            by_gpu.setdefault(gpu.uuid, []).append(one)
    return tuple(
        f"GPU {gpu.index} ({gpu.uuid}) is in use twice: "
        + ", ".join(sorted({f"{one.pod} holds {one.device} as {one.resource}" for one in held}))
        for gpu in node.gpus
        if _is_double(gpu, held := by_gpu.get(gpu.uuid, []))
    )


def _is_double(gpu: PhysicalGpu, held: Iterable[Holding]) -> bool:
    pods: dict[str, set[str]] = {}
    ways: dict[str, set[tuple[str, bool]]] = {}
    for one in held:
        pods.setdefault(one.device, set()).add(one.pod)
        way = one.resource, REPLICA_MARK in one.device
        ways.setdefault(device_of(one.device), set()).add(way)
    beside_an_instance = gpu.uuid in ways and len(ways) > 1
    return (
        beside_an_instance
        or any(len(who) > 1 for who in pods.values())
        or any(len(how) > 1 for how in ways.values())
    )
