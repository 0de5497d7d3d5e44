"""Whom the node's container runtime believes is said before a tenant finds out."""

import asyncio
import logging
import math
import tempfile
from pathlib import Path

import pytest

from plugin.config import ListStrategy, PluginConfig
from plugin.daemon import Daemon
from plugin.devices.fake import FakeSource
from plugin.exposure import (
    ENVIRONMENT_KEY,
    MAX_BYTES,
    MOUNTS_KEY,
    Exposure,
    exposure_notes,
    read_exposure,
)
from plugin.kubelet import KubeletPaths
from plugin.settings import Settings
from topology.presets import preset

FILE = Path("config.toml")
OPEN = "containers without a request see the GPUs"
NOTHING = "do not get the GPUs they are given"


@pytest.mark.parametrize(
    ("text", "environment", "mounts"),
    [
        ("", True, False),
        (f"#{ENVIRONMENT_KEY} = false\n[nvidia-container-runtime]\nmode = 'auto'", True, False),
        (f"{ENVIRONMENT_KEY} = false", False, False),
        (f"{ENVIRONMENT_KEY} = false\n{MOUNTS_KEY} = true", False, True),
        (f"[nvidia-container-runtime]\n{ENVIRONMENT_KEY} = false", True, False),
    ],
    ids=["nothing said", "comments", "closed", "closed for mounts", "in another table"],
)
def test_c22_the_switches_are_read_as_the_toolkit_reads_them(
    tmp_path: Path, text: str, environment: bool, mounts: bool
):
    file = tmp_path / "config.toml"
    file.write_text(text)

    found = read_exposure(file)

    assert (found.environment, found.mounts, found.trouble) == (environment, mounts, "")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, "there is no file"),
        (b"= 1", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (f'{ENVIRONMENT_KEY} = "no"'.encode(), f'{ENVIRONMENT_KEY}: "no" is not true or false'),
        (b"#" * (MAX_BYTES + 1), "is larger than"),
    ],
    ids=["absent", "not TOML", "not text", "not a switch", "too large"],
)
def test_c22_a_file_that_says_nothing_is_said_not_to_be_known(
    tmp_path: Path, raw: bytes | None, why: str
):
    file = tmp_path / "config.toml"
    if raw is not None:
        file.write_bytes(raw)

    found = read_exposure(file)

    assert (found.environment, found.mounts) == (None, None)
    (note,) = exposure_notes(found, PluginConfig())
    assert "it is not known" in note
    assert why in note
    assert str(file) in note


@pytest.mark.parametrize(
    ("strategies", "environment", "mounts", "said"),
    [
        ("envvar", True, False, [OPEN]),
        ("envvar", False, False, [NOTHING]),
        ("volume-mounts", False, False, [NOTHING]),
        ("volume-mounts", True, False, [OPEN, NOTHING]),
        ("volume-mounts", False, True, []),
        ("cdi-cri", False, False, []),
        ("cdi-cri", True, False, [OPEN]),
        ("envvar,cdi-cri", False, False, []),
        ("envvar,volume-mounts", False, True, []),
    ],
)
def test_c22_what_a_node_enforces_is_said_for_each_strategy(
    strategies: str, environment: bool, mounts: bool, said: list[str]
):
    config = PluginConfig(list_strategies=tuple(ListStrategy(one) for one in strategies.split(",")))

    notes = exposure_notes(Exposure(file=FILE, environment=environment, mounts=mounts), config)

    assert len(notes) == len(said)
    assert all(text in note for text, note in zip(said, notes, strict=True))


def test_c22_a_node_that_is_closed_while_the_plugin_runs_is_noticed(
    caplog: pytest.LogCaptureFixture,
):
    async def turns(root: Path) -> list[float]:
        file = root / "config.toml"
        paths = KubeletPaths(plugins=root, registry=root, pod_resources=root / "kubelet.sock")
        config = PluginConfig(list_strategies=(ListStrategy.CDI_CRI,))
        ours = Daemon(
            FakeSource(preset("hgx-h100")),
            lambda: config,
            Settings(paths=paths, runtime_config=file),
        )
        accepted = []
        for text in (None, "", f"{ENVIRONMENT_KEY} = false"):
            if text is not None:
                file.write_text(text)
            await ours.reconcile()
            name = "unstrand_plugin_environment_accepted"
            value = ours.metrics.registry.get_sample_value(name)
            assert value is not None
            accepted.append(value)
        assert ours.remarks == ()
        for endpoint in ours.endpoints.values():
            await endpoint.stop()
        return accepted

    with (
        caplog.at_level(logging.WARNING, "unstrand.plugin"),
        tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder,
    ):
        unknown, is_open, closed = asyncio.run(turns(Path(folder)))
    assert math.isnan(unknown)
    assert (is_open, closed) == (1, 0)
    assert sum("it is not known" in line for line in caplog.messages) == 1
    assert sum(OPEN in line for line in caplog.messages) == 1
