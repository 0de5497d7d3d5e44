"""Where the kubelet is: its folders and sockets, and how to tell one run of it from the next."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from plugin.errors import PluginError
from plugin.names import socket_prefix
from plugin.proto.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc

log = logging.getLogger("unstrand.plugin")

CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0),)
"""Unix sockets have no proxy, whatever the environment says."""

Identity = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPaths:
    """Folders of the kubelet on this node, and our manners towards it.

    Parameters
    ----------
    plugins
        Folder of the plugin sockets, ``kubelet.sock`` among them.
    registry
        Folder of the plugin watcher.
    pod_resources
        Socket of the PodResources service.
    watcher
        Whether the kubelet is to find us in `registry`, instead of us calling it.
    confirm_s
        How often to ask whether the kubelet still has our devices, and how long it may have none
        of them before we register again.
    """

    plugins: Path = Path("/var/lib/kubelet/device-plugins")
    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    watcher: bool = False
    check_interval_s: float = 5.0
    register_timeout_s: float = 10.0
    stream_grace_s: float = 5.0
    confirm_s: float = 10.0
    inotify: bool = True

    @property
    def socket(self) -> Path:
        """Where the kubelet takes registrations."""
        return self.plugins / "kubelet.sock"

    @property
    def ours(self) -> Path:
        """Folder of our own sockets."""
        return self.registry if self.watcher else self.plugins


def identity(path: Path) -> Identity | None:
    """What tells this socket from one made later under the same path; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    # The number of a deleted inode is soon used again, so the time of its making counts too.
    return found.st_dev, found.st_ino, found.st_ctime_ns


async def register(
    paths: KubeletPaths, socket: Path, resource: str, options: api_pb2.DevicePluginOptions
) -> None:
    """Announce a socket to the kubelet, which calls back before it answers.

    Raises
    ------
    grpc.aio.AioRpcError
        The kubelet is not there, or refuses.
    """
    request = api_pb2.RegisterRequest(
        version="v1beta1", endpoint=socket.name, resource_name=resource, options=options
    )
    async with aio.insecure_channel(f"unix:{paths.socket}", options=CHANNEL_OPTIONS) as channel:
        stub: Any = api_pb2_grpc.RegistrationStub(channel)
        await stub.Register(request, timeout=paths.register_timeout_s)


class Ownership:
    """The right to serve a domain on this node: one process at a time.

    A lock on a file in the plugin folder, which the kubelet leaves alone (it deletes sockets only).
    Whoever holds it may remove the sockets that a former holder left behind.
    """

    def __init__(self, folder: Path, domain: str) -> None:
        self._folder, self._domain = folder, domain
        self._path = folder / f".{socket_prefix(domain)}lock"
        self._file: int | None = None

    def take(self) -> bool:
        """Take the lock, or keep it; False while another process has it.

        Raises
        ------
        PluginError
            The folder is not there or may not be written.
        """
        if self._file is not None:
            if self.is_current:
                return True
            self.release()  # the folder was deleted and made anew: so is the lock
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PluginError(self._refusal(error)) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def _refusal(self, error: OSError) -> str:
        """Why the lock cannot be taken, with the way out."""
        if isinstance(error, FileNotFoundError):
            why = (
                "is not there. A kubelet makes it. Does one run on this node, is the folder mounted"
            )
            return f"{self._folder} {why}, is its root another one (--kubelet-dir)?"
        if isinstance(error, PermissionError):
            why = f"may not be written by user {os.geteuid()}. The kubelet's folders are root's"
            return f"the kubelet's plugin folder {self._folder} {why}"
        return f"{self._path}: {error.strerror or error}"

    @property
    def is_current(self) -> bool:
        """Whether the lock we hold is the one that others would try to take."""
        if self._file is None:
            return False
        with contextlib.suppress(OSError):
            return self._path.stat().st_ino == os.fstat(self._file).st_ino
        return False

    def release(self) -> None:
        """Let the next process in."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def sweep(self) -> tuple[Path, ...]:
        """Remove sockets of this domain that nobody serves any more; only with the lock held."""
        swept = []
        for path in sorted(self._folder.glob(f"{socket_prefix(self._domain)}*.sock")):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
                    swept.append(path)
        return tuple(swept)


@dataclass(slots=True)
class FolderWatch:
    """Waits until something happens in a folder, or for a while: inotify where there is, else time.

    Every wait has an end, so a missed event, a remounted folder or a system without inotify only
    costs time.
    """

    folder: Path
    interval_s: float
    inotify: bool = True
    _watch: Any = None
    _seen: tuple[int, int] | None = None
    _event: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Return after an event in the folder (or soon after several), at the latest in time."""
        self._attach()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.interval_s):
                await self._event.wait()
        self._event.clear()

    def _attach(self) -> None:
        if not self.inotify:
            return
        try:
            found = self.folder.stat()
        except OSError:
            self.close()
            self._seen = None
            return
        here = (found.st_dev, found.st_ino)
        if self._watch is not None and here == self._seen:
            return
        self.close()
        try:
            from inotify_simple import INotify, flags

            watch = INotify(nonblocking=True)
            wanted = flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.DELETE_SELF
            watch.add_watch(str(self.folder), wanted | flags.MOVE_SELF)
            asyncio.get_running_loop().add_reader(watch.fileno(), self._arrived)
        except (ImportError, OSError) as error:
            log.warning("no inotify (%s): looking every %g s instead", error, self.interval_s)
            self.inotify = False
            return
        self._watch, self._seen = watch, here

    def _arrived(self) -> None:
        try:
            self._watch.read(timeout=0)
        except (OSError, ValueError):
            self._seen = None
        self._event.set()

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                asyncio.get_running_loop().remove_reader(self._watch.fileno())
            with contextlib.suppress(OSError):
                self._watch.close()
            self._watch = None


def reason_of(error: BaseException) -> str:
    """Why a call to the kubelet failed, on one line."""
    if isinstance(error, grpc.RpcError):
        details = getattr(error, "details", lambda: "")() or ""
        code = getattr(error, "code", lambda: None)()
        return f"{code.name if code else 'error'}: {' '.join(str(details).split())}"
    return " ".join(str(error).split()) or type(error).__name__
