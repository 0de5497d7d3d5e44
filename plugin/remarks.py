"""What an operator should know beside the devices: said once, for as long as it holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from plugin.config import PluginConfig
from plugin.devices.base import NodeDevices
from plugin.double_use import double_uses
from plugin.exposure import exposure_notes, read_exposure
from plugin.metrics import Metrics
from plugin.pod_resources import Holding

log = logging.getLogger("unstrand.plugin")


class Remarks:
    """Remarks of a running plugin: in the log when they are new, and in `now`.

    Parameters
    ----------
    runtime_config
        Config file of the container runtime, to say whom it believes; None looks at none.
    """

    def __init__(self, metrics: Metrics, runtime_config: Path | None) -> None:
        self.now: tuple[str, ...] = ()
        self._metrics, self._runtime_config = metrics, runtime_config

    async def update(
        self,
        node: NodeDevices,
        config: PluginConfig,
        notes: Iterable[str],
        held: Iterable[Holding],
    ) -> None:
        """Look again, and say what was not said before.

        Parameters
        ----------
        notes
            On the devices that are offered.
        held
            What containers hold. A device held twice is only reported: nobody can take it back.
        """
        doubles = double_uses(held, node)
        self._metrics.double_uses.set(len(doubles))
        self._metrics.unmonitored.set(sum(gpu.unmonitored is not None for gpu in node.gpus))
        found = (*notes, *await asyncio.to_thread(self._runtime, config), *doubles)
        for remark in found:
            if remark not in self.now:
                log.warning("%s", remark)
        self.now = found

    def _runtime(self, config: PluginConfig) -> tuple[str, ...]:
        """What the container runtime lets containers take; its file may change."""
        if self._runtime_config is None:
            return ()
        exposure = read_exposure(self._runtime_config)
        self._metrics.exposed(exposure.environment)
        return exposure_notes(exposure, config)
