"""MPS shares: the daemon's limits, and what happens without it."""

from dataclasses import replace
from pathlib import Path

from plugin.mps import control_commands, daemon_trouble
from tests.plugin.building import DEFAULTS, whole


def test_each_client_gets_its_part():
    assert control_commands(whole(2, 4, mps=True)) == (
        "set_default_device_pinned_mem_limit 0 20389M",
        "set_default_device_pinned_mem_limit 1 20389M",
        "set_default_active_thread_percentage 25",
    )
    assert control_commands(whole(2, 4)) == ()


def test_a_missing_daemon_is_trouble_of_mps_only(tmp_path: Path):
    config = replace(DEFAULTS, mps_root=str(tmp_path))
    shared = whole(1, 2, mps=True)

    assert "MPS daemon is not there" in (daemon_trouble(shared, config) or "")
    assert daemon_trouble(whole(1, 2), config) is None
    (tmp_path / "gpu" / "pipe").mkdir(parents=True)
    (tmp_path / "gpu" / "pipe" / "control").touch()
    assert daemon_trouble(shared, config) is None
