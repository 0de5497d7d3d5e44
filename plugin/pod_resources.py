"""Who holds which device and what can be given out, told by the PodResources service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from plugin.kubelet import CHANNEL_OPTIONS
from plugin.proto.podresources.v1 import api_pb2, api_pb2_grpc

TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 16 * 2**20
"""What the kubelet itself may send of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One device in the hands of one pod (``namespace/name``), under one resource."""

    pod: str
    resource: str
    device: str


async def holdings(socket: Path) -> tuple[Holding, ...] | None:
    """Everything that containers hold; None where the kubelet does not tell."""
    answer = await _ask(socket, "List", api_pb2.ListPodResourcesRequest())
    if answer is None:
        return None
    return tuple(
        Holding(pod=f"{pod.namespace}/{pod.name}", resource=devices.resource_name, device=one)
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        for one in devices.device_ids
    )


async def allocatable(socket: Path) -> Mapping[str, frozenset[str]] | None:
    """IDs that the kubelet can give out, by resource; None where it does not tell."""
    answer = await _ask(socket, "GetAllocatableResources", api_pb2.AllocatableResourcesRequest())
    if answer is None:
        return None
    ids: dict[str, set[str]] = {}
    for devices in answer.devices:
        ids.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return {resource: frozenset(known) for resource, known in ids.items()}


async def _ask(socket: Path, call: str, request: Any) -> Any:  # noqa: ANN401 - made code has no types
    if not socket.exists():
        return None
    options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", MAX_ANSWER_BYTES))
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            stub: Any = api_pb2_grpc.PodResourcesListerStub(channel)
            return await getattr(stub, call)(request, timeout=TIMEOUT_S)
    except (grpc.RpcError, OSError):
        return None


def by_resource(held: Iterable[Holding]) -> Mapping[str, frozenset[str]]:
    """IDs that containers hold, by resource."""
    ids: dict[str, set[str]] = {}
    for one in held:
        ids.setdefault(one.resource, set()).add(one.device)
    return {resource: frozenset(devices) for resource, devices in ids.items()}
