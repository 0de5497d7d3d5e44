"""The tables say in words what the matrix means."""

import io

from report.console import show
from report.topology_view import headline, topology_report, topology_view
from topology.graph import NodeTopology
from topology.links import Link
from topology.presets import preset


def shown(node, domain_nodes=None):
    stream = io.StringIO()
    show(topology_view(node, domain_nodes), stream, width=110)
    return stream.getvalue()


def test_the_table_has_matrix_islands_nics_and_best_sets():
    text = shown(preset("dgx-1v"))

    assert "8 x V100-32GB, direct links, 1 island (8)" in text
    assert "GPU7   SYS    SYS    SYS    NV1    NV2    NV1    NV2    X" in text
    assert "PIX mlx5_0" in text
    assert "225 GB/s   0+1+2+3  4+5+6+7" in text


def test_uniform_nodes_need_no_list_of_sets():
    text = shown(preset("dgx-2"))

    assert "12,870" in text
    assert " any" in text


def test_gpus_without_nvlink_beside_an_island_are_named():
    node = NodeTopology("half", [None] * 4, gpu_links={(0, 1): Link.parse("NV12")})

    assert "without NVLink  GPU2 GPU3" in shown(node)
    assert headline(node) == "4 x GPU of unknown model, direct links, 1 island (2)"


def test_warnings_are_shown():
    assert "note: row GPU9 looks odd" in shown(
        NodeTopology("odd", [None], warnings=["row GPU9 looks odd"])
    )


def test_sizes_that_cannot_be_searched_are_said():
    node = NodeTopology("large", [None] * 24, gpu_links={(0, 1): Link.parse("NV4")})

    report = topology_report(node)

    assert report["best_sets"]["2"] == [["GPU0", "GPU1"]]
    assert "12" not in report["best_sets"]
    assert "too many sets to search for sizes" in report["warnings"][0]
