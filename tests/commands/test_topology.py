"""The verb `topology`: captures and presets, as table, JSON, YAML and picture; clear refusals."""

import json
from itertools import combinations
from xml.etree import ElementTree

import pytest
import typer
import yaml
from typer.testing import CliRunner

from commands.topology import load_topology, topology
from tests.paths import SHARED, needs_shared
from topology.errors import TopologyError, TopologyParseError, TopologySourceError
from topology.presets import PRESETS

CAPTURE = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-3\t0\n"
    "GPU1\tNV4\t X \tSYS\t4-7\t1\n"
    "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_7\n"
)

app = typer.Typer()
app.command()(topology)


def run(*arguments, stdin=None):
    result = CliRunner().invoke(app, [*arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*arguments, stdin=None):
    return json.loads(run(*arguments, "--output", "json", stdin=stdin).stdout)


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "node-7.txt"
    path.write_text(CAPTURE)
    return path


def test_json_has_everything_that_was_printed(capture):
    found = answer(str(capture))

    assert found == {
        "schema": "unstrand/topology/v1",
        "name": str(capture),
        "gpus": [
            {"label": "GPU0", "model": None, "memory_mib": None},
            {"label": "GPU1", "model": None, "memory_mib": None},
        ],
        "nics": [{"label": "NIC0", "device": "mlx5_7"}],
        "links": [
            {"a": "GPU0", "b": "GPU1", "kind": "NV4"},
            {"a": "GPU0", "b": "NIC0", "kind": "PIX"},
            {"a": "GPU1", "b": "NIC0", "kind": "SYS"},
        ],
        "islands": [["GPU0", "GPU1"]],
        "fabric": "direct",
        "domain_nodes": None,
        "nearest_nics": {
            "GPU0": {"kind": "PIX", "nics": ["NIC0"]},
            "GPU1": {"kind": "SYS", "nics": ["NIC0"]},
        },
        "cpu_affinity": {"GPU0": "0-3", "GPU1": "4-7"},
        "numa_affinity": {"GPU0": "0", "GPU1": "1"},
        "best_sets": {"2": [["GPU0", "GPU1"]]},
        "best_sets_total": {"2": 1},
        "warnings": [],
    }


def test_standard_input_is_read():
    assert answer("-", stdin=CAPTURE)["name"] == "standard input"


def test_yaml_says_the_same_as_json(capture):
    found = yaml.safe_load(run(str(capture), "-o", "yaml").stdout)

    assert found == answer(str(capture))


def test_a_model_gives_memory(capture):
    found = answer(str(capture), "--gpu-model", "NVIDIA RTX A6000")

    assert found["gpus"][0] == {"label": "GPU0", "model": "RTX-A6000-48GB", "memory_mib": 49140}


def test_the_table_is_the_default_and_has_no_colour(capture):
    text = run(str(capture)).stdout

    assert "island  GPU0 GPU1" in text
    assert "\x1b" not in text


def test_a_picture_goes_to_standard_output(capture):
    svg = run(str(capture), "-o", "svg").stdout

    assert ElementTree.fromstring(svg).tag.endswith("svg")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_told_within_bounds(name):
    found = answer(name)

    assert found["name"] == name
    assert all(gpu["memory_mib"] for gpu in found["gpus"])
    for size, sets in found["best_sets"].items():
        assert len(sets) == min(found["best_sets_total"][size], 64)
        assert all(len(gpus) == int(size) for gpus in sets)


def test_presets_with_a_domain_say_its_size():
    assert answer("gb200-nvl72")["domain_nodes"] == 18


def test_an_unknown_preset_names_near_ones():
    with pytest.raises(TopologyError, match="did you mean hgx-h200"):
        load_topology("hgx-h20")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    path = tmp_path / "nowhere.txt"

    with pytest.raises(TopologySourceError) as caught:
        load_topology(str(path))

    assert str(caught.value).startswith(f"{path}: no such file or directory (give ")


def test_a_folder_is_no_capture(tmp_path):
    with pytest.raises(TopologySourceError, match="is a directory"):
        load_topology(str(tmp_path))


def test_a_damaged_file_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "damaged.txt"
    path.write_text(CAPTURE.replace("NV4\t X \tSYS", "NV4\t X \tSYX"))

    with pytest.raises(TopologyParseError) as caught:
        load_topology(str(path))

    assert str(caught.value).startswith(f"{path}:3: 'SYX")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe" * 400, b"x" * 2_000_000])
def test_a_file_that_is_something_else_is_refused(tmp_path, data):
    path = tmp_path / "other.bin"
    path.write_bytes(data)

    with pytest.raises(TopologyParseError, match=str(path)):
        load_topology(str(path))


def test_a_file_goes_before_an_unknown_preset_and_after_a_known_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t4", "mine"):
        (tmp_path / name).write_text(CAPTURE)

    assert load_topology("mine")[0].n_gpus == 2
    assert load_topology("t4")[0].n_gpus == 4
    assert load_topology("./t4")[0].n_gpus == 2


def test_presets_have_their_own_models():
    assert run("t4", "--gpu-model", "T4").exit_code == 2


@needs_shared
@pytest.mark.parametrize(
    "path", sorted((SHARED / "data" / "topo").glob("*.txt")), ids=lambda path: path.stem
)
def test_captures_are_answered_as_expected(path):
    expected = yaml.safe_load(path.with_suffix(".expected.yaml").read_text())

    found = answer(str(path))

    gpus = list(expected["gpu_matrix"])
    kinds = {(link["a"], link["b"]): link["kind"] for link in found["links"]}
    assert [gpu["label"] for gpu in found["gpus"]] == gpus
    assert found["nics"] == expected["nics"]
    for a, b in combinations(range(len(gpus)), 2):
        assert kinds[gpus[a], gpus[b]] == expected["gpu_matrix"][gpus[a]][b]
    for gpu, row in expected.get("gpu_nic", {}).items():
        assert [kinds[gpu, nic["label"]] for nic in expected["nics"]] == row
    assert len(kinds) == len(gpus) * (len(gpus) - 1) // 2 + len(gpus) * len(expected["nics"])
    assert found["islands"] == expected["nvlink_islands"]
    assert found["fabric"] == expected["nvlink_fabric"]
    assert found["cpu_affinity"] == expected["cpu_affinity"]
    assert found["numa_affinity"] == expected["numa_affinity"]
    assert found["nearest_nics"] == {
        gpu: {"kind": near["link"], "nics": near["nics"]}
        for gpu, near in expected.get("nearest_nics", {}).items()
    }
