"""The picture of a node is sound XML and shows every device and kind of link."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from report.topology_layout import BOX_H, BOX_W, Layout
from report.topology_svg import topology_svg
from topology.graph import NodeTopology
from topology.links import Link
from topology.presets import PRESETS, preset

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_sound_picture_with_all_its_gpus(name):
    found = texts(topology_svg(preset(name)))

    assert found[0] == name
    assert {f"GPU{gpu}" for gpu in range(preset(name).n_gpus)} <= set(found)


@pytest.mark.parametrize("name", PRESETS)
def test_boxes_do_not_overlap(name):
    layout = Layout(preset(name))

    for (ax, ay), (bx, by) in combinations(layout.gpu_at.values(), 2):
        assert abs(ax - bx) >= BOX_W or abs(ay - by) >= BOX_H
    for x, y in (*layout.gpu_at.values(), *layout.nic_at.values()):
        assert 0 < x < layout.width
        assert 0 < y < layout.bottom


def test_the_ring_of_the_cube_mesh_is_its_one_ring_of_double_links():
    assert Layout(preset("dgx-1v")).ring == (0, 3, 2, 1, 5, 6, 7, 4)


def test_the_legend_names_every_width():
    found = texts(topology_svg(preset("dgx-1v")))

    assert "NV2: 50 GB/s per direction, 8 pairs of GPUs" in found
    assert "NV1: 25 GB/s per direction, 8 pairs of GPUs" in found
    assert "SYS: 10 GB/s per direction, 12 pairs of GPUs (not drawn)" in found


def test_a_switch_is_a_box():
    assert "NVSwitch" in texts(topology_svg(preset("hgx-h100")))
    assert "NVSwitch" not in texts(topology_svg(preset("h100-4")))


def test_network_cards_near_no_gpu_are_named():
    notes = texts(topology_svg(preset("hgx-h100")))

    assert "Network cards that are nearest to no GPU: NIC1, NIC2, NIC7, NIC8" in notes


def test_one_node_of_a_domain_says_so():
    assert any("one of 18 nodes" in text for text in texts(topology_svg(preset("gb200-nvl72"), 18)))


@pytest.mark.parametrize("name", ['a<b>&"c', "bell\x07", "a'b"])
def test_names_of_files_cannot_break_the_picture(name):
    node = NodeTopology(
        name, [None], nics={name: ""}, nic_links={("GPU0", name): Link.parse("PIX")}
    )

    assert texts(topology_svg(node))[0] == name.replace("\x07", "\ufffd")


def test_mixed_models_stand_in_the_boxes():
    node = NodeTopology("mixed", ["A100-40GB", "V100-32GB"])

    assert {"A100-40GB", "V100-32GB"} <= set(texts(topology_svg(node)))


def test_the_same_node_gives_the_same_bytes():
    assert topology_svg(preset("dgx-1v")) == topology_svg(preset("dgx-1v"))
