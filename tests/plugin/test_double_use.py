"""A GPU that is given out twice is said, with who holds it."""

import asyncio
import logging
import tempfile
from pathlib import Path

import pytest

from plugin import daemon as daemon_module
from plugin.config import PluginConfig
from plugin.daemon import Daemon, Settings
from plugin.devices.fake import FakeSource
from plugin.double_use import double_uses
from plugin.kubelet import KubeletPaths
from plugin.pod_resources import Holding, by_resource
from tests.plugin.building import gpu, node
from topology.presets import preset

NODE = node(gpu(0), gpu(1, "1g.10gb", "2g.20gb"))


def held(pod: str, device: str, resource: str = "nvidia.com/gpu") -> Holding:
    return Holding(pod=f"default/{pod}", resource=resource, device=device)


@pytest.mark.parametrize(
    "holdings",
    [
        pytest.param([held("a", "GPU-0"), held("b", "GPU-0")], id="one ID in two pods"),
        pytest.param([held("a", "GPU-0::1"), held("b", "GPU-0::1")], id="one share in two pods"),
        pytest.param(
            [held("a", "GPU-0::0"), held("b", "GPU-0::1", "nvidia.com/gpu.shared")],
            id="two resources",
        ),
        pytest.param([held("a", "GPU-0"), held("b", "GPU-0::0")], id="whole and in shares"),
    ],
)
def test_c12_a_gpu_in_use_twice_is_reported_with_its_holders(holdings: list[Holding]):
    (line,) = double_uses(holdings, NODE)

    assert line.startswith("GPU 0 (GPU-0) is in use twice: ")
    for one in holdings:
        assert f"{one.pod} holds {one.device} as {one.resource}" in line


def test_c12_a_gpu_held_whole_beside_its_instance_is_in_use_twice():
    holdings = [held("a", "GPU-1"), held("b", "MIG-1-1", "nvidia.com/mig-1g.10gb")]

    (line,) = double_uses(holdings, NODE)

    assert line.startswith("GPU 1 ")


@pytest.mark.parametrize(
    "holdings",
    [
        pytest.param([], id="nothing"),
        pytest.param([held("a", "GPU-0::0"), held("b", "GPU-0::1")], id="two shares"),
        pytest.param(
            [
                held("a", "MIG-1-1", "nvidia.com/mig-1g.10gb"),
                held("b", "MIG-1-2", "nvidia.com/mig-2g.20gb"),
            ],
            id="two instances",
        ),
        pytest.param([held("a", "GPU-0"), held("a", "GPU-0")], id="handed on inside a pod"),
        pytest.param([held("a", "nic0", "rdma/x"), held("b", "nic0", "rdma/x")], id="no GPU"),
    ],
)
def test_what_sharing_is_for_is_not_reported(holdings: list[Holding]):
    assert double_uses(holdings, NODE) == ()


def test_holdings_are_known_by_resource():
    holdings = (held("a", "GPU-0"), held("b", "GPU-1"), held("b", "nic0", "rdma/x"))

    assert by_resource(holdings) == {"nvidia.com/gpu": {"GPU-0", "GPU-1"}, "rdma/x": {"nic0"}}


def test_c12_the_daemon_says_it_once_and_counts_it_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    source = FakeSource(preset("hgx-h100"))
    uuid = source.scan().gpus[3].uuid
    told: list[tuple[Holding, ...]] = [(held("a", uuid), held("b", uuid))] * 2 + [()]

    async def holdings(socket: Path) -> tuple[Holding, ...]:
        return told.pop(0)

    monkeypatch.setattr(daemon_module, "holdings", holdings)

    async def turns(root: Path) -> list[float | None]:
        paths = KubeletPaths(
            plugins=root, registry=root, pod_resources=root / "kubelet.sock", watcher=False
        )
        ours = Daemon(source, PluginConfig, Settings(paths=paths))
        counts = []
        for _ in range(3):
            await ours.reconcile()
            counts.append(ours.metrics.registry.get_sample_value("unstrand_plugin_double_uses"))
        for endpoint in ours.endpoints.values():
            await endpoint.stop()
        return counts

    with (
        caplog.at_level(logging.WARNING, "unstrand.plugin"),
        tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder,
    ):
        assert asyncio.run(turns(Path(folder))) == [1, 1, 0]
    lines = [line for line in caplog.messages if "in use twice" in line]
    assert len(lines) == 1
    assert lines[0].startswith("GPU 3 ")
