"""The device manager: registrations, streams, admissions; one run of a kubelet after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from plugin.kubelet import CHANNEL_OPTIONS, reason_of
from plugin.mock_kubelet.books import AdmissionError, Books, Inventory
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from plugin.proto.pluginregistration.v1 import api_pb2 as watcher_pb2
from plugin.proto.pluginregistration.v1 import api_pb2_grpc as watcher_grpc
from plugin.proto.podresources.v1 import api_pb2 as pods_pb2
from plugin.proto.podresources.v1 import api_pb2_grpc as pods_grpc

DIAL_TIMEOUT_S = 10.0
WATCH_INTERVAL_S = 0.05
CHECKPOINT = "kubelet_internal_checkpoint"


class Duplicates(StrEnum):
    """What happens to a second plugin for the same resource: kubelets up to 1.36, and from 1.37."""

    BY_NAME = "by-name"
    BY_PATH = "by-path"


@dataclass(slots=True)
class _Plugin:
    resource: str
    endpoint: str
    channel: aio.Channel
    stub: Any
    options: api_pb2.DevicePluginOptions
    stream: asyncio.Task[None] | None = None
    alive: bool = True


@dataclass(slots=True, kw_only=True)
class Container:
    """A container of a pod, with the extended resources it asks for."""

    name: str
    limits: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Pod:
    """A pod: init containers and containers in order."""

    uid: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()


@dataclass(slots=True)
class MockKubelet:
    """A device manager on a folder.

    Parameters
    ----------
    folder
        Plugin folder, where ``kubelet.sock`` appears.
    duplicates
        Which kubelet's rule holds for a second plugin of a resource.
    say
        Told what happens, one line each.
    pod_resources
        Socket of the PodResources service; None serves none.
    registry
        Folder of the plugin watcher; None watches none.
    """

    folder: Path
    duplicates: Duplicates = Duplicates.BY_NAME
    seed: int = 1
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda line: None
    pod_resources: Path | None = None
    registry: Path | None = None
    books: Books = field(default_factory=Books)
    pods: dict[str, Pod] = field(default_factory=dict)
    _answers: dict[tuple[str, str, str], api_pb2.ContainerAllocateResponse] = field(
        default_factory=dict
    )
    _plugins: dict[str, list[_Plugin]] = field(default_factory=dict)
    _servers: list[aio.Server] = field(default_factory=list)
    _watching: asyncio.Task[None] | None = None
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    # --- runs ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin a run: read the checkpoint, delete every socket, listen on a new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._read_checkpoint()
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        await self._listen(self.folder / "kubelet.sock", "v1beta1.Registration")
        if self.pod_resources is not None:
            self.pod_resources.parent.mkdir(parents=True, exist_ok=True)
            self.pod_resources.unlink(missing_ok=True)
            await self._listen(self.pod_resources, "v1.PodResourcesLister")
        if self.registry is not None:
            self.registry.mkdir(parents=True, exist_ok=True)
            self._watching = asyncio.create_task(self._watch_registry(self.registry))

    async def _listen(self, path: Path, service: str) -> None:
        server = aio.server()
        if service.startswith("v1beta1"):
            api_pb2_grpc.add_RegistrationServicer_to_server(_Registration(self), server)
        else:
            pods_grpc.add_PodResourcesListerServicer_to_server(_PodResources(self), server)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    async def stop(self) -> None:
        """End the run; streams end with it."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None
        for plugins in self._plugins.values():
            for plugin in plugins:
                await self._drop(plugin)
        self._plugins = {}
        for server in self._servers:
            await server.stop(0)
        self._servers = []
        self.books = Books(inventories={}, held=self.books.held)

    async def restart(self) -> None:
        """Stop and start: registered resources come back from the checkpoint with no devices."""
        known = set(self.books.inventories)
        await self.stop()
        await self.start()
        for name in known:
            self.books.inventories.setdefault(name, Inventory(left_at=self.clock()))

    async def _drop(self, plugin: _Plugin) -> None:
        plugin.alive = False
        if plugin.stream is not None:
            plugin.stream.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await plugin.stream
        await plugin.channel.close()

    async def drop_streams(self) -> None:
        """Close all streams as on a broken connection, without a restart."""
        for plugins in list(self._plugins.values()):
            for plugin in list(plugins):
                await self._drop(plugin)
                self._left(plugin)

    # --- registration --------------------------------------------------------------------------

    async def register(self, request: api_pb2.RegisterRequest) -> None:
        """Take a registration: check, dial back, ask for options; the stream comes after.

        Raises
        ------
        ValueError
            Why it is refused.
        """
        if request.version != "v1beta1":
            raise ValueError(f"requested API version {request.version!r} is not supported")
        name = request.resource_name
        if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
            raise ValueError(f"the ResourceName {name!r} is invalid")
        rivals = self._plugins.get(name, [])
        if self.duplicates is Duplicates.BY_PATH and any(
            plugin.endpoint == request.endpoint and plugin.alive for plugin in rivals
        ):
            raise ValueError(f"device plugin already connected: {name} at {request.endpoint}")
        channel = _dial(self.folder / request.endpoint)
        stub: Any = api_pb2_grpc.DevicePluginStub(channel)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await channel.channel_ready()
            options = await stub.GetDevicePluginOptions(api_pb2.Empty())
        except (TimeoutError, grpc.RpcError) as error:
            await channel.close()
            raise ValueError(f"failed to dial device plugin: {reason_of(error)}") from error
        plugin = _Plugin(name, request.endpoint, channel, stub, options)
        if self.duplicates is Duplicates.BY_NAME:
            self._plugins[name] = [plugin]
            for rival in rivals:
                rival.alive = True  # its stream goes on, and its end tears the new entry down
        else:
            self._plugins[name] = [*rivals, plugin]
        self.say(f"register {name} at {request.endpoint}")
        plugin.stream = asyncio.create_task(self._listen_to(plugin))

    async def _watch_registry(self, folder: Path) -> None:
        """Ask each new socket who it is, and register it; one that fails is asked again."""
        known: set[str] = set()
        while True:
            present = {path.name for path in folder.glob("*.sock")}
            known &= present
            for name in sorted(present - known):
                if await self._meet(folder / name):
                    known.add(name)
            await asyncio.sleep(WATCH_INTERVAL_S)

    async def _meet(self, socket: Path) -> bool:
        async with _dial(socket) as channel:
            stub: Any = watcher_grpc.RegistrationStub(channel)
            try:
                info = await stub.GetInfo(watcher_pb2.InfoRequest(), timeout=1)
                endpoint = info.endpoint or str(socket)
                request = api_pb2.RegisterRequest(
                    version="v1beta1", endpoint=endpoint, resource_name=info.name
                )
                status = watcher_pb2.RegistrationStatus(plugin_registered=True)
                try:
                    await self.register(request)
                except ValueError as error:
                    status = watcher_pb2.RegistrationStatus(error=str(error))
                await stub.NotifyRegistrationStatus(status, timeout=5)
            except grpc.RpcError:
                return False
        return bool(status.plugin_registered)

    async def _listen_to(self, plugin: _Plugin) -> None:
        try:
            async for snapshot in plugin.stub.ListAndWatch(api_pb2.Empty()):
                inventory = self.books.inventories.setdefault(plugin.resource, Inventory())
                inventory.left_at = None
                inventory.replace((d.ID, d.health == "Healthy") for d in snapshot.devices)
                well = len(inventory.healthy)
                self.say(f"list {plugin.resource}: {len(snapshot.devices)} devices, {well} healthy")
                self._write_checkpoint()
        except grpc.RpcError:
            pass
        if plugin.alive:
            plugin.alive = False
            self._left(plugin)
            await plugin.channel.close()

    def _left(self, plugin: _Plugin) -> None:
        """A stream has ended. By name, that ends the resource, even a newer plugin's."""
        rest = [one for one in self._plugins.get(plugin.resource, []) if one is not plugin]
        by_name = self.duplicates is Duplicates.BY_NAME
        self._plugins[plugin.resource] = [] if by_name else rest
        inventory = self.books.inventories.get(plugin.resource)
        if inventory is not None and (by_name or not rest):
            inventory.lose(self.clock())
        self.say(f"lost {plugin.resource}")

    # --- pods ----------------------------------------------------------------------------------

    async def admit(self, pod: Pod) -> dict[str, dict[str, list[str]]]:
        """Admit a pod, container by container, or refuse it.

        Raises
        ------
        AdmissionError
            What was missing; what containers before got stays booked until the next admission.
        """
        self.books.free_pods(self.pods)
        self.pods[pod.uid] = pod
        reusable: dict[str, set[str]] = {}
        try:
            for container in pod.init_containers:
                await self._allocate(pod, container, reusable)
                for name in container.limits:
                    held = self.books.held.get((pod.uid, container.name, name), frozenset())
                    reusable.setdefault(name, set()).update(held)
            for container in pod.containers:
                await self._allocate(pod, container, reusable)
                for name in container.limits:
                    held = self.books.held.get((pod.uid, container.name, name), frozenset())
                    reusable.setdefault(name, set()).difference_update(held)
        except AdmissionError:
            self.pods.pop(pod.uid)
            raise
        self._write_checkpoint()
        return self.devices(pod.uid)

    async def _allocate(
        self, pod: Pod, container: Container, reusable: Mapping[str, set[str]]
    ) -> None:
        names = list(container.limits)
        self._random.shuffle(names)  # a map's order at the kubelet
        for name in names:
            if name not in self.books.inventories:
                continue  # nobody's resource: not the manager's business
            key = (pod.uid, container.name, name)
            if key in self.books.held:
                continue
            spare = reusable.get(name, set())
            sure, available, missing = self.books.choose(name, container.limits[name], spare)
            plugin = self._plugin_of(name)
            ids = [*sure, *await self._choose(plugin, sure, available, missing)]
            request = api_pb2.AllocateRequest(
                container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)]
            )
            self.books.held[key] = frozenset(ids)
            try:
                answer = await plugin.stub.Allocate(request)
            except grpc.RpcError as error:
                del self.books.held[key]
                raise AdmissionError(f"Allocate failed due to {reason_of(error)}") from error
            if not answer.container_responses:
                del self.books.held[key]
                raise AdmissionError(f"no containers in allocation response {name}")
            self._answers[key] = answer.container_responses[0]
            self.say(f"allocate {name} to {pod.uid}/{container.name}: {', '.join(sorted(ids))}")

    async def _choose(
        self, plugin: _Plugin, sure: list[str], available: set[str], missing: int
    ) -> list[str]:
        """Follow the plugin's preference as far as it goes; the rest at random."""
        if not missing:
            return []
        preferred: set[str] = set()
        if plugin.options.get_preferred_allocation_available and len(available) > missing:
            request = api_pb2.ContainerPreferredAllocationRequest(
                available_deviceIDs=sorted(available | set(sure)),
                must_include_deviceIDs=sure,
                allocation_size=missing + len(sure),
            )
            try:
                answer = await plugin.stub.GetPreferredAllocation(
                    api_pb2.PreferredAllocationRequest(container_requests=[request])
                )
            except grpc.RpcError as error:
                raise AdmissionError(
                    f"GetPreferredAllocation failed due to {reason_of(error)}"
                ) from error
            if answer.container_responses:
                preferred = set(answer.container_responses[0].deviceIDs)
        chosen = sorted(preferred & available)[:missing]
        rest = sorted(available - set(chosen))
        self._random.shuffle(rest)
        return [*chosen, *rest[: missing - len(chosen)]]

    def _plugin_of(self, resource: str) -> _Plugin:
        plugins = self._plugins.get(resource)
        if not plugins:
            raise AdmissionError(f"cannot allocate unregistered device {resource}")
        return plugins[-1]

    def remove_pod(self, uid: str) -> None:
        """A pod is over; what it held is free at the next admission."""
        self.pods.pop(uid, None)
        self.books.free_pods(self.pods)

    def devices(self, uid: str) -> dict[str, dict[str, list[str]]]:
        """IDs by container and resource."""
        pod = self.pods[uid]
        told: dict[str, dict[str, list[str]]] = {
            container.name: {} for container in (*pod.init_containers, *pod.containers)
        }
        for (holder, container, resource), ids in self.books.held.items():
            if holder == uid:
                told[container][resource] = sorted(ids)
        return told

    async def run_options(self, uid: str) -> dict[str, dict[str, Any]]:
        """What the runtime is told: answers of several resources merged, the first one wins.

        Raises
        ------
        AdmissionError
            A plugin that wants to be asked before the start says no.
        """
        told = {}
        for container in self.pods[uid].containers:
            keys = [key for key in self._answers if key[:2] == (uid, container.name)]
            self._random.shuffle(keys)
            merged: dict[str, Any] = {"envs": {}, "annotations": {}}
            mounts: dict[str, str] = {}
            nodes: dict[str, str] = {}
            cdi: list[str] = []
            for key in keys:
                await self._before_start(key)
                answer = self._answers[key]
                merged["envs"] = {**answer.envs, **merged["envs"]}
                merged["annotations"] = {**answer.annotations, **merged["annotations"]}
                for mount in answer.mounts:
                    mounts.setdefault(mount.container_path, mount.host_path)
                for device in answer.devices:
                    nodes.setdefault(device.container_path, device.host_path)
                cdi += [device.name for device in answer.cdi_devices]
            merged["mounts"] = [f"{host}:{inside}" for inside, host in mounts.items()]
            merged["devices"] = list(nodes.values())
            merged["cdi"] = sorted(cdi)
            told[container.name] = merged
        return told

    async def _before_start(self, key: tuple[str, str, str]) -> None:
        plugin = self._plugin_of(key[2])
        if plugin.options.pre_start_required:
            request = api_pb2.PreStartContainerRequest(devices_ids=sorted(self.books.held[key]))
            try:
                await plugin.stub.PreStartContainer(request, timeout=30)
            except grpc.RpcError as error:
                raise AdmissionError(f"PreStartContainer failed: {reason_of(error)}") from error

    def health(self, uid: str) -> dict[str, str]:
        """Health of what a pod holds; an ID that vanished reads healthy, as at the kubelet."""
        told = {}
        for (holder, _, resource), ids in self.books.held.items():
            if holder == uid:
                inventory = self.books.inventories.get(resource, Inventory())
                for one in ids:
                    told[one] = "Unhealthy" if one in inventory.unhealthy else "Healthy"
        return told

    # --- checkpoint ----------------------------------------------------------------------------

    def _write_checkpoint(self) -> None:
        entries = [
            {"PodUID": pod, "ContainerName": container, "ResourceName": name, "DeviceIDs": [*ids]}
            for (pod, container, name), ids in self.books.held.items()
        ]
        data = {
            "Data": {
                "PodDeviceEntries": entries,
                "RegisteredDevices": {
                    name: sorted(inventory.healthy)
                    for name, inventory in self.books.inventories.items()
                },
            }
        }
        (self.folder / CHECKPOINT).write_text(json.dumps(data), encoding="utf-8")

    def _read_checkpoint(self) -> None:
        path = self.folder / CHECKPOINT
        if not path.exists():
            self.books.held = {}
            return
        data = json.loads(path.read_text(encoding="utf-8"))["Data"]
        self.books.held = {
            (e["PodUID"], e["ContainerName"], e["ResourceName"]): frozenset(e["DeviceIDs"])
            for e in data["PodDeviceEntries"]
        }
        for name in data["RegisteredDevices"]:
            self.books.inventories.setdefault(name, Inventory(left_at=self.clock()))


def _dial(socket: Path) -> aio.Channel:
    """A channel as the kubelet opens it."""
    authority = ("grpc.default_authority", "localhost")
    return aio.insecure_channel(f"unix:{socket}", options=(*CHANNEL_OPTIONS, authority))


class _Registration(api_pb2_grpc.RegistrationServicer):
    def __init__(self, kubelet: MockKubelet) -> None:
        self._kubelet = kubelet

    async def Register(self, request: api_pb2.RegisterRequest, context: Any) -> api_pb2.Empty:  # noqa: ANN401, N802
        try:
            await self._kubelet.register(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api_pb2.Empty()


class _PodResources(pods_grpc.PodResourcesListerServicer):
    def __init__(self, kubelet: MockKubelet) -> None:
        self._kubelet = kubelet

    async def List(  # noqa: N802
        self,
        request: pods_pb2.ListPodResourcesRequest,
        context: Any,  # noqa: ANN401
    ) -> pods_pb2.ListPodResourcesResponse:
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
        devices = [
            pods_pb2.ContainerDevices(resource_name=name, device_ids=sorted(inventory.healthy))
            for name, inventory in self._kubelet.books.inventories.items()
        ]
        return pods_pb2.AllocatableResourcesResponse(devices=devices)
