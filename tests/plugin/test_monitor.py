"""A driver that cannot be asked says nothing about the GPUs; a GPU that cannot be does."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from plugin.devices.base import NodeDevices, XidEvent
from plugin.errors import DriverError
from plugin.health import HealthBook
from plugin.metrics import Metrics
from plugin.monitor import HealthMonitor
from tests.plugin.building import gpu, node

FOUR = node(*(gpu(index) for index in range(4)))


class Driver:
    """Cannot answer a probe where `broken` says so, by its number and its GPU."""

    def __init__(self, broken: Callable[[int, str], bool]) -> None:
        self._broken, self._asked = broken, 0

    def probe(self, uuid: str) -> str | None:
        self._asked += 1
        if self._broken(self._asked, uuid):
            raise DriverError("Unknown Error")
        return None

    def scan(self) -> NodeDevices:
        return FOUR

    def events(self, timeout_s: float) -> Iterator[XidEvent]:
        return iter(())

    def close(self) -> None:
        pass


def probed(broken: Callable[[int, str], bool]) -> HealthBook:
    health = HealthBook()
    asyncio.run(HealthMonitor(Driver(broken), health, Metrics()).probe(FOUR))
    return health


def test_a_gpu_that_alone_does_not_answer_is_ill():
    health = probed(lambda asked, uuid: uuid == "GPU-1")

    assert health.suspects == {"GPU-1"}


def test_a_driver_that_breaks_between_two_gpus_takes_none_away():
    health = HealthBook()
    monitor = HealthMonitor(Driver(lambda asked, uuid: asked > 1), health, Metrics())

    with pytest.raises(DriverError):
        asyncio.run(monitor.probe(FOUR))

    assert not health.suspects


def test_a_driver_that_comes_back_between_two_gpus_takes_none_away():
    assert not probed(lambda asked, uuid: asked <= 2).suspects
