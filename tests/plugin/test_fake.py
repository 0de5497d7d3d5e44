"""GPUs that are not there look like those of their preset."""

import pytest

from plugin.config import PluginConfig
from plugin.devices.fake import FakeSource
from plugin.labels import labels
from topology.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_a_node(name: str):
    topology = preset(name)

    node = FakeSource(topology).scan()

    assert len(node.gpus) == topology.n_gpus
    assert len({gpu.uuid for gpu in node.gpus}) == topology.n_gpus
    assert [gpu.memory_mib for gpu in node.gpus] == list(topology.gpu_memory_mib)


@pytest.mark.parametrize(
    ("name", "family"),
    [("l4", "ada-lovelace"), ("t4", "turing"), ("hgx-h200", "hopper"), ("hgx-b200", "blackwell")],
)
def test_its_labels_name_the_right_architecture(name: str, family: str):
    found = labels(FakeSource(preset(name)).scan(), PluginConfig())

    assert found["nvidia.com/gpu.family"] == family
