"""What the plugin's verbs share: where GPUs and config come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugin.config import PluginConfig
    from plugin.devices.base import DeviceSource

MAX_CONFIG_BYTES = 2**20
"""A ConfigMap cannot be larger."""


def need_extra() -> None:
    """Refuse to serve where the optional packages are not installed.

    Raises
    ------
    typer.BadParameter
        One is missing; the way out is named.
    """
    from importlib.util import find_spec

    import typer

    missing = [name for name in ("grpc", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise typer.BadParameter(
            f"plugin serve needs {' and '.join(missing)}: pip install 'unstrand[plugin]'"
        )


def device_source(
    fake: str | None, state: Path | None = None, *, once: bool = False
) -> DeviceSource:
    """GPUs of this node, or those of a preset or capture.

    Parameters
    ----------
    once
        Whether nobody will read the state file again: it has to be right now.

    Raises
    ------
    TopologyError
        No preset has that name, or the file is no capture.
    typer.BadParameter
        There are no fake GPUs for the state file.
    StateError
        The state file is wrong.
    OSError
        It cannot be read.
    """
    if state is not None:
        _check_state(state, fake, once=once)
    if fake is not None:
        from commands.topology import load_topology
        from plugin.devices.fake import FakeSource

        return FakeSource(load_topology(fake)[0], state)
    from plugin.devices.nvml import NvmlSource

    return NvmlSource()


def _check_state(state: Path, fake: str | None, *, once: bool) -> None:
    import typer

    from plugin.devices.fake_state import read_state

    if fake is None:
        text = "it says what is wrong with fake GPUs: --fake names them"
        raise typer.BadParameter(text, param_hint="--fake-state")
    if once or state.exists():  # else it may come later
        read_state(state)


def runtime_config_file(given: Path | None, fake: str | None) -> Path | None:
    """Config of the container runtime to look at: this node's says nothing about fake GPUs."""
    from plugin.exposure import RUNTIME_CONFIG

    if given is not None:
        return given
    return RUNTIME_CONFIG if fake is None else None


def config_loader(
    file: Path | None, domain: str, options: Mapping[str, Any]
) -> Callable[[], PluginConfig]:
    """Make the function that reads the config: file, environment over it, options over both."""

    def load() -> PluginConfig:
        from plugin.config import PluginConfig

        return replace(read_config_file(file, options, PluginConfig(domain=domain)))

    return load


def read_config_file(
    file: Path | None, options: Mapping[str, Any], base: PluginConfig
) -> PluginConfig:
    """Read a config file with environment and options over it.

    Raises
    ------
    SpecErrors
        Every fault with file, line and column; faults of the environment or options name those.
    """
    from plugin.config_file import ConfigErrors, read_config
    from plugin.environment import from_environment, merged, set_at
    from specs.document import parse_document
    from specs.errors import SpecErrors, SpecFault
    from specs.reading import read_bounded

    document = None
    if file is not None:
        raw = read_bounded(file, MAX_CONFIG_BYTES).decode("utf-8", "replace")
        document = parse_document(raw, str(file), "A config begins with version: v1")
        if document.faults:
            raise SpecErrors(document.faults)
    over = merged(from_environment(os.environ), options)
    try:
        return read_config(merged(document.data if document else {}, over), base)
    except ConfigErrors as errors:
        faults = []
        for fault in errors.faults:
            path = tuple(fault.path)
            ours = document is None or set_at(over, path)
            place = None if ours or document is None else document.place(path, key=True)
            faults.append(
                SpecFault(
                    file="environment or options" if ours else str(file),
                    line=place.line if place else 1,
                    column=place.column if place else 1,
                    path=".".join(str(step) for step in path),
                    rule=fault.rule,
                    hint=fault.hint,
                )
            )
        raise SpecErrors(faults) from errors


def file_stamp(file: Path | None) -> object:
    """What changes with a file's content, also where a ConfigMap swaps the link to its folder."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
