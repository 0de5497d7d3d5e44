import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.commands.running import unstrand

ROOT = Path(__file__).resolve().parents[2]

CLUSTER = """
cluster:
  name: two-nodes
  nodes:
    - {name: n0, preset: hgx-h100, cpu: 64, memory: 1Ti}
    - {name: n1, preset: hgx-h100, cpu: 64, memory: 1Ti}
running:
  - job: old
    replicas: [{node: n0, gpus: [0, 1], cpu: 8, memory: 64Gi}]
jobs:
  - {name: gang, replicas: 2, gpus: 4, cpu: 8, memory: 64Gi, priority: 5}
  - {name: whole, gpus: 8, cpu: 8, memory: 64Gi}
"""


def solved(*options: object, spec: str = CLUSTER) -> dict:
    done = unstrand("solve", "-", "--output", "json", *options, stdin=spec)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_plan_is_optimal_and_says_where_every_replica_starts():
    answer = solved()

    assert answer["schema"] == "unstrand/solve/v1"
    assert answer["status"] == "optimal"
    assert answer["policy"] == "cp-sat"
    started = {(p["job"], p["replica"]) for p in answer["placements"]}
    assert ("gang", 0) in started
    assert ("gang", 1) in started
    assert all(term["gap_ratio"] == 0 for term in answer["objectives"])


def test_running_gpus_are_never_given_away():
    answer = solved()

    taken = [gpu for p in answer["placements"] if p["node"] == "n0" for gpu in p["gpus"]]
    assert not {0, 1} & set(taken)
    assert len(taken) == len(set(taken))


def test_a_waiting_job_has_a_reason():
    answer = solved()

    waiting = {p["job"]: p for p in answer["pending"]}
    assert set(waiting) == {"whole"} or not waiting
    for entry in waiting.values():
        assert entry["reason"]
        assert "\n" not in entry["text"]


def test_a_baseline_is_named_as_it_was_typed():
    assert solved("--policy", "best-fit")["policy"] == "best-fit"
    assert solved("--policy", "drf+first-fit")["policy"] == "drf+first-fit"


def test_yaml_and_json_say_the_same():
    shown = unstrand("solve", "-", "-o", "yaml", stdin=CLUSTER)

    answer = yaml.safe_load(shown.out)

    assert answer["metrics"] == solved()["metrics"]


def test_a_saved_plan_has_the_answer_and_the_spec_it_answers(tmp_path: Path):
    plan = tmp_path / "plan.json"

    answer = solved("--save", plan)

    saved = json.loads(plan.read_text())
    assert saved.pop("spec") == CLUSTER
    assert saved == answer
    assert list(tmp_path.iterdir()) == [plan]


def test_what_was_saved_before_survives_a_failure(tmp_path: Path):
    plan = tmp_path / "plan.json"
    plan.write_text("precious")

    done = unstrand("solve", "-", "--save", plan, stdin="cluster: {")

    assert done.code == 3
    assert plan.read_text() == "precious"


def test_a_must_job_that_cannot_run_is_named_with_exit_code_4():
    spec = CLUSTER + "  - {name: too-wide, replicas: 3, gpus: 8, must: true}\n"

    done = unstrand("solve", "-", "--output", "json", stdin=spec)

    assert done.code == 4
    assert json.loads(done.out)["status"] == "infeasible"
    assert "too-wide" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_must_job_that_runs_changes_nothing():
    spec = CLUSTER.replace("priority: 5", "priority: 5, must: true")

    assert unstrand("solve", "-", stdin=spec).code == 0


def test_a_replica_that_no_node_can_ever_hold_waits_as_impossible():
    answer = solved(spec=CLUSTER + "  - {name: nine, gpus: 9}\n")

    (nine,) = [p for p in answer["pending"] if p["job"] == "nine"]
    assert nine["reason"] == "impossible"


def test_options_go_before_those_of_the_spec():
    spec = CLUSTER + "solve: {time_limit: 10s, seed: 3}\n"

    one = solved("--seed", "7", "--workers", "1", "--time-limit", "20s", spec=spec)

    assert one["status"] == "optimal"


def test_one_worker_one_seed_and_a_deterministic_limit_give_the_same_bytes():
    spec = CLUSTER + "solve: {deterministic_limit: 10}\n"

    first, second = (solved("--workers", "1", "--seed", "5", spec=spec) for _ in range(2))

    for answer in (first, second):
        del answer["timing"]
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize("word", ["two-nodes: optimal", "gang", "Tiers, in order", "Stranded"])
def test_the_table_is_for_people(word: str):
    done = unstrand("solve", "-", stdin=CLUSTER)

    assert done.code == 0
    assert word in done.out
    assert done.err == ""


def test_nothing_to_place_is_an_optimal_plan_of_nothing():
    answer = solved(spec=CLUSTER.split("jobs:", maxsplit=1)[0])

    assert answer["status"] == "optimal"
    assert answer["placements"] == []


def test_a_closed_standard_output_is_no_error():
    command = f"{sys.executable} cli.py solve specs/stranding.yaml >&-"

    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_saved_plan_is_where_the_next_solve_begins(tmp_path: Path):
    saved = tmp_path / "plan.json"
    first = solved("--save", saved)

    again = solved("--from", saved)

    assert again["placements"] == first["placements"]
    assert "1 of 1 jobs of plan.json stand as they were planned" in again["notes"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "plan.json:1:2: no JSON"),
        ("[]", "no plan"),
        ('{"schema": "unstrand/solve/v1"}', "placements: no plan: field required"),
        ('{"schema": "other", "placements": []}', 'a plan has the schema "unstrand/solve/v1"'),
        (
            '{"schema": "unstrand/solve/v1", "placements": [{"job": "a", "role": "r",'
            ' "replica": -1, "node": "n", "gpus": []}]}',
            "placements.0.replica: no plan",
        ),
        ("\xff", "no plan"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(tmp_path: Path, text: str, says: str):
    plan = tmp_path / "plan.json"
    plan.write_text(text if text != "\xff" else '"x"', encoding="utf-8")

    done = unstrand("solve", "-", "--from", plan, stdin=CLUSTER)

    assert done.code == 3
    assert says in done.err
    assert done.out == ""


def test_the_aggregated_bound_knows_of_slices_on_gpus_that_stay_cut():
    """They take nothing from the whole GPU that shares are on."""
    answer = solved(
        "--model",
        "aggregated",
        spec="""
        cluster:
          nodes:
            - name: n
              gpus: 2
              gpu_model: A30
              mig: [{gpu: 0, instances: [{profile: 1g.6gb, start: 0, used_by: x}]}]
        mig: {cut_whole: false}
        jobs:
          - {name: share, gpus: 0.7}
          - {name: slice, mig: {2g.12gb: 1}}
          - {name: small, mig: {1g.6gb: 1}}
        """,
    )

    (started,) = [step for step in answer["objectives"] if step["step"] == "started"]
    assert (started["value"], started["bound"]) == (1450, 1450)
