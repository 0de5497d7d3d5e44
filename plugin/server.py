"""The gRPC face of one resource: translate, delegate, nothing else.

Calls are answered by threads: with ten callers at once that takes half the CPU time per call of
gRPC's asyncio server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from plugin.allocation.answer import Answer, answer
from plugin.allocation.preferred import preferred
from plugin.config import PluginConfig
from plugin.errors import PluginError
from plugin.feed import Feed
from plugin.metrics import Metrics
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from plugin.proto.pluginregistration.v1 import api_pb2 as watcher_pb2
from plugin.proto.pluginregistration.v1 import api_pb2_grpc as watcher_grpc
from plugin.resources import Resource
from topology.graph import NodeTopology

log = logging.getLogger("unstrand.plugin")

VERSION = "v1beta1"


@dataclass(slots=True)
class Served:
    """What the services of one resource answer from; replaced as a whole when devices change."""

    resource: Resource
    topology: NodeTopology
    config: PluginConfig
    control_nodes: tuple[str, ...] = ()


class DevicePluginService(api_pb2_grpc.DevicePluginServicer):
    """The five calls of a device plugin.

    Parameters
    ----------
    served
        Gives what is served now; asked at every call.
    feed
        Snapshots of the resource.
    prepare
        Called with the IDs of a container before it starts; None where that is not wanted.
    """

    def __init__(
        self,
        served: Callable[[], Served],
        feed: Feed,
        metrics: Metrics,
        prepare: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:
        self._served, self._feed, self._metrics = served, feed, metrics
        self._prepare = prepare

    def options(self) -> api_pb2.DevicePluginOptions:
        """What the kubelet may call beyond the two calls that every plugin has."""
        return api_pb2.DevicePluginOptions(
            get_preferred_allocation_available=True, pre_start_required=self._prepare is not None
        )

    def GetDevicePluginOptions(  # noqa: N802 - the names of calls are the contract's
        self,
        request: api_pb2.Empty,
        context: Any,  # noqa: ANN401
    ) -> api_pb2.DevicePluginOptions:
        """Say which optional calls there are."""
        return self.options()

    def ListAndWatch(  # noqa: N802
        self,
        request: api_pb2.Empty,
        context: Any,  # noqa: ANN401
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        """Send the snapshot at once, and after every change."""
        context.add_callback(self._feed.wake)  # a client that leaves frees the thread
        return self._feed.follow(context.is_active)

    def GetPreferredAllocation(  # noqa: N802
        self,
        request: api_pb2.PreferredAllocationRequest,
        context: Any,  # noqa: ANN401
    ) -> api_pb2.PreferredAllocationResponse:
        """Prefer devices. An error would fail the pod, so trouble ends in an empty answer."""
        began = time.perf_counter()
        served = self._served()
        answers = []
        for container in request.container_requests:
            try:
                ids = preferred(
                    served.resource,
                    served.topology,
                    container.available_deviceIDs,
                    container.must_include_deviceIDs,
                    container.allocation_size,
                    served.config.share_policy,
                )
            except Exception:
                log.exception("%s: no preference", served.resource.name)
                ids = ()
            answers.append(api_pb2.ContainerPreferredAllocationResponse(deviceIDs=ids))
        self._metrics.call(served.resource.name, "GetPreferredAllocation", began, ok=True)
        return api_pb2.PreferredAllocationResponse(container_responses=answers)

    def Allocate(  # noqa: N802
        self,
        request: api_pb2.AllocateRequest,
        context: Any,  # noqa: ANN401
    ) -> api_pb2.AllocateResponse:
        """Say what each container needs for its devices; the same question, the same answer."""
        began = time.perf_counter()
        served = self._served()
        try:
            answers = [
                message(
                    answer(
                        served.resource,
                        container.devices_ids,
                        served.config,
                        served.control_nodes,
                    ),
                    served.config,
                )
                for container in request.container_requests
            ]
        except PluginError as error:
            self._metrics.call(served.resource.name, "Allocate", began, ok=False)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # not reached: abort ends the call
        self._metrics.call(served.resource.name, "Allocate", began, ok=True)
        return api_pb2.AllocateResponse(container_responses=answers)

    def PreStartContainer(  # noqa: N802
        self,
        request: api_pb2.PreStartContainerRequest,
        context: Any,  # noqa: ANN401
    ) -> api_pb2.PreStartContainerResponse:
        """Check the devices once more, right before the container starts."""
        if self._prepare is not None:
            try:
                self._prepare(tuple(request.devices_ids))
            except PluginError as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return api_pb2.PreStartContainerResponse()


class WatcherService(watcher_grpc.RegistrationServicer):
    """What the kubelet's plugin watcher asks of a socket that it found."""

    def __init__(self, resource: str, on_status: Callable[[bool, str], None]) -> None:
        self._resource, self._on_status = resource, on_status

    def GetInfo(  # noqa: N802
        self,
        request: watcher_pb2.InfoRequest,
        context: Any,  # noqa: ANN401
    ) -> watcher_pb2.PluginInfo:
        """Say which resource this socket serves; it answers the other calls as well."""
        return watcher_pb2.PluginInfo(
            type="DevicePlugin", name=self._resource, supported_versions=[VERSION]
        )

    def NotifyRegistrationStatus(  # noqa: N802
        self,
        request: watcher_pb2.RegistrationStatus,
        context: Any,  # noqa: ANN401
    ) -> watcher_pb2.RegistrationStatusResponse:
        """Take note of what became of the registration."""
        self._on_status(request.plugin_registered, request.error)
        return watcher_pb2.RegistrationStatusResponse()


def message(told: Answer, config: PluginConfig) -> api_pb2.ContainerAllocateResponse:
    """An answer in the words of the contract."""
    root = config.devices_at.rstrip("/")
    return api_pb2.ContainerAllocateResponse(
        envs=told.envs,
        mounts=[
            api_pb2.Mount(container_path=m.container, host_path=m.host, read_only=m.read_only)
            for m in told.mounts
        ],
        devices=[
            api_pb2.DeviceSpec(container_path=node, host_path=root + node, permissions="rw")
            for node in told.device_nodes
        ],
        annotations=told.annotations,
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in told.cdi_devices],
    )
