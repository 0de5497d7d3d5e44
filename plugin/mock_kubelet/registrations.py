"""Plugins that have registered: dialling back, their streams, and what a second one changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
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

DIAL_TIMEOUT_S = 10.0
WATCH_INTERVAL_S = 0.05


class Duplicates(StrEnum):
    """What happens to a second plugin for the same resource: kubelets up to 1.36, and from 1.37."""

    BY_NAME = "by-name"
    BY_PATH = "by-path"


@dataclass(slots=True)
class Connection:
    """A plugin that has registered: where it is, what it wants, whether its stream goes on."""

    resource: str
    endpoint: str
    channel: aio.Channel
    stub: Any
    options: api_pb2.DevicePluginOptions
    stream: asyncio.Task[None] | None = None
    alive: bool = True


@dataclass(slots=True)
class Registrations:
    """The plugins of a node, by resource, and what their streams say.

    Parameters
    ----------
    folder
        Plugin folder; endpoints are relative to it.
    duplicates
        Which kubelet's rule holds for a second plugin of a resource.
    books
        Gets the devices that streams tell of.
    noted
        Called when the books have changed.
    """

    folder: Path
    duplicates: Duplicates
    books: Books
    clock: Callable[[], float]
    say: Callable[[str], None]
    noted: Callable[[], None]
    _plugins: dict[str, list[Connection]] = field(default_factory=dict)
    _watching: asyncio.Task[None] | None = None

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
        plugin = Connection(name, request.endpoint, channel, stub, options)
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

    async def _listen_to(self, plugin: Connection) -> None:
        try:
            async for snapshot in plugin.stub.ListAndWatch(api_pb2.Empty()):
                inventory = self.books.inventories.setdefault(plugin.resource, Inventory())
                inventory.left_at = None
                inventory.replace((d.ID, d.health == "Healthy") for d in snapshot.devices)
                well = len(inventory.healthy)
                self.say(f"list {plugin.resource}: {len(snapshot.devices)} devices, {well} healthy")
                self.noted()
        except grpc.RpcError:
            pass
        if plugin.alive:
            plugin.alive = False
            self._left(plugin)
            await plugin.channel.close()

    def _left(self, plugin: Connection) -> None:
        """A stream has ended. By name, that ends the resource, even a newer plugin's."""
        rest = [one for one in self._plugins.get(plugin.resource, []) if one is not plugin]
        by_name = self.duplicates is Duplicates.BY_NAME
        self._plugins[plugin.resource] = [] if by_name else rest
        inventory = self.books.inventories.get(plugin.resource)
        if inventory is not None and (by_name or not rest):
            inventory.lose(self.clock())
        self.say(f"lost {plugin.resource}")

    def serving(self, resource: str) -> Connection:
        """The plugin that is asked for devices of a resource, the last one registered.

        Raises
        ------
        AdmissionError
            There is none.
        """
        plugins = self._plugins.get(resource)
        if not plugins:
            raise AdmissionError(f"cannot allocate unregistered device {resource}")
        return plugins[-1]

    def watch(self, registry: Path) -> None:
        """Begin to watch a folder as the kubelet's plugin watcher does."""
        self._watching = asyncio.create_task(self._watch_registry(registry))

    async def close(self) -> None:
        """End all streams, and the watching."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None
        for plugins in self._plugins.values():
            for plugin in plugins:
                await self._drop(plugin)
        self._plugins = {}

    async def _drop(self, plugin: Connection) -> None:
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


def _dial(socket: Path) -> aio.Channel:
    """A channel as the kubelet opens it."""
    authority = ("grpc.default_authority", "localhost")
    return aio.insecure_channel(f"unix:{socket}", options=(*CHANNEL_OPTIONS, authority))
