"""Each story runs with the mock kubelet and with the kubelet's own device manager."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.kubelet.driver import Kubelet, Loop, MockedKubelet, Plugin, RealKubelet
from tests.kubelet.driver import why_no_real_kubelet as _why

why_no_real_kubelet = cache(_why)


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: a socket's has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))
    (folder / "device-plugins").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["mock", "real"])
def kubelet(request: pytest.FixtureRequest, root: Path, loop: Loop) -> Iterator[Kubelet]:
    """A kubelet that has not started yet."""
    if request.param == "real" and (why := why_no_real_kubelet()):
        pytest.skip(why)
    kubelet = MockedKubelet(root, loop) if request.param == "mock" else RealKubelet(root)
    yield kubelet
    kubelet.close()


@pytest.fixture
def mock(root: Path, loop: Loop) -> Iterator[MockedKubelet]:
    kubelet = MockedKubelet(root, loop)
    yield kubelet
    kubelet.close()


@pytest.fixture
def plugin(root: Path, loop: Loop) -> Iterator[Callable[..., Plugin]]:
    """Starts plugins on the folder of the test; they end with it."""
    started: list[Plugin] = []

    def start(**options: Any) -> Plugin:
        started.append(Plugin(loop, root, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()
