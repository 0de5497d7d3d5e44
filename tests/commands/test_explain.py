"""The verb explain."""

import json

import pytest
import yaml

from tests.commands.running import unstrand

SPEC = """
cluster: {name: c, nodes: [{name: n1, gpus: 2}]}
running: [{job: runs, ends_in: 5m, replicas: [{node: n1, gpus: [0]}]}]
jobs: [{name: waits, gpus: 2}, {name: starts, gpus: 1}]
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(SPEC)
    return path


def test_the_answer_is_the_same_as_table_json_and_yaml(spec):
    table = unstrand("explain", spec, "waits")
    as_json = json.loads(unstrand("explain", spec, "waits", "--output", "json").out)
    as_yaml = yaml.safe_load(unstrand("explain", spec, "waits", "--output", "yaml").out)

    assert table.code == 0
    assert as_json == as_yaml
    assert {"schema", "job", "verdict", "core", "nodes", "fixes"} <= set(as_json)
    assert as_json["schema"] == "unstrand/explain/v1"
    assert as_json["verdict"] == "waits"
    assert all(fix["verified"] for fix in as_json["fixes"])
    assert "it waits" in table.out


def test_a_job_that_starts_is_said_to():
    done = unstrand("explain", "-", "starts", stdin=SPEC)

    assert done.code == 0
    assert "starts" in done.out


@pytest.mark.parametrize(
    ("job", "said"), [("wait", "waits"), ("runs", "runs already"), ("nobody", "no job")]
)
def test_only_pending_jobs_can_be_asked_for(spec, job, said):
    done = unstrand("explain", spec, job)

    assert done.code == 2
    assert said in done.err
