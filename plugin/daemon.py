"""The plugin as a process of a node: devices in, resources out, until it is told to stop.

Everything that changes ends in one place, `reconcile`: list the devices, say what should be
advertised, and move every endpoint one step towards it. No error ends the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from plugin.advertise import Advertiser
from plugin.cdi import CdiFolder
from plugin.config import MigStrategy, PluginConfig
from plugin.devices.base import DeviceSource, NodeDevices
from plugin.endpoint import Endpoint
from plugin.errors import DriverError, PluginError
from plugin.geometry import GeometryTask
from plugin.health import HealthBook
from plugin.kubelet import FolderWatch, Ownership, identity
from plugin.metrics import Metrics
from plugin.monitor import HealthMonitor
from plugin.pod_resources import by_resource, holdings
from plugin.remarks import Remarks
from plugin.resources import hidden_instances, offer
from plugin.settings import Settings

log = logging.getLogger("unstrand.plugin")


class Daemon:
    """Keeps the resources of a node registered.

    Parameters
    ----------
    source
        The GPUs.
    load_config
        Gives the config that holds now; raises where the file is wrong.
    config_stamp
        Changes when the config should be loaded again.
    geometry
        The wanted MIG geometry and its progress, or None.
    """

    def __init__(
        self,
        source: DeviceSource,
        load_config: Callable[[], PluginConfig],
        settings: Settings,
        *,
        config_stamp: Callable[[], object] = lambda: None,
        health: HealthBook | None = None,
        metrics: Metrics | None = None,
        cdi: CdiFolder | None = None,
        geometry: GeometryTask | None = None,
    ) -> None:
        self.source, self.settings = source, settings
        self.config = load_config()
        self.health = health if health is not None else HealthBook()
        self.metrics = metrics if metrics is not None else Metrics()
        self._monitor = HealthMonitor(source, self.health, self.metrics)
        self.node: NodeDevices | None = None
        self.troubles: dict[str, str] = {"start": "devices are not listed yet"}
        self._remarks = Remarks(self.metrics, settings.runtime_config)
        self._load_config, self._config_stamp = load_config, config_stamp
        self._cdi, self._geometry = cdi, geometry
        self._advertiser = Advertiser(
            settings.paths, self.metrics, self.health, pre_start=settings.pre_start
        )
        self._wake = asyncio.Event()
        self._rescan = True
        self._retiring: frozenset[str] = frozenset()
        self._owner = Ownership(settings.paths.ours, self.config.domain)
        self._watch = FolderWatch(
            settings.paths.plugins, settings.paths.check_interval_s, settings.paths.inotify
        )

    # --- status --------------------------------------------------------------------------------

    @property
    def unready(self) -> dict[str, str]:
        """Why the plugin is not ready, by what is amiss; empty when it is."""
        pending = {
            name: endpoint.trouble
            for name, endpoint in self.endpoints.items()
            if not endpoint.registered
        }
        return self.troubles | self._advertiser.troubles | pending

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know, though the plugin may be ready."""
        return (*self.config.notes, *self._remarks.now)

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Everything that is served, by resource."""
        return self._advertiser.endpoints

    # --- life ----------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then end streams, finish calls and remove our sockets."""
        loops = (
            ("reconcile", self._reconcile_loop),
            ("kubelet", self._kubelet_loop),
            ("confirm", self._confirm_loop),
            ("events", self._event_loop),
            ("probe", self._probe_loop),
            ("config", self._config_loop),
        )
        tasks = [asyncio.create_task(self._forever(name, loop)) for name, loop in loops]
        try:
            await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._advertiser.withdraw()
            self._watch.close()
            self._owner.release()
            await asyncio.to_thread(self.source.close)

    async def _forever(self, name: str, turn: Callable[[], Awaitable[None]]) -> None:
        """Take turns of a loop; what a turn raises is said and survived."""
        while True:
            try:
                await turn()
                self.troubles.pop(name, None)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                expected = isinstance(error, PluginError | OSError)
                if self.troubles.get(name) != str(error):
                    log.warning("%s: %s", name, error, exc_info=not expected)
                self.troubles[name] = str(error) or type(error).__name__
                self.metrics.troubles.labels(name).inc()
                await asyncio.sleep(1.0)

    # --- devices to resources ------------------------------------------------------------------

    def changed(self, *, devices: bool = False) -> None:
        """Reconcile soon; with `devices`, list them again first."""
        self._rescan = self._rescan or devices
        self._wake.set()

    async def _reconcile_loop(self) -> None:
        if not self._owner.take():
            self.troubles["lock"] = "another plugin process serves this domain on this node"
            # If we did so far, our lock file was deleted, and the other holds a new one.
            await self._advertiser.withdraw()
            await asyncio.sleep(0.5)
            return
        self.troubles.pop("lock", None)
        await self.reconcile()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._next_turn_s()):
                await self._wake.wait()
        if not self._wake.is_set():
            self._rescan = True
        self._wake.clear()

    def _next_turn_s(self) -> float:
        return self.settings.busy_s if self._busy else self.settings.rescan_s

    @property
    def _busy(self) -> bool:
        """Whether something is under way that a look at who holds what may move on."""
        working = self._geometry is not None and self._geometry.busy
        return self._advertiser.waits or working

    async def reconcile(self) -> None:
        """Move what is advertised one step towards what should be.

        Raises
        ------
        DriverError
            The devices cannot be listed; those of the last listing are advertised as before, with
            what has become of their health.
        """
        trouble = await self._list_devices()
        node = self.node
        if node is None:
            raise trouble or DriverError("devices are not listed yet")
        held = await holdings(self.settings.paths.pod_resources)
        in_use = None if held is None else by_resource(held)
        if self._geometry is not None and trouble is None:
            who = None if held is None else {one.device: one.pod for one in held}
            self._retiring = await asyncio.to_thread(self._geometry.advance, node, who)
            if self._geometry.changed_devices:
                node = self.node = await asyncio.to_thread(self.source.scan)
        wanted = offer(node, self.config)
        self._say_hidden(node)
        notes = (*wanted.notes, *(self._geometry.remarks if self._geometry is not None else ()))
        await self._remarks.update(node, self.config, notes, held or ())
        if not self.endpoints:
            self._owner.sweep()
        self._advertiser.advertise(node, self.config, wanted.resources, in_use, self._retiring)
        if self._cdi is not None:
            await asyncio.to_thread(self._cdi.write, node, self.config)
        if trouble is not None:
            raise trouble

    def _say_hidden(self, node: NodeDevices) -> None:
        """A plugin that should serve instances and may not see them is not ready."""
        hidden = hidden_instances(node)
        if hidden and self.config.mig_strategy is not MigStrategy.NONE:
            self.troubles["mig"] = hidden[0]
        else:
            self.troubles.pop("mig", None)

    async def _list_devices(self) -> Exception | None:
        """List the devices if it is time to; what came in between."""
        if not (self._rescan or self.node is None or self._busy):
            return None
        self._rescan = False
        try:
            self.node = await asyncio.to_thread(self.source.scan)
        except Exception as error:
            self._rescan = True
            return error
        self.troubles.pop("start", None)
        # A new start does not trust a GPU that still fails. Where none can be probed, the loop of
        # the probes says so.
        with contextlib.suppress(DriverError):
            await self._monitor.probe(self.node)
        return None

    # --- what may change -----------------------------------------------------------------------

    async def _kubelet_loop(self) -> None:
        await self._watch.wait()
        await asyncio.sleep(0.05)  # one restart makes several events
        kubelet = identity(self.settings.paths.socket)
        for endpoint in self.endpoints.values():
            endpoint.observe(kubelet, time.monotonic())
        if self.endpoints and not self._owner.is_current:
            self.changed()
        self.metrics.ready.set(0 if self.unready else 1)

    async def _confirm_loop(self) -> None:
        await asyncio.sleep(self.settings.paths.confirm_s)
        await self._advertiser.confirm()

    async def _event_loop(self) -> None:
        if await self._monitor.take_events(lambda: self.node):
            self.changed()

    async def _probe_loop(self) -> None:
        await asyncio.sleep(self.settings.probe_s)
        if await self._monitor.probe(self.node):
            self.changed(devices=True)

    async def _config_loop(self) -> None:
        stamp = self._config_stamp()
        await asyncio.sleep(self.settings.config_poll_s)
        if self._config_stamp() == stamp:
            return
        self.reload()

    def reload(self) -> None:
        """Load the config again; a file that is wrong changes nothing and is said.

        Raises
        ------
        PluginError
            What is wrong with it.
        """
        config = self._load_config()
        if config.domain != self.config.domain:
            config = replace(config, domain=self.config.domain)
        self.config = config
        log.info("config loaded again")
        self.changed()
