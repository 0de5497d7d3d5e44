"""The public captures parse to exactly what is known about them."""

import pytest
import yaml

from tests.paths import SHARED, needs_shared
from topology.parsers.nvidia_smi import parse_topo

CAPTURES = sorted((SHARED / "data" / "topo").glob("*.txt"))
pytestmark = needs_shared


@pytest.fixture(params=CAPTURES, ids=lambda path: path.stem)
def capture(request):
    path = request.param
    expected = yaml.safe_load(path.with_suffix(".expected.yaml").read_text())
    return parse_topo(path.read_text(), name=path.name), expected


def rows(topology, ones, others):
    return {a: ["X" if a == b else str(topology.device_link(a, b)) for b in others] for a in ones}


def test_there_are_captures_to_read():
    assert len(CAPTURES) >= 7


def test_the_gpu_matrix_is_as_printed(capture):
    topology, expected = capture
    gpus = list(expected["gpu_matrix"])

    assert list(topology.gpu_labels) == gpus
    assert rows(topology, gpus, gpus) == expected["gpu_matrix"]


def test_nics_and_their_links_are_as_printed(capture):
    topology, expected = capture
    nics = [nic["label"] for nic in expected["nics"]]

    assert [
        {"label": label, "device": device or None} for label, device in topology.nics.items()
    ] == expected["nics"]
    if nics:
        assert rows(topology, topology.gpu_labels, nics) == expected["gpu_nic"]
        assert rows(topology, nics, nics) == expected["nic_matrix"]


def test_nearest_nics_are_found(capture):
    topology, expected = capture
    found = {}
    for gpu, label in enumerate(topology.gpu_labels):
        nearest = topology.nearest_nics(gpu)
        if nearest:
            found[label] = {"link": str(nearest[0]), "nics": list(nearest[1])}

    assert found == expected.get("nearest_nics", {})


def test_islands_and_fabric_are_found(capture):
    topology, expected = capture
    islands = [[f"GPU{gpu}" for gpu in island] for island in topology.islands]

    assert islands == expected["nvlink_islands"]
    assert topology.fabric == expected["nvlink_fabric"]


def test_affinities_are_as_printed(capture):
    topology, expected = capture

    assert {f"GPU{g}": v for g, v in topology.cpu_affinity.items()} == expected["cpu_affinity"]
    assert {f"GPU{g}": v for g, v in topology.numa_affinity.items()} == expected["numa_affinity"]


def test_sound_captures_give_no_warning(capture):
    topology, _ = capture

    assert topology.warnings == ()
