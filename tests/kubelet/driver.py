"""Kubelets and plugins for stories: the mock one, the real device manager, and ours."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from commands.plugin_setup import config_loader, file_stamp
from plugin.cdi import CdiFolder
from plugin.daemon import Daemon
from plugin.devices.fake import FakeSource
from plugin.geometry import GeometryTask
from plugin.health import HealthBook
from plugin.kubelet import KubeletPaths
from plugin.mock_kubelet.__main__ import do
from plugin.mock_kubelet.manager import MockKubelet
from plugin.mock_kubelet.registrations import Duplicates
from plugin.settings import Settings
from topology.presets import preset

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).parent / "harness"
BINARIES = {"1.36": HARNESS / "build" / "kubelet", "1.37": HARNESS / "build" / "kubelet-137"}
GPU = "nvidia.com/gpu"


class RefusedError(Exception):
    """The kubelet's answer to a command is an error."""


class Loop:
    """One event loop in a thread of its own: the plugin and the mock kubelet live on it."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, Any], within_s: float = 30.0) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(within_s)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class Kubelet:
    """What stories ask of a kubelet, whichever it is."""

    kind = ""

    def __init__(self, root: Path):
        self.root = root
        self.plugins = root / "device-plugins"

    def do(self, op: str, **rest: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def allocatable(self, resource: str = GPU) -> int | None:
        """None where the node does not know the resource."""
        return self.do("capacity")["allocatable"].get(resource)

    def capacity(self, resource: str = GPU) -> int | None:
        return self.do("capacity")["capacity"].get(resource)

    def admit(
        self, uid: str, *containers: dict[str, int], init: tuple[dict[str, int], ...] = ()
    ) -> dict[str, dict[str, list[str]]]:
        """IDs by container (``c0``, ``c1``, …; ``i0`` for init containers) and resource."""
        pod = {
            "uid": uid,
            "containers": [{"name": f"c{n}", "limits": c} for n, c in enumerate(containers)],
            "init_containers": [{"name": f"i{n}", "limits": c} for n, c in enumerate(init)],
        }
        return self.do("admit", pod=pod)

    def told(self, uid: str, container: str = "c0") -> dict[str, Any]:
        """What the runtime is told; lists are never None."""
        options = self.do("run_options", uid=uid)[container]
        return {key: value if value is not None else [] for key, value in options.items()}

    def our_sockets(self) -> list[str]:
        return [name for name in self.do("sockets") if name.startswith("unstrand_")]


class MockedKubelet(Kubelet):
    kind = "mock"

    def __init__(self, root: Path, loop: Loop, duplicates: Duplicates = Duplicates.BY_NAME):
        super().__init__(root)
        self._loop = loop
        self.kubelet = MockKubelet(
            folder=self.plugins,
            duplicates=duplicates,
            pod_resources=root / "pod-resources" / "kubelet.sock",
            registry=root / "plugins_registry",
        )

    def do(self, op: str, **rest: Any) -> Any:
        try:
            return self._loop.call(do(self.kubelet, {"op": op, **rest}))
        except Exception as error:
            raise RefusedError(str(error)) from error

    def close(self) -> None:
        self._loop.call(self.kubelet.stop())


class RealKubelet(Kubelet):
    """The kubelet's own device manager in a Go program.

    It fixes its path, so the folder is mounted there in a namespace of its own.
    """

    kind = "real"

    def __init__(self, root: Path, version: str = "1.36"):
        super().__init__(root)
        script = (
            "mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && "
            'mount --bind "$1" /var/lib/kubelet && exec "$2"'
        )
        self._log = (root / "kubelet.log").open("ab")
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, "sh", str(root), str(BINARIES[version])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def do(self, op: str, **rest: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **rest}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the kubelet is gone:\n{(self.root / 'kubelet.log').read_text()[-2000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._log.close()


def why_no_real_kubelet(version: str) -> str:
    """Why the real device manager cannot run here; empty where it can."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "needs root and unshare: the device manager's path is fixed"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        return "mount namespaces are not allowed here"
    binary = BINARIES[version]
    newest = max(source.stat().st_mtime for source in HARNESS.glob("*.*"))
    if binary.exists() and binary.stat().st_mtime >= newest:
        return ""
    built = "is older than its sources" if binary.exists() else "is not built"
    return f"the Go program of {version} {built}: docs/plugin.md says how"


class State:
    """The file that says what goes wrong with the fake GPUs."""

    def __init__(self, root: Path):
        self.file = root / "fake.json"

    def set(self, **state: Any) -> None:
        draft = self.file.with_suffix(".new")
        draft.write_text(json.dumps(state))
        draft.replace(self.file)


class Plugin:
    """Our plugin on the loop of the tests, as ``plugin serve`` puts it together."""

    def __init__(
        self,
        loop: Loop,
        root: Path,
        *,
        fake: str = "hgx-h100",
        config: dict[str, Any] | None = None,
        config_file: Path | None = None,
        inotify: bool = True,
        watcher: bool = False,
        geometry: Path | None = None,
        pre_start: bool = False,
        check_interval_s: float = 0.1,
        stream_grace_s: float = 0.5,
        register_timeout_s: float = 10.0,
        confirm_s: float = 10.0,
    ):
        self._loop = loop
        self.state = State(root)
        self.source = FakeSource(preset(fake), self.state.file)
        paths = KubeletPaths(
            plugins=root / "device-plugins",
            registry=root / "plugins_registry",
            pod_resources=root / "pod-resources" / "kubelet.sock",
            watcher=watcher,
            inotify=inotify,
            check_interval_s=check_interval_s,
            stream_grace_s=stream_grace_s,
            register_timeout_s=register_timeout_s,
            confirm_s=confirm_s,
        )
        paths.ours.mkdir(parents=True, exist_ok=True)
        settings = Settings(
            paths=paths,
            rescan_s=0.15,
            probe_s=0.05,
            busy_s=0.15,
            config_poll_s=0.05,
            pre_start=pre_start,
        )
        task = geometry and GeometryTask(self.source, geometry, root / "geometry.state")
        self._make = lambda: Daemon(
            self.source,
            config_loader(config_file, "nvidia.com", config or {}),
            settings,
            config_stamp=lambda: file_stamp(config_file),
            health=HealthBook(hold_down_s=0.2),
            cdi=CdiFolder(root / "cdi"),
            geometry=task or None,
        )
        self.start()

    def start(self) -> None:
        async def begin() -> None:
            self.daemon = self._make()
            self._stop = asyncio.Event()
            self._running = asyncio.create_task(self.daemon.run(self._stop))

        self._loop.call(begin())

    def stop(self) -> None:
        async def end() -> None:
            self._stop.set()
            await self._running

        self._loop.call(end())

    def configured(self, **changes: Any) -> None:
        async def change() -> None:
            self.daemon.config = replace(self.daemon.config, **changes)
            self.daemon.changed()

        self._loop.call(change())

    def uuid(self, index: int) -> str:
        return self.source.uuid(index)


class PluginProcess:
    """``plugin serve`` as a process, to be killed."""

    def __init__(self, root: Path, *options: str, fake: str = "hgx-h100"):
        self.log = root / "plugin.log"
        command = [sys.executable, str(ROOT / "cli.py"), "plugin", "serve", "--fake", fake]
        command += ["--kubelet-dir", str(root), "--cdi-dir", str(root / "cdi")]
        command += ["--check-interval", "0.5", *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(15)


def eventually(condition: Callable[[], object], within_s: float = 10.0) -> float:
    """Wait until it holds; seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, f"not within {within_s} s"
        time.sleep(0.005)
    return time.monotonic() - began
