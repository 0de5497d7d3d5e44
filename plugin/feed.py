"""The snapshot of one resource, and the streams that wait for the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from plugin.proto.deviceplugin.v1beta1 import api_pb2
from plugin.resources import Resource

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Feed:
    """Latest snapshot of a resource; every follower gets it at once, and then each change.

    Published from the loop of the plugin, followed from the threads of its servers.
    """

    def __init__(self) -> None:
        self._latest: api_pb2.ListAndWatchResponse | None = None
        self._version = 0
        self._closed = False
        self._changed = threading.Condition()
        self.followers = 0

    @property
    def latest(self) -> api_pb2.ListAndWatchResponse | None:
        """What was published last."""
        return self._latest

    def publish(self, snapshot: api_pb2.ListAndWatchResponse) -> bool:
        """Hand a snapshot to all followers; one that says nothing new is not sent.

        The kubelet writes a checkpoint for every message, so repeats would cost the node a write.
        """
        if self._latest == snapshot:
            return False
        with self._changed:
            self._latest = snapshot
            self._version += 1
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """End all streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Have followers look whether their client is still there."""
        with self._changed:
            self._changed.notify_all()

    def follow(
        self, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        """Yield snapshots until the feed is closed or nobody wants them any more."""
        seen = 0
        with self._changed:
            self.followers += 1
        try:
            while True:
                with self._changed:
                    while seen == self._version and not self._closed and is_wanted():
                        self._changed.wait()
                    if self._closed or not is_wanted():
                        return
                    seen, latest = self._version, self._latest
                if latest is not None:
                    yield latest
        finally:
            with self._changed:
                self.followers -= 1


def snapshot(
    resource: Resource, sick: Iterable[str], leaving: Iterable[str] = ()
) -> api_pb2.ListAndWatchResponse:
    """The message of a resource: each ID once, with its health and NUMA node.

    Parameters
    ----------
    sick
        Advertised IDs that are unhealthy.
    leaving
        IDs that are no longer in the resource but were until now: told as unhealthy, because the
        kubelet reports an ID that vanishes as healthy for ever to the pods that hold it.
    """
    unwell = set(sick)
    devices = []
    for ids, device in zip(resource.ids, resource.devices, strict=True):
        numa = device.gpu.numa_node
        topology = None
        if numa is not None and numa >= 0:
            topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=numa)])
        for one in ids:
            health = UNHEALTHY if one in unwell else HEALTHY
            devices.append(api_pb2.Device(ID=one, health=health, topology=topology))
    known = resource.owner
    devices += [
        api_pb2.Device(ID=one, health=UNHEALTHY) for one in sorted(leaving) if one not in known
    ]
    return api_pb2.ListAndWatchResponse(devices=devices)
