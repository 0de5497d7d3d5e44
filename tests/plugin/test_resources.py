"""From GPUs to resources under each strategy."""

from dataclasses import replace

import pytest

from plugin.config import ListStrategy, MigStrategy, PluginConfig, Sharing
from plugin.errors import ConfigError
from plugin.feed import snapshot
from plugin.resources import offer
from tests.plugin.building import DEFAULTS, gpu, node, whole

MIXED = replace(DEFAULTS, mig_strategy=MigStrategy.MIXED)
SINGLE = replace(DEFAULTS, mig_strategy=MigStrategy.SINGLE)


def counts(config: PluginConfig, *gpus: object) -> dict[str, int]:
    offered = offer(node(*gpus), config)
    return {resource.name: len(resource.owner) for resource in offered.resources}


def test_none_shows_gpus_only():
    assert counts(DEFAULTS, gpu(0), gpu(1, "1g.10gb")) == {"nvidia.com/gpu": 2}


def test_mixed_shows_instances_by_profile_and_whole_gpus_apart():
    cut = gpu(1, "3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb+me")

    assert counts(MIXED, gpu(0), cut) == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.10gb": 2,
        "nvidia.com/mig-1g.10gb.me": 1,
        "nvidia.com/mig-3g.40gb": 1,
    }


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        ((ListStrategy.ENVVAR,), True),
        ((ListStrategy.ENVVAR, ListStrategy.CDI_CRI), False),
        ((ListStrategy.CDI_ANNOTATIONS,), False),
        ((ListStrategy.VOLUME_MOUNTS,), False),
    ],
)
def test_two_resources_on_a_node_come_with_the_caveat_of_the_environment(
    strategies: tuple[ListStrategy, ...], said: bool
):
    config = replace(MIXED, list_strategies=strategies)

    notes = offer(node(gpu(0, "3g.40gb", "1g.10gb")), config).notes

    text = "asks for two of nvidia.com/mig-1g.10gb, nvidia.com/mig-3g.40gb sees devices of one"
    assert any(text in note for note in notes) is said
    assert not offer(node(gpu(0, "1g.10gb", "1g.10gb")), config).notes


def test_parts_of_an_instance_s_compute_are_not_advertised_and_said():
    offered = offer(node(gpu(0, "1c.2g.20gb", "1g.10gb")), MIXED)

    assert [resource.name for resource in offered.resources] == ["nvidia.com/mig-1g.10gb"]
    assert "1c.2g.20gb" in offered.notes[0]


def test_single_calls_instances_gpus():
    assert counts(SINGLE, gpu(0, "3g.40gb", "3g.40gb"), gpu(1, "3g.40gb")) == {"nvidia.com/gpu": 3}
    assert counts(SINGLE, gpu(0), gpu(1)) == {"nvidia.com/gpu": 2}


def test_c27_single_serves_what_is_alike_and_names_the_odd_gpu():
    gpus = (gpu(0, "3g.40gb", "3g.40gb"), gpu(1, "1g.10gb"), gpu(2))

    offered = offer(node(*gpus), SINGLE)

    assert [len(resource.owner) for resource in offered.resources] == [2]
    assert len(offered.notes) == 2
    assert "GPU 1" in offered.notes[0]
    assert "GPU 2 has MIG off" in offered.notes[1]


def test_one_gpu_becomes_four_units_with_the_caveat():
    config = replace(DEFAULTS, sharing=(Sharing(suffix="gpu", replicas=4),))

    offered = offer(node(gpu(0)), config)

    assert [len(resource.owner) for resource in offered.resources] == [4]
    assert "does not divide memory" in offered.notes[0]


def test_a_renamed_resource_is_called_shared():
    sharing = Sharing(suffix="gpu", replicas=2, rename_by_default=True)

    assert counts(replace(DEFAULTS, sharing=(sharing,)), gpu(0)) == {"nvidia.com/gpu.shared": 2}


def test_gpus_that_report_no_errors_are_named_once():
    gpus = [gpu(index, unmonitored="no events" if index else None) for index in range(3)]

    offered = offer(node(*gpus), DEFAULTS)

    assert len(offered.resources[0].owner) == 3
    (note,) = offered.notes
    assert note.startswith("each of the GPUs [1, 2] is unmonitored: no events")


def test_mps_of_instances_is_refused():
    sharing = Sharing(suffix="gpu", replicas=2, mps=True)
    config = replace(SINGLE, sharing=(sharing,))

    with pytest.raises(ConfigError, match="MPS is not for MIG instances"):
        offer(node(gpu(0, "1g.10gb")), config)


def test_sharing_of_something_that_is_not_there_is_said():
    config = replace(DEFAULTS, sharing=(Sharing(suffix="mig-1g.10gb", replicas=2),))

    assert "mig-1g.10gb, which no device has" in offer(node(gpu(0)), config).notes[0]


@pytest.mark.parametrize(("numa", "nodes"), [(None, []), (-1, []), (0, [0]), (3, [3])])
def test_a_numa_node_that_is_not_known_is_not_sent(numa: int | None, nodes: list[int]):
    offered = offer(node(gpu(0, numa_node=numa)), DEFAULTS)

    (device,) = snapshot(offered.resources[0], ()).devices

    assert [one.ID for one in device.topology.nodes] == nodes


def test_no_id_is_in_a_snapshot_twice():
    resource = replace(whole(2, 3), extra=(("GPU-0", 0),))

    ids = [d.ID for d in snapshot(resource, ["GPU-1::0"], ["GPU-0", "GPU-9"]).devices]

    assert len(ids) == len(set(ids)) == 8
