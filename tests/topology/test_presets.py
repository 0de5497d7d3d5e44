"""Machines have the links, islands and bandwidths that are known of them."""

from itertools import combinations, permutations

import pytest
import yaml

from tests.paths import SHARED, needs_shared
from topology.errors import UnknownPresetError
from topology.graph import Fabric
from topology.hardware import GPU_MODELS
from topology.islands import nvlink_cliques
from topology.parsers.nvidia_smi import parse_topo
from topology.presets import ALIASES, PRESETS, machine, preset
from topology.scoring import best_sets, bottleneck_gb_s, first_best_sets, is_linked, lost_gb_s

CUBE = preset("dgx-1v")


def lanes(topology, gpus):
    return sum(topology.link(a, b).lanes for a, b in combinations(gpus, 2))


# --- the hybrid cube mesh ----------------------------------------------------------------------


def test_the_cube_mesh_has_16_edges_24_links_and_six_per_gpu():
    edges = [link for _, _, link, _ in CUBE.edges() if link.lanes]

    assert len(edges) == 16
    assert sum(link.lanes for link in edges) == 24
    assert all(sum(CUBE.link(a, b).lanes for b in range(8) if b != a) == 6 for a in range(8))


def test_the_cube_mesh_has_six_links_between_its_halves():
    assert sum(CUBE.link(a, b).lanes for a in range(4) for b in range(4, 8)) == 6


@pytest.mark.parametrize(
    ("size", "links", "sets"),
    [(2, 2, 8), (3, 5, 4), (4, 9, 2), (5, 11, 4), (6, 14, 8), (7, 18, 8), (8, 24, 1)],
)
def test_the_best_sets_of_the_cube_mesh(size, links, sets):
    every = list(combinations(range(8), size))
    most = max(lanes(CUBE, gpus) for gpus in every)

    assert most == links
    assert best_sets(CUBE, size) == tuple(gpus for gpus in every if lanes(CUBE, gpus) == most)
    assert len(best_sets(CUBE, size)) == sets


def test_the_best_threes_and_fours_of_the_cube_mesh_by_name():
    assert best_sets(CUBE, 3) == ((0, 2, 3), (1, 2, 3), (4, 6, 7), (5, 6, 7))
    assert best_sets(CUBE, 4) == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_the_cliques_of_the_cube_mesh():
    assert [len(nvlink_cliques(CUBE, size)) for size in (2, 3, 4, 5)] == [16, 8, 2, 0]


def test_the_linked_sets_of_the_cube_mesh():
    assert sum(is_linked(CUBE, gpus) for gpus in combinations(range(8), 3)) == 32
    assert sum(is_linked(CUBE, gpus) for gpus in combinations(range(8), 4)) == 56


@pytest.mark.parametrize(("least", "count"), [(1, 30), (2, 1)])
def test_the_rings_of_the_cube_mesh(least, count):
    rings = 0
    for order in permutations(range(1, 8)):
        if order[0] < order[-1]:  # each ring once, not once per direction
            ring = (0, *order, 0)
            rings += all(CUBE.link(ring[i], ring[i + 1]).lanes >= least for i in range(8))

    assert rings == count


def test_bandwidths_of_the_cube_mesh():
    assert CUBE.gb_s(0, 3) == 50
    assert CUBE.gb_s(0, 1) == 25
    assert CUBE.gb_s(0, 5) == 10
    assert CUBE.fabric is Fabric.DIRECT


