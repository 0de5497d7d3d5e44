"""One resource at the kubelet: its socket, its server, its registration, for as long as we run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from plugin.feed import HEALTHY, Feed
from plugin.kubelet import Identity, KubeletPaths, identity, reason_of, register
from plugin.metrics import Metrics
from plugin.names import new_socket_path
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from plugin.proto.pluginregistration.v1 import api_pb2_grpc as watcher_grpc
from plugin.server import DevicePluginService, Served, WatcherService

log = logging.getLogger("unstrand.plugin")

FIRST_RETRY_S = 0.1
"""A kubelet that has just made its socket may need a moment until it listens."""

MAX_RETRY_S = 30.0
WORKERS = 16
"""Each stream holds a thread for its life; around a restart of the kubelet there may be two."""

STOP_GRACE_S = 2.0
"""Time for calls under way when a server stops."""


class Endpoint:
    """Serves one resource and keeps it registered; no error ends it.

    Parameters
    ----------
    served
        What is served at first; `update` replaces it.
    prepare
        Called before a container starts, or None.
    """

    def __init__(
        self,
        served: Served,
        paths: KubeletPaths,
        metrics: Metrics,
        prepare: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:
        self.served = served
        self.name = served.resource.name
        self.registered = False
        self.socket: Path | None = None
        self.trouble = "not registered yet"
        self._paths, self._metrics, self._prepare = paths, metrics, prepare
        self._feed = Feed()
        self._server: grpc.Server | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._own: Identity | None = None
        self._tried_with: Identity | None = None
        self._alone_since: float | None = None
        self._doubts = 0
        self._doubted_since: float | None = None
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- what is served ------------------------------------------------------------------------

    def update(self, served: Served, snapshot: api_pb2.ListAndWatchResponse) -> None:
        """Serve other devices from now on, and tell the kubelet if that changes anything."""
        self.served = served
        if self._feed.publish(snapshot):
            healthy = sum(device.health == "Healthy" for device in snapshot.devices)
            counts = {"healthy": healthy, "unhealthy": len(snapshot.devices) - healthy}
            self._metrics.health(self.name, counts)

    @property
    def advertised(self) -> tuple[str, ...]:
        """IDs in the latest snapshot."""
        latest = self._feed.latest
        return tuple(device.ID for device in latest.devices) if latest else ()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """End the streams, let calls under way finish, remove the socket."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._close(STOP_GRACE_S)

    def kick(self, why: str) -> None:
        """Begin anew, on a new socket."""
        if not self._again.is_set():
            log.info("%s: %s, registering again", self.name, why)
        self.registered, self.trouble = False, why
        self._again.set()

    def observe(self, kubelet: Identity | None, now: float) -> None:
        """Compare what was last seen with what is there: kubelet's socket, our own, the stream."""
        if self.socket is None or self._again.is_set():
            return
        if identity(self.socket) != self._own:
            self.kick("our socket is gone")
        elif not self._paths.watcher and kubelet is not None and kubelet != self._tried_with:
            self.kick("the kubelet has started anew")
        elif not self.registered or self._feed.followers:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since >= self._paths.stream_grace_s:
            self.kick("the kubelet no longer listens")

    def confirm(self, known: frozenset[str], now: float) -> None:
        """Compare what the kubelet can give out with what we told it.

        A kubelet that tells plugins apart by resource only takes the end of another one's stream,
        say that of the process before us, for the end of ours, and has nothing to give out then.
        """
        latest = self._feed.latest
        told = {one.ID for one in latest.devices if one.health == HEALTHY} if latest else set()
        if told & known:
            self._doubts, self._doubted_since = 0, None
        elif not told or not self.registered:
            self._doubted_since = None
        elif self._doubted_since is None:
            self._doubted_since = now
        elif now - self._doubted_since >= self._paths.confirm_s * 2 ** min(self._doubts, 8):
            self._doubts, self._doubted_since = self._doubts + 1, None
            self.kick("the kubelet has none of our devices")

    async def _run(self) -> None:
        failures = 0
        while True:
            self._again.clear()
            self._alone_since = None
            try:
                await self._serve()
                failures = 0
                if not self._paths.watcher:
                    await self._register()
                await self._again.wait()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                # Whatever it was, the next attempt may succeed; ending the process helps nobody.
                self.registered, self.trouble = False, reason_of(error)
                self._metrics.troubles.labels("serve").inc()
                log.warning("%s: cannot serve: %s", self.name, self.trouble)
                failures += 1
                await self._pause(failures)

    async def _serve(self) -> None:
        """Listen on a new socket; the old server is gone before that."""
        await self._close(0)
        path = new_socket_path(self._paths.ours, self.name)
        feed = Feed()
        if self._feed.latest is not None:
            feed.publish(self._feed.latest)
        self._feed = feed
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix=self.name)
        server = grpc.server(self._workers)
        service = DevicePluginService(lambda: self.served, feed, self._metrics, self._prepare)
        api_pb2_grpc.add_DevicePluginServicer_to_server(service, server)
        if self._paths.watcher:
            watcher = WatcherService(self.name, self._notified)
            watcher_grpc.add_RegistrationServicer_to_server(watcher, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._server, self.socket, self._own = server, path, identity(path)
        self._options = service.options()

    async def _register(self) -> None:
        """Try until it succeeds, or until there is reason to begin anew."""
        assert self.socket is not None
        failures = 0
        while not self._again.is_set():
            self._tried_with = identity(self._paths.socket)
            try:
                if self._tried_with is None:
                    raise FileNotFoundError(f"{self._paths.socket} is not there")
                if identity(self.socket) != self._own:
                    # A kubelet that starts deletes our socket just before it makes its own; told
                    # of a socket that is gone, it would look for it until its time-out.
                    self.kick("our socket is gone")
                    return
                if not await self._unless_again(
                    register(self._paths, self.socket, self.name, self._options)
                ):
                    return
            except Exception as error:
                failures += 1
                self.trouble = reason_of(error)
                self._metrics.registrations.labels(self.name, "failed").inc()
                level = logging.WARNING if failures in (1, 10) else logging.DEBUG
                log.log(level, "%s: not registered: %s", self.name, self.trouble)
                await self._pause(failures)
                continue
            self._registered()
            return

    def _registered(self) -> None:
        self.registered, self.trouble = True, ""
        self._metrics.registrations.labels(self.name, "ok").inc()
        log.info("%s: registered, %d devices", self.name, len(self.advertised))

    def _notified(self, done: bool, error: str) -> None:
        if done:
            self._registered()
            return
        self.registered, self.trouble = False, error
        self._metrics.registrations.labels(self.name, "failed").inc()
        log.warning("%s: the kubelet did not take us: %s", self.name, error)

    async def _pause(self, failures: int) -> None:
        delay_s = min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 12))
        delay_s *= random.uniform(0.75, 1.25)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._again.wait()

    async def _unless_again(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work; False if it was given up because there is reason to begin anew."""
        doing, again = asyncio.ensure_future(work), asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait((doing, again), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            doing.cancel()
            again.cancel()
            await asyncio.gather(doing, again, return_exceptions=True)

    async def _close(self, grace_s: float) -> None:
        self.registered = False
        self._feed.close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.stop(grace_s).wait)
        if self._workers is not None:
            self._workers.shutdown(wait=False)
            self._workers = None
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.unlink()
            self.socket = None


def now_s() -> float:
    """Seconds of a clock that is never set back."""
    return time.monotonic()
