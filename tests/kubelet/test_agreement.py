"""The mock kubelet is worth something only as long as the real one says the same."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kubelet import test_stories
from tests.kubelet.conftest import why_no_real_kubelet
from tests.kubelet.driver import (
    GPU,
    Kubelet,
    Loop,
    MockedKubelet,
    Plugin,
    RealKubelet,
    RefusedError,
    eventually,
)


def test_7_8_every_story_is_told_to_whichever_kubelet_there_is():
    stories = {
        name: told
        for name, told in vars(test_stories).items()
        if name.startswith("test_") and inspect.isfunction(told)
    }

    assert len(stories) > 30
    for name, told in stories.items():
        assert "kubelet" in inspect.signature(told).parameters, name
        assert not {"mock", "MockedKubelet"} & set(told.__code__.co_names), name


def test_7_8_the_mock_and_the_real_kubelet_give_the_same_answers(tmp_path: Path, loop: Loop):
    if why := why_no_real_kubelet("1.36"):
        pytest.skip(why)

    mocked = transcript(lambda root: MockedKubelet(root, loop), loop)
    real = transcript(RealKubelet, loop)

    assert mocked == real


def transcript(kubelet_at: Callable[[Path], Kubelet], loop: Loop) -> list[tuple[str, Any]]:
    """A day of a node, with what the kubelet answered to each step."""
    import tempfile

    said: list[tuple[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as folder:
        root = Path(folder)
        (root / "device-plugins").mkdir()
        kubelet = kubelet_at(root)

        def admitted(uid: str, *containers: dict[str, int], **rest: Any) -> None:
            try:
                said.append((uid, kubelet.admit(uid, *containers, **rest)))
            except RefusedError as error:
                said.append((uid, str(error).rpartition("due to ")[2]))

        def counted(what: str) -> None:
            said.append((what, (kubelet.capacity(), kubelet.allocatable())))

        kubelet.do("start")
        counted("before a plugin")
        ours = Plugin(loop, root, fake="a100-pcie-pairs-8")
        try:
            eventually(lambda: kubelet.allocatable() == 8)
            counted("registered")
            admitted("single", {GPU: 1})
            admitted("pair", {GPU: 2})
            admitted("two containers", {GPU: 1}, {GPU: 2})
            admitted("too many", {GPU: 3})
            said.append(("health", kubelet.do("health", uid="pair")))
            said.append(("told", kubelet.told("pair")["envs"]))
            kubelet.do("restart")
            eventually(lambda: kubelet.allocatable() == 8)
            admitted("after a restart", {GPU: 3})
            kubelet.do("remove_pod", uid="single")
            kubelet.do("remove_pod", uid="pair")
            admitted("with an init container", {GPU: 3}, init=({GPU: 1},))
            ours.state.set(lost=[7])
            eventually(lambda: kubelet.allocatable() == 7)
            counted("a GPU is lost")
            ours.stop()
            eventually(lambda: kubelet.allocatable() == 0)
            counted("the plugin has left")
            admitted("too late", {GPU: 1})
            ours.start()
        finally:
            ours.stop()
            kubelet.close()
    return said
