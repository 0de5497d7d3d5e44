"""``plugin serve``: the process around the daemon, and the walk-through with a mock kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from plugin.daemon import Daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of ``plugin serve``."""

    fake: str | None
    fake_state: Path | None
    config_file: Path | None
    domain: str
    over: Mapping[str, Any]
    geometry: Path | None
    node_name: str | None
    kubelet_dir: Path
    watcher: bool
    cdi_dir: Path
    http: tuple[str, int]
    check_interval_s: float
    inotify: bool
    rescan_s: float
    probe_s: float
    hold_down_s: float
    pre_start: bool
    runtime_config: Path | None = None


def daemon_of(wishes: Wishes) -> Daemon:
    """Put the daemon together.

    Raises
    ------
    SpecErrors
        The config file is wrong: a process that starts with a wrong config would hide that.
    """
    import os

    from commands.plugin_setup import config_loader, device_source, file_stamp
    from plugin.cdi import CdiFolder
    from plugin.daemon import Daemon
    from plugin.geometry import GeometryTask
    from plugin.health import HealthBook
    from plugin.kubelet import KubeletPaths
    from plugin.settings import Settings
    from plugin.xids import XidPolicy

    source = device_source(wishes.fake, wishes.fake_state)
    paths = KubeletPaths(
        plugins=wishes.kubelet_dir / "device-plugins",
        registry=wishes.kubelet_dir / "plugins_registry",
        pod_resources=wishes.kubelet_dir / "pod-resources" / "kubelet.sock",
        watcher=wishes.watcher,
        check_interval_s=wishes.check_interval_s,
        inotify=wishes.inotify,
    )
    task = None
    if wishes.geometry is not None:
        state = paths.ours / ".unstrand_geometry.json"
        task = GeometryTask(source, wishes.geometry, state, wishes.node_name)  # type: ignore[arg-type]
    file = wishes.config_file
    return Daemon(
        source,
        config_loader(file, wishes.domain, wishes.over),
        Settings(
            paths=paths,
            rescan_s=wishes.rescan_s,
            probe_s=wishes.probe_s,
            config_poll_s=min(2.0, wishes.check_interval_s),
            pre_start=wishes.pre_start,
            runtime_config=wishes.runtime_config,
        ),
        config_stamp=lambda: file_stamp(file),
        health=HealthBook(
            policy=XidPolicy.from_environment(os.environ), hold_down_s=wishes.hold_down_s
        ),
        cdi=CdiFolder(wishes.cdi_dir),
        geometry=task,
    )


def run(wishes: Wishes) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP loads the config again."""
    from plugin.status import StatusServer

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )

    async def serve() -> None:
        daemon = daemon_of(wishes)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: _reload(daemon))
        for note in daemon.config.notes:
            logging.getLogger("unstrand.plugin").warning("%s", note)
        host, port = wishes.http
        status = StatusServer(daemon.metrics, lambda: daemon.unready, lambda: daemon.remarks)
        async with status.listening(host, port):
            await daemon.run(stop)

    asyncio.run(serve())


def _reload(daemon: Daemon) -> None:
    try:
        daemon.reload()
    except Exception as error:
        logging.getLogger("unstrand.plugin").error("config stays as it is: %s", error)


def walk(wishes: Wishes) -> None:
    """Show a kubelet's calls, one after the other, against a mock one in a folder of its own."""
    from plugin.mock_kubelet.walk import walk_through

    logging.basicConfig(level=logging.CRITICAL)
    # A socket's path is short, so the folder is not where a long TMPDIR would put it.
    with tempfile.TemporaryDirectory(prefix="unstrand-", dir="/tmp") as folder:
        root = Path(folder)
        daemon = daemon_of(replace(wishes, kubelet_dir=root, cdi_dir=root / "cdi"))
        for note in daemon.config.notes:
            typer.echo(f"note: {note}", err=True)

        def say(line: str) -> None:
            # A reader that has left (``| head``) must not stop the kubelet in mid-sentence.
            with contextlib.suppress(BrokenPipeError):
                typer.echo(line)

        asyncio.run(walk_through(daemon, root / "device-plugins", say))
