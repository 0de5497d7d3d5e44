"""What is about to be done to a GPU, on disk before it is done: a restart can still undo it.

The only state of the plugin that outlives it. It says in which boot of the node it was written (MIG
instances do not survive one) and carries a checksum; a file that is not whole is moved aside.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("unstrand.plugin")

VERSION = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Slot = tuple[str, int]
"""Profile and start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change of one GPU that has begun.

    Parameters
    ----------
    gpu
        Its UUID.
    destroy
        Instances that are destroyed, and put back where the change fails.
    create
        Instances that are made.
    """

    gpu: str
    destroy: tuple[Slot, ...]
    create: tuple[Slot, ...]


class IntentFile:
    """Keeps the one change that is under way.

    Parameters
    ----------
    boot_id
        File that says which boot of the node this is.
    """

    def __init__(self, path: Path, boot_id: Path = BOOT_ID) -> None:
        self._path, self._boot_id = path, boot_id

    def save(self, intent: Intent) -> None:
        """Write it, whole or not at all.

        Raises
        ------
        OSError
            The folder may not be written.
        """
        body = {
            "version": VERSION,
            "boot": self._boot(),
            "gpu": intent.gpu,
            "destroy": [list(slot) for slot in intent.destroy],
            "create": [list(slot) for slot in intent.create],
        }
        draft = self._path.with_name(f"{self._path.name}.tmp")
        draft.write_text(json.dumps({**body, "checksum": _checksum(body)}), encoding="utf-8")
        draft.replace(self._path)

    def clear(self) -> None:
        """Forget it: the change has come to an end."""
        self._path.unlink(missing_ok=True)

    def load(self) -> Intent | None:
        """What was under way when the plugin ended; None where nothing was. Never raises."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._set_aside(str(error))
            return None
        try:
            said = json.loads(text)
            intent = _intent(said)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._set_aside(str(error) or type(error).__name__)
            return None
        if said["boot"] != self._boot():
            log.info("%s: of another boot of this node; its instances are gone", self._path)
            self._drop()
            return None
        return intent

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return ""

    def _drop(self) -> None:
        try:
            self.clear()
        except OSError as error:
            log.warning("%s: cannot be removed: %s", self._path, error)

    def _set_aside(self, why: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.corrupt")
        log.error("%s: not usable (%s); moved to %s", self._path, why, aside.name)
        try:
            self._path.replace(aside)
        except OSError as error:
            log.error("%s: cannot be moved: %s", self._path, error)


def _intent(said: Any) -> Intent:  # noqa: ANN401 - a file says anything
    if not isinstance(said, Mapping):
        raise TypeError("no object")
    body = {key: value for key, value in said.items() if key != "checksum"}
    if said.get("version") != VERSION:
        raise ValueError(f"version {said.get('version')}, not {VERSION}")
    if said.get("checksum") != _checksum(body):
        raise ValueError("its checksum is wrong")
    return Intent(
        gpu=str(said["gpu"]),
        destroy=tuple((str(profile), int(start)) for profile, start in said["destroy"]),
        create=tuple((str(profile), int(start)) for profile, start in said["create"]),
    )


def _checksum(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
