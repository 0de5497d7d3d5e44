"""The CDI spec: whole or not at all, and only what is there."""

import json
from dataclasses import replace
from pathlib import Path

from plugin.cdi import FILE, CdiFolder
from plugin.config import ListStrategy
from tests.plugin.building import DEFAULTS, gpu, node

CDI = replace(DEFAULTS, list_strategies=(ListStrategy.CDI_CRI,), driver_root="/run/nvidia/driver")


def test_every_gpu_and_instance_is_a_device(tmp_path: Path):
    CdiFolder(tmp_path / "cdi").write(node(gpu(0), gpu(1, "1g.10gb")), CDI)

    spec = json.loads((tmp_path / "cdi" / FILE).read_text())
    assert spec["kind"] == "k8s.device-plugin.nvidia.com/gpu"
    assert [device["name"] for device in spec["devices"]] == ["GPU-0", "GPU-1", "MIG-1-1"]
    path = spec["devices"][0]["containerEdits"]["deviceNodes"][0]
    assert path == {"path": "/dev/nvidia0", "hostPath": "/run/nvidia/driver/dev/nvidia0"}
    assert [one.name for one in (tmp_path / "cdi").iterdir()] == [FILE]


def test_it_is_written_again_only_when_it_changes(tmp_path: Path):
    folder = CdiFolder(tmp_path)
    folder.write(node(gpu(0)), CDI)
    before = (tmp_path / FILE).stat().st_ino

    folder.write(node(gpu(0)), CDI)
    same = (tmp_path / FILE).stat().st_ino
    folder.write(node(gpu(0), gpu(1)), CDI)

    assert same == before != (tmp_path / FILE).stat().st_ino


def test_nothing_is_written_where_no_strategy_needs_it(tmp_path: Path):
    CdiFolder(tmp_path).write(node(gpu(0)), DEFAULTS)

    assert list(tmp_path.iterdir()) == []
