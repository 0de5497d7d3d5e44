"""What the node's container runtime lets containers take for themselves.

The plugin says which GPUs a container gets; the runtime of NVIDIA's container toolkit decides whom
it believes. Two switches of its config file matter: whether the variable ``NVIDIA_VISIBLE_DEVICES``
counts when an unprivileged container sets it (then any image that does sees GPUs nobody gave it),
and whether mounts below ``/var/run/nvidia-container-devices`` count, which are asked first.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugin.config import ListStrategy, PluginConfig

RUNTIME_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
ENVIRONMENT_KEY = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS_KEY = "accept-nvidia-visible-devices-as-volume-mounts"
DEFAULTS = {ENVIRONMENT_KEY: True, MOUNTS_KEY: False}
"""What the toolkit does where its file does not say."""

MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Whom the runtime of a node believes; None where it is not known.

    Parameters
    ----------
    file
        The runtime's config file.
    environment
        Whether ``NVIDIA_VISIBLE_DEVICES`` of an unprivileged container counts.
    mounts
        Whether the device list counts that is given as mounts.
    trouble
        Why it is not known; empty where it is.
    """

    file: Path
    environment: bool | None = None
    mounts: bool | None = None
    trouble: str = ""

    def describe(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "file": str(self.file),
            "environment": self.environment,
            "mounts": self.mounts,
            "trouble": self.trouble or None,
        }


def read_exposure(file: Path = RUNTIME_CONFIG) -> Exposure:
    """Read the switches from a runtime's config file; never raises.

    A file that is absent says nothing: the toolkit's defaults may hold, or the file is not mounted
    into this container, or another runtime is used.
    """
    if not file.is_file():
        return Exposure(file=file, trouble=f"there is no file {file}")
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            return Exposure(file=file, trouble=f"{file} is larger than {MAX_BYTES} bytes")
        said = tomllib.loads(raw.decode("utf-8"))
    except (OSError, ValueError) as error:
        return Exposure(file=file, trouble=f"{file} cannot be read: {error}")
    switches = {key: said.get(key, default) for key, default in DEFAULTS.items()}
    for key, value in switches.items():
        if not isinstance(value, bool):
            return Exposure(file=file, trouble=f'{file}: {key}: "{value}" is not true or false')
    return Exposure(file=file, environment=switches[ENVIRONMENT_KEY], mounts=switches[MOUNTS_KEY])


def exposure_notes(exposure: Exposure, config: PluginConfig) -> tuple[str, ...]:
    """What an operator should know: who can take GPUs without a request, and who gets none.

    A CDI strategy reaches the container whatever the switches say, so nothing is said about the
    others then.
    """
    if exposure.trouble:
        return (
            "it is not known whether containers can take GPUs without a request: "
            f"{exposure.trouble}. Name the runtime's config file with --runtime-config",
        )
    notes = []
    if exposure.environment:
        notes.append(
            "containers without a request see the GPUs that their image names in "
            f"NVIDIA_VISIBLE_DEVICES: {ENVIRONMENT_KEY} is true in {exposure.file}. "
            "Set it to false, with deviceListStrategy cdi-cri or volume-mounts"
        )
    strategies = config.list_strategies
    if any(strategy.is_cdi for strategy in strategies):
        return tuple(notes)
    if ListStrategy.VOLUME_MOUNTS in strategies:
        if not exposure.mounts:
            notes.append(
                "containers do not get the GPUs they are given: deviceListStrategy is "
                f"volume-mounts, and {MOUNTS_KEY} is false in {exposure.file}. "
                "Set it to true, or use cdi-cri"
            )
    elif not exposure.environment:
        notes.append(
            "unprivileged containers do not get the GPUs they are given: deviceListStrategy is "
            f"envvar, and {ENVIRONMENT_KEY} is false in {exposure.file}. "
            "Use cdi-cri or volume-mounts"
        )
    return tuple(notes)
