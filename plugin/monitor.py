"""The watch over the GPUs: errors that the driver reports, and probes, into the book of health."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from plugin.devices.base import DeviceSource, NodeDevices
from plugin.errors import DriverError
from plugin.health import HealthBook
from plugin.metrics import Metrics

log = logging.getLogger("unstrand.plugin")

EVENT_WAIT_S = 0.5
"""Longest wait for an error of the driver before looking whether to stop."""


class HealthMonitor:
    """Fills a `HealthBook` from a source of GPUs.

    Where the source cannot be asked the monitor is broken, not the GPUs: nothing is learnt then,
    good or bad.
    """

    def __init__(self, source: DeviceSource, health: HealthBook, metrics: Metrics) -> None:
        self._source, self._health, self._metrics = source, health, metrics

    async def take_events(self, listed: Callable[[], NodeDevices | None]) -> bool:
        """Wait a moment for errors of the driver; whether there were any.

        Parameters
        ----------
        listed
            Gives the GPUs as they are known once an error has come: one of nobody is of them all.

        Raises
        ------
        DriverError
            The driver does not report errors at the moment.
        """
        events = await asyncio.to_thread(lambda: list(self._source.events(EVENT_WAIT_S)))
        node = listed()
        gpus = [gpu.uuid for gpu in node.gpus] if node else []
        for event in events:
            action = self._health.observe(event, gpus, time.monotonic())
            self._metrics.xids.labels(str(event.xid), action.value).inc()
            log.warning("XID %d on %s: %s", event.xid, event.gpu or "all GPUs", action.value)
        return bool(events)

    async def probe(self, node: NodeDevices | None) -> bool:
        """Probe each GPU; whether any is now better or worse than before.

        Raises
        ------
        DriverError
            Some could not be probed, and it is the driver rather than they.
        """
        gpus = node.gpus if node else ()
        found, blind = await self._ask([gpu.uuid for gpu in gpus])
        witness = next((uuid for uuid, trouble in found.items() if trouble is None), None)
        if blind and witness is not None:
            # The driver may have broken, or come back, halfway. Where it answers for another GPU
            # before and after, it is this one that does not.
            again, blind = await self._ask(blind)
            _, gone = await self._ask([witness])
            found |= again
            if not gone:
                found |= {uuid: str(error) for uuid, error in blind.items()}
                blind = {}
        news = False
        for gpu in gpus:
            was = self._health.why(gpu.uuid)
            if gpu.uuid in found:
                self._health.probed(gpu.uuid, found[gpu.uuid], time.monotonic())
            else:
                self._health.unseen(gpu.uuid)
            now = self._health.why(gpu.uuid)
            if was != now:
                log.warning("GPU %d: %s", gpu.index, now or "healthy again")
                news = True
        if blind:
            raise next(iter(blind.values()))
        return news

    async def _ask(
        self, uuids: Iterable[str]
    ) -> tuple[dict[str, str | None], dict[str, DriverError]]:
        """What is wrong with each GPU, or None; and the errors of those that cannot be probed."""
        found: dict[str, str | None] = {}
        blind: dict[str, DriverError] = {}
        for uuid in uuids:
            try:
                found[uuid] = await asyncio.to_thread(self._source.probe, uuid)
            except DriverError as error:
                blind[uuid] = error
        return found, blind