# --- the others --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_gpus", "fabric", "gb_s"),
    [
        ("dgx-2", 16, "switch", 150),
        ("dgx-a100", 8, "switch", 300),
        ("hgx-a100-4", 4, "direct", 100),
        ("h100-4", 4, "direct", 150),
        ("hgx-h100", 8, "switch", 450),
        ("hgx-h200", 8, "switch", 450),
        ("hgx-b200", 8, "switch", 900),
        ("gb200-nvl72", 4, "switch", 900),
        ("a100-pcie-pairs", 4, "direct", 300),
        ("mi300x", 8, "direct", 64),
        ("l40s", 8, "none", 28),
        ("t4", 4, "none", 12),
    ],
)
def test_fabric_and_bandwidth_of_the_first_pair(name, n_gpus, fabric, gb_s):
    topology = preset(name)

    assert (topology.n_gpus, topology.fabric, topology.gb_s(0, 1)) == (n_gpus, fabric, gb_s)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_sound(name):
    found = machine(name)
    topology = found.topology

    assert (found.name, topology.name) == (name, name)
    assert found is machine(name)
    assert found.source
    assert found.cpu_milli >= 1000 * topology.n_gpus
    assert found.memory_mib >= sum(topology.gpu_memory_mib) // 2
    for model, memory in zip(topology.gpu_models, topology.gpu_memory_mib, strict=True):
        assert GPU_MODELS[model].memory_mib == memory
    if topology.fabric is Fabric.DIRECT:
        for gpu in range(topology.n_gpus):
            peers = [peer for peer in range(topology.n_gpus) if peer != gpu]
            used = sum(topology.link(gpu, peer).lanes for peer in peers)
            assert used <= GPU_MODELS[topology.gpu_models[gpu]].links


@pytest.mark.parametrize("name", PRESETS)
def test_losing_nothing_is_possible_and_less_is_not(name):
    topology = preset(name)
    for size in range(1, min(topology.n_gpus, 4) + 1):
        (first, *_), total = first_best_sets(topology, size, 64)
        losses = [lost_gb_s(topology, gpus) for gpus in combinations(range(topology.n_gpus), size)]

        assert lost_gb_s(topology, first) == 0
        assert min(losses) == 0
        assert total <= losses.count(0)


def test_first_best_sets_counts_what_it_does_not_list():
    sets, total = first_best_sets(preset("dgx-2"), 8, 64)

    assert (len(sets), total) == (64, 12870)
    assert sets[0] == tuple(range(8))


def test_only_uniform_nodes_are_uniform():
    uniform = {name for name in PRESETS if preset(name).is_uniform}

    assert uniform == {*PRESETS} - {
        "dgx-1v",
        "a100-pcie-pairs",
        "a100-pcie-pairs-8",
        "l40s",
        "l40s-4",
        "l4",
    }


def test_one_tray_of_a_rack_knows_the_size_of_its_domain():
    assert machine("gb200-nvl72").domain_nodes == 18
    assert machine("hgx-h100").domain_nodes == 1


def test_aliases_lead_to_presets():
    assert preset("hgx-h100-4") is preset("h100-4")
    assert preset("HGX_H100") is preset("hgx-h100")
    assert not set(ALIASES) & set(PRESETS)
    assert set(ALIASES.values()) <= set(PRESETS)


def test_an_unknown_preset_names_near_ones():
    with pytest.raises(UnknownPresetError, match="did you mean hgx-h100") as caught:
        preset("hgx-h10")

    assert caught.value.near[0] == "hgx-h100"
    assert caught.value.known == PRESETS


@needs_shared
@pytest.mark.parametrize(
    ("name", "capture"),
    [
        ("dgx-1v", "dgx1v_v100x8_mlx4"),
        ("dgx-a100", "dgxa100_a100x8_mlx12"),
        ("h100-4", "hgxh100_h100x4_nv6_nic4"),
        ("hgx-h200", "hgxh200_h200x8_nic12"),
        ("hgx-h100", "hgxh200_h200x8_nic12"),
        ("a100-pcie-pairs", "pcie_a100x4_nvlink_pairs"),
        ("gb200-nvl72", "gb200_tray_gb200x4"),
    ],
)
def test_presets_agree_with_the_captures(name, capture):
    path = SHARED / "data" / "topo" / f"{capture}.txt"
    expected = yaml.safe_load(path.with_suffix(".expected.yaml").read_text())
    topology, seen = preset(name), parse_topo(path.read_text())

    assert [str(link) for _, _, link, _ in topology.edges()] == [
        str(link) for _, _, link, _ in seen.edges()
    ]
    assert topology.islands == seen.islands
    for nic in seen.nics:
        for gpu in topology.gpu_labels:
            assert topology.device_link(gpu, nic) == seen.device_link(gpu, nic)
    numas = [numa for numa in expected["numa_affinity"].values() if numa]
    assert not numas or list(topology.numa_affinity.values()) == numas


def test_the_bottleneck_of_a_single_gpu_is_nothing():
    assert bottleneck_gb_s(CUBE, (3,)) == 0
    assert lost_gb_s(CUBE, (3,)) == 0
