"""A walk through a plugin's life with the mock kubelet, one line for each step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from plugin.daemon import Daemon
from plugin.mock_kubelet.manager import MockKubelet
from plugin.mock_kubelet.pods import Container, Pod

STEP_TIMEOUT_S = 10.0


async def walk_through(daemon: Daemon, folder: Path, say: Callable[[str], None]) -> None:
    """Register, list, allocate, restart, allocate again, stop.

    Raises
    ------
    TimeoutError
        A step did not come to its end in time.
    """
    kubelet = MockKubelet(folder=folder, say=lambda line: say(f"  kubelet: {line}"))
    folder.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    say("1. the kubelet starts, then the plugin")
    await kubelet.start()
    running = asyncio.create_task(daemon.run(stop))
    await _until(lambda: _settled(daemon, kubelet))
    for note in daemon.remarks:
        if note not in daemon.config.notes:  # those were said before the walk
            say(f"  note: {note}")
    name, count = _largest(kubelet)
    say(f"2. the node has {count} allocatable {name}")
    say(f"3. a pod asks for {min(2, count)} of them")
    await _pod(kubelet, "first", name, min(2, count), say)
    say("4. the kubelet restarts: sockets are deleted, the node is back with nothing")
    await kubelet.restart()
    await _until(lambda: _settled(daemon, kubelet))
    say(f"5. {_largest(kubelet)[1]} allocatable again; the first pod still holds its devices")
    say("6. another pod asks for one")
    await _pod(kubelet, "second", name, 1, say)
    say("7. the plugin stops: its devices are no longer allocatable, pods go on")
    stop.set()
    await running
    await _until(lambda: _largest(kubelet)[1] == 0)
    await kubelet.stop()


async def _pod(
    kubelet: MockKubelet, uid: str, name: str, count: int, say: Callable[[str], None]
) -> None:
    if count == 0:
        say("  nothing to ask for")
        return
    await kubelet.admit(Pod(uid=uid, containers=(Container(name="main", limits={name: count}),)))
    options = (await kubelet.run_options(uid))["main"]
    for key, value in sorted(options["envs"].items()):
        say(f"  {uid} sees {key}={value}")
    for device in options["cdi"]:
        say(f"  {uid} gets CDI device {device}")


def _settled(daemon: Daemon, kubelet: MockKubelet) -> bool:
    allocatable = kubelet.books.capacity(kubelet.clock())[1]
    told = {name: len(e.advertised) for name, e in daemon.endpoints.items()}
    return bool(told) and not daemon.unready and allocatable == told


def _largest(kubelet: MockKubelet) -> tuple[str, int]:
    allocatable = kubelet.books.capacity(kubelet.clock())[1]
    return max(allocatable.items(), key=lambda item: item[1], default=("nothing", 0))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(STEP_TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.02)
