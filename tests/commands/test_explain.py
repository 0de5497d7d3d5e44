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


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tune", 'no job "tune" waits. Did you mean "lab/tune"?'),
        ("lab/tune-0", 'no job "lab/tune-0" waits. Did you mean "lab/tune"?'),
        ("tune-worker-0", 'no job "tune-worker-0" waits. Did you mean "lab/tune"?'),
        ("502", 'no job "502" waits. Did you mean "502-big"?'),
        ("chat-7d9f", 'no job "chat-7d9f" waits. "serve/chat-7d9f" runs already'),
        ("serve/chat-7d9f-x1z", '"serve/chat-7d9f" runs already'),
        ("5", 'no job "5" waits. Known jobs: 502-big, lab/tune'),
    ],
)
def test_names_as_kubectl_and_squeue_show_them_lead_to_the_job(tmp_path, word, said):
    spec = tmp_path / "c.yaml"
    spec.write_text(
        """
        cluster: {name: c, nodes: [{name: n1, gpus: 2}]}
        running: [{job: serve/chat-7d9f, replicas: [{node: n1, gpus: [0]}]}]
        jobs: [{name: lab/tune, gpus: 2}, {name: 502-big, gpus: 1}]
        """
    )

    done = unstrand("explain", spec, word)

    assert done.code == 2
    assert said in done.err


def test_a_node_without_gpus_is_the_cheapest_for_a_job_without(tmp_path):
    """Kinds that are looked at later cannot have fewer GPUs than none."""
    spec = tmp_path / "cpu.yaml"
    spec.write_text(
        """
        cluster: {nodes: [{name: c, cpu: 4}, {name: g, cpu: 4, gpus: 1}]}
        running: [{job: runs, cpu: 4, replicas: [{node: c}, {node: g}]}]
        jobs: [{name: wait, cpu: 4}]
        """
    )

    done = unstrand("explain", spec, "wait", "--output", "json")

    assert done.code == 0, done.err
    assert [fix["params"] for fix in json.loads(done.out)["fixes"]] == [
        {"job": "wait", "like": "c", "nodes": 1, "gpus": 0}
    ]


def test_gpus_in_mig_mode_are_bought_too(tmp_path):
    spec = tmp_path / "mig.yaml"
    spec.write_text(
        """
        cluster:
          nodes:
            - name: n
              gpus: 1
              gpu_model: A30
              mig: [{gpu: 0, instances: [{profile: 4g.24gb, start: 0, used_by: x}]}]
        jobs: [{name: wait, mig: {4g.24gb: 1}}]
        """
    )

    done = unstrand("explain", spec, "wait", "--output", "json")

    (fix,) = json.loads(done.out)["fixes"]
    assert (fix["params"]["gpus"], fix["cost_gpu_s"]) == (1, 86_400)
