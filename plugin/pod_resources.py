"""Who holds which device, as the kubelet's PodResources service tells it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from plugin.kubelet import CHANNEL_OPTIONS
from plugin.proto.podresources.v1 import api_pb2, api_pb2_grpc

TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 16 * 2**20
"""What the kubelet itself may send of it."""


async def ids_in_use(socket: Path) -> Mapping[str, frozenset[str]] | None:
    """IDs that containers hold, by resource; None where the kubelet does not tell."""
    if not socket.exists():
        return None
    options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", MAX_ANSWER_BYTES))
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            stub: Any = api_pb2_grpc.PodResourcesListerStub(channel)
            answer = await stub.List(api_pb2.ListPodResourcesRequest(), timeout=TIMEOUT_S)
    except (grpc.RpcError, OSError):
        return None
    held: dict[str, set[str]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                held.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return {resource: frozenset(ids) for resource, ids in held.items()}
