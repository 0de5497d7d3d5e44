"""What is advertised: an endpoint for each resource, moved one step at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from plugin.config import PluginConfig
from plugin.devices.base import NodeDevices
from plugin.endpoint import Endpoint
from plugin.errors import PluginError
from plugin.feed import snapshot
from plugin.health import HealthBook
from plugin.kubelet import KubeletPaths
from plugin.metrics import Metrics
from plugin.mps import daemon_trouble
from plugin.pod_resources import allocatable
from plugin.resources import Resource
from plugin.server import Served
from plugin.transition import Step, step

InUse = Mapping[str, frozenset[str]]
"""IDs that containers hold, by resource."""


class Advertiser:
    """The endpoints of a node.

    Parameters
    ----------
    pre_start
        Whether the kubelet asks once more before a container starts.

    Attributes
    ----------
    troubles
        Why resources are held back, by what is amiss.
    waits
        Whether containers hold something that is to go or to be given out in another way.
    """

    def __init__(
        self, paths: KubeletPaths, metrics: Metrics, health: HealthBook, *, pre_start: bool
    ) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.troubles: dict[str, str] = {}
        self.waits = False
        self._paths, self._metrics, self._health = paths, metrics, health
        self._pre_start = pre_start
        self._leaving: dict[str, Mapping[str, float]] = {}

    def advertise(
        self,
        node: NodeDevices,
        config: PluginConfig,
        wanted: Iterable[Resource],
        in_use: InUse | None,
        retiring: frozenset[str] = frozenset(),
    ) -> None:
        """Move every endpoint one step towards the wanted resources.

        Parameters
        ----------
        in_use
            None where the kubelet does not tell.
        retiring
            UUIDs of instances that are about to be destroyed.
        """
        by_name = {resource.name: resource for resource in wanted}
        self.waits = False
        for name in sorted({*by_name, *self.endpoints}):
            # A resource that nobody offers any more stays registered with an empty list: its
            # endpoint's end would leave its last count on the node for minutes.
            resource = by_name.get(name, Resource(name=name, devices=()))
            now = self._step(resource, in_use)
            served = Served(
                resource=now.resource,
                topology=node.topology,
                config=config,
                control_nodes=node.control_nodes,
            )
            sick = self._sick(now, config, retiring)
            endpoint = self.endpoints.get(name)
            if endpoint is not None:
                endpoint.update(served, snapshot(now.resource, sick, now.leaving))
                continue
            endpoint = self.endpoints[name] = Endpoint(
                served, self._paths, self._metrics, self._check(name) if self._pre_start else None
            )
            endpoint.update(served, snapshot(now.resource, sick, now.leaving))
            endpoint.start()

    async def confirm(self) -> None:
        """Ask the kubelet whether it has what is advertised; where it lost it, register again."""
        known = await allocatable(self._paths.pod_resources)
        if known is not None:
            for name, endpoint in self.endpoints.items():
                endpoint.confirm(known.get(name, frozenset()), time.monotonic())

    async def withdraw(self) -> None:
        """Serve nothing any more: streams end, calls under way finish, sockets are removed."""
        endpoints, self.endpoints = self.endpoints, {}
        self._leaving = {}
        await asyncio.gather(*(endpoint.stop() for endpoint in endpoints.values()))

    def _step(self, resource: Resource, in_use: InUse | None) -> Step:
        name = resource.name
        endpoint = self.endpoints.get(name)
        others = (ids for other, ids in (in_use or {}).items() if other != name)
        now = step(
            endpoint.advertised if endpoint is not None else (),
            self._leaving.get(name, {}),
            resource,
            None if in_use is None else in_use.get(name, frozenset()),
            time.monotonic(),
            frozenset().union(*others),
        )
        self._leaving[name] = now.leaving
        self.waits = self.waits or bool(now.leaving or now.resource.extra or now.withheld)
        return now

    def _sick(self, now: Step, config: PluginConfig, retiring: frozenset[str]) -> set[str]:
        """IDs that are not to be given out."""
        resource = now.resource
        sick = {*self._health.sick(resource), *now.withheld}
        for ids, device in zip(resource.ids, resource.devices, strict=True):
            if device.uuid in retiring:
                sick.update(ids)
        no_daemon = daemon_trouble(resource, config)
        if no_daemon is None:
            self.troubles.pop(f"mps {resource.name}", None)
        else:
            self.troubles[f"mps {resource.name}"] = no_daemon
            sick.update(resource.owner)
        return sick

    def _check(self, name: str) -> Callable[[tuple[str, ...]], None]:
        def check(ids: tuple[str, ...]) -> None:
            resource = self.endpoints[name].served.resource
            sick = set(self._health.sick(resource))
            failed = [one for one in ids if one in sick]
            if failed:
                raise PluginError(f"{name}: {', '.join(failed)} failed after it was given out")

        return check
