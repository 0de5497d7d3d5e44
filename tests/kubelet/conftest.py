"""Each story runs with the mock kubelet and with the kubelet's own device manager."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from plugin.mock_kubelet.registrations import Duplicates
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


@pytest.fixture(
    params=[
        "mock",
        "real",
        pytest.param("mock-by-path", marks=pytest.mark.slow),
        pytest.param("real-1.37", marks=pytest.mark.slow),
    ]
)
def kubelet(request: pytest.FixtureRequest, root: Path, loop: Loop) -> Iterator[Kubelet]:
    """A kubelet that has not started yet: the mock or the real one, of 1.36 and of 1.37."""
    kind, _, version = request.param.partition("-")
    if kind == "real" and (why := why_no_real_kubelet(version or "1.36")):
        pytest.skip(why)
    if kind == "real":
        kubelet: Kubelet = RealKubelet(root, version or "1.36")
    else:
        kubelet = MockedKubelet(root, loop, Duplicates(version or "by-name"))
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
