import json

import pytest
import yaml

from tests.commands.running import unstrand
from tests.specs.reading import SPECS

SOUND = (
    "cluster: {nodes: [{name: n, gpus: 8}]}\nrunning: [{job: r, replicas: [{node: n, gpus: 1}]}]\n"
)
BAD = "cluster: {nodes: [{name: n, gpuz: 8}]}\njobs: [{name: j, gpus: 1.5}]\n"


@pytest.fixture
def sound(tmp_path):
    path = tmp_path / "sound.yaml"
    path.write_text(SOUND)
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def test_a_sound_spec_is_summed_up_on_stdout_and_assumptions_go_to_stderr(sound):
    done = unstrand("validate", sound)

    assert done.code == 0
    assert done.out == "ok: 1 node, 8 GPUs, 1 queue, 1 running job, 0 pending jobs\n"
    assert done.err == "note: r: assumed GPU 0 of node n\n"


def test_faults_go_to_stderr_one_line_each_and_the_exit_code_is_3(bad):
    done = unstrand("validate", bad)

    assert done.code == 3
    assert done.out == ""
    assert done.err.splitlines() == [
        f'{bad}:1:29: cluster.nodes[n]: "gpuz": unknown key. Did you mean "gpus"?',
        f"{bad}:2:24: jobs[j].gpus: 1.5: whole GPUs, or one share below 1. "
        "A share is at most 0.999",
    ]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_an_object_for_a_sound_spec(sound, output, read):
    answer = read(unstrand("validate", sound, "--output", output).out)

    assert answer == {
        "schema": "unstrand/validate/v1",
        "valid": True,
        "faults": [],
        "counts": {"nodes": 1, "gpus": 8, "queues": 1, "running": 1, "jobs": 0},
        "notes": ["r: assumed GPU 0 of node n"],
    }


def test_programs_get_the_faults_as_objects_and_people_still_get_the_lines(bad):
    done = unstrand("validate", bad, "--output", "json")

    answer = json.loads(done.out)
    assert done.code == 3
    assert len(done.err.splitlines()) == 2
    assert (answer["schema"], answer["valid"]) == ("unstrand/validate/v1", False)
    assert answer["faults"][1] == {
        "file": str(bad),
        "line": 2,
        "column": 24,
        "path": "jobs[j].gpus",
        "value": "1.5",
        "rule": "whole GPUs, or one share below 1",
        "hint": "A share is at most 0.999",
    }


def test_standard_input_is_read(sound):
    assert unstrand("validate", "-", stdin=SOUND).code == 0
    assert unstrand("validate", "-", stdin="").err == (
        "<stdin>:1:1: the file is empty. A spec begins with cluster:\n"
    )


def test_the_largest_size_can_be_chosen(sound):
    assert unstrand("validate", sound, "--max-size", "1Ki").code == 0

    done = unstrand("validate", sound, "--max-size", "10")
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "larger than 10 bytes" in done.err

    assert unstrand("validate", sound, "--max-size", "10XB").code == 2


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_spec_that_is_shipped_is_valid(path):
    assert unstrand("validate", path).code == 0


def test_the_schema_is_printed():
    done = unstrand("schema")

    assert done.code == 0
    assert done.out == (SPECS / "cluster.schema.json").read_text()
