"""The two services of a kubelet that plugins call: registration and PodResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from plugin.proto.podresources.v1 import api_pb2 as pods_pb2
from plugin.proto.podresources.v1 import api_pb2_grpc as pods_grpc

if TYPE_CHECKING:
    from plugin.mock_kubelet.manager import MockKubelet


class RegistrationService(api_pb2_grpc.RegistrationServicer):
    """Where plugins announce themselves."""

    def __init__(self, kubelet: MockKubelet) -> None:
        self._kubelet = kubelet

    async def Register(self, request: api_pb2.RegisterRequest, context: Any) -> api_pb2.Empty:  # noqa: ANN401, N802
        """Register a plugin, or say why not."""
        try:
            await self._kubelet.register(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api_pb2.Empty()


class PodResourcesService(pods_grpc.PodResourcesListerServicer):
    """Who holds which devices, for whoever asks on the node."""

    def __init__(self, kubelet: MockKubelet) -> None:
        self._kubelet = kubelet

    async def List(  # noqa: N802
        self,
        request: pods_pb2.ListPodResourcesRequest,
        context: Any,  # noqa: ANN401
    ) -> pods_pb2.ListPodResourcesResponse:
        """Devices of every container."""
        told = []
        for uid in self._kubelet.pods:
            containers = [
                pods_pb2.ContainerResources(
                    name=name,
                    devices=[
                        pods_pb2.ContainerDevices(resource_name=resource, device_ids=ids)
                        for resource, ids in held.items()
                    ],
                )
                for name, held in self._kubelet.devices(uid).items()
            ]
            told.append(pods_pb2.PodResources(name=uid, namespace="default", containers=containers))
        return pods_pb2.ListPodResourcesResponse(pod_resources=told)

    async def GetAllocatableResources(  # noqa: N802
        self,
        request: pods_pb2.AllocatableResourcesRequest,
        context: Any,  # noqa: ANN401
    ) -> pods_pb2.AllocatableResourcesResponse:
        """Healthy devices of every resource."""
        devices = [
            pods_pb2.ContainerDevices(resource_name=name, device_ids=sorted(inventory.healthy))
            for name, inventory in self._kubelet.books.inventories.items()
        ]
        return pods_pb2.AllocatableResourcesResponse(devices=devices)
