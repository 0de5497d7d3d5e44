"""Node labels in the words of GPU feature discovery."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.config import MigStrategy, PluginConfig, Sharing
from plugin.devices.base import NodeDevices
from plugin.labels import label_value, labels
from tests.plugin.building import DEFAULTS, gpu, node

LEGAL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def told(config: PluginConfig, devices: NodeDevices, **rest: object) -> dict[str, str]:
    found = labels(devices, config, **rest)
    return {key.removeprefix("nvidia.com/"): value for key, value in found.items()}


def test_a_node_of_whole_gpus():
    found = told(DEFAULTS, node(gpu(0), gpu(1)), machine="DGX H100", now=7)

    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert found["gpu.count"] == "2"
    assert found["gpu.memory"] == "81559"
    assert found["gpu.family"] == "hopper"
    assert found["gpu.replicas"] == "1"
    assert found["gpu.machine"] == "DGX-H100"
    assert found["gfd.timestamp"] == "7"
    assert found["mig.capable"] == "true"
    assert "mig.strategy" not in found
    assert found["unstrand.io/nvlink.islands"] == "1x8"


@pytest.mark.parametrize(("rename", "product"), [(False, "-SHARED"), (True, "HBM3")])
def test_a_shared_product_says_so_unless_the_resource_does(rename: bool, product: str):
    sharing = Sharing(suffix="gpu", replicas=4, rename_by_default=rename)

    found = told(replace(DEFAULTS, sharing=(sharing,)), node(gpu(0)))

    assert found["gpu.product"].endswith(product)
    assert found["gpu.replicas"] == "4"
    assert found["gpu.sharing-strategy"] == "time-slicing"


def test_mixed_has_a_set_of_keys_for_each_profile():
    config = replace(DEFAULTS, mig_strategy=MigStrategy.MIXED)

    found = told(config, node(gpu(0, "1g.10gb", "1g.10gb", "3g.40gb", "1g.10gb+me"), gpu(1)))

    assert found["mig.strategy"] == "mixed"
    assert found["mig-1g.10gb.count"] == "2"
    assert found["mig-3g.40gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"
    assert found["mig-1g.10gb.me.count"] == "1"
    assert found["gpu.count"] == "2"
    assert not any("+" in key for key in found)


def test_single_calls_instances_gpus_and_an_odd_layout_invalid():
    config = replace(DEFAULTS, mig_strategy=MigStrategy.SINGLE)

    alike = told(config, node(gpu(0, "3g.40gb", "3g.40gb")))
    odd = told(config, node(gpu(0, "3g.40gb"), gpu(1, "1g.10gb")))

    assert (alike["gpu.count"], alike["gpu.product"][-7:]) == ("2", "3g.40gb")
    assert odd["gpu.product"].endswith("-MIG-INVALID")
    assert (odd["gpu.count"], odd["gpu.replicas"], odd["gpu.memory"]) == ("0", "0", "0")


def test_a_node_without_gpus_has_no_labels_of_gpus():
    assert told(DEFAULTS, node()) == {}


@given(st.text(max_size=100))
def test_every_value_is_a_legal_label_value(text: str):
    value = label_value(text)

    assert LEGAL.fullmatch(value)
    assert len(value) <= 63
