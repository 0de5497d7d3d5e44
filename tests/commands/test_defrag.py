"""``solve --defrag`` from the command line: answers, and options that do not go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import unstrand

SPEC = Path(__file__).resolve().parents[2] / "specs" / "fragmented.yaml"


def asked(*options: object) -> dict[str, Any]:
    done = unstrand("solve", SPEC, "--defrag", "-o", "json", "--workers", "1", *options)
    assert done.code == 0, done.err
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def test_for_a_job_the_steps_end_with_its_start():
    answer = asked("--for", "pretrain")

    assert answer["status"] == "optimal"
    assert answer["metrics"]["preemption_cost_gpu_s"] == 2340
    steps = answer["defrag"]["steps"]
    assert [step["kind"] for step in steps] == ["move", "move", "start"]
    assert sum(step["cost_gpu_s"] for step in steps) == 2340
    assert answer["defrag"]["cycles"] == []
    assert [move["job"] for move in answer["moves"]] == ["train-c", "train-d"]


def test_the_curve_falls_and_each_point_has_its_steps_and_bound():
    curve = asked()["defrag"]["curve"]

    costs = [point["cost_gpu_s"] for point in curve]
    stranded = [point["stranded_gpus"] for point in curve]
    assert costs == sorted(costs) == [0, 360, 1980, 2340]
    assert stranded == sorted(stranded, reverse=True)
    assert all(point["proved"] for point in curve)
    assert all(point["cost_bound_gpu_s"] == point["cost_gpu_s"] for point in curve)
    assert [len(point["steps"]) for point in curve] == [0, 1, 1, 2]


def test_a_budget_gives_the_point_of_the_curve_below_it():
    answer = asked("--budget", "1979")

    (point,) = answer["defrag"]["curve"]
    assert point["cost_gpu_s"] == 360
    assert answer["defrag"]["budget_gpu_s"] == 1979
    assert answer["evictions"] == []


def test_a_budget_beyond_all_numbers_is_no_limit():
    assert asked("--budget", "9" * 24)["defrag"]["curve"][-1]["cost_gpu_s"] == 2340


def test_a_saved_answer_has_the_spec_and_the_moves(tmp_path: Path):
    saved = tmp_path / "plan.json"

    answer = asked("--for", "pretrain", "--save", saved)

    written = json.loads(saved.read_text())
    assert written["moves"] == answer["moves"]
    assert written["spec"] == SPEC.read_text()


def test_a_job_that_cannot_start_within_the_budget_exits_with_4_and_is_named():
    done = unstrand("solve", SPEC, "--defrag", "--for", "pretrain", "--budget", 2339)

    assert done.code == 4
    assert done.out == ""
    assert 'within 2339 GPU-seconds let job "pretrain" start' in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--for", "pretrain"], "goes with --defrag"),
        (["--budget", "5"], "goes with --defrag"),
        (["--defrag", "--for", "pretrian"], 'no job "pretrian" waits'),
        (["--defrag", "--for", "train-a"], '"train-a" runs already'),
        (["--defrag", "--budget", "-1"], "--budget"),
        (["--defrag", "--budget", "lots"], "--budget"),
        (["--defrag", "--policy", "best-fit"], "best-fit moves nothing"),
        (["--defrag", "--model", "aggregated"], "know every node by name"),
        (["--defrag", "--from", "plan.json"], "not with a plan"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], said: str):
    done = unstrand("solve", SPEC, *options)

    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_one_of_something_is_told_in_the_singular(tmp_path: Path):
    spec = tmp_path / "one.yaml"
    spec.write_text(
        "cluster: {pools: [{name: n, count: 1, gpus: 2}]}\n"
        "running: [{job: low, gpus: 2, priority: -1, replicas: [{node: n-0, gpus: [0, 1]}]}]\n"
        "jobs: [{name: j, gpus: 2}]\n"
    )

    asked_for = unstrand("solve", spec, "--defrag", "--for", "j", "--workers", "1").out
    solved = unstrand("solve", spec, "--workers", "1").out

    assert "j starts: 1 running job gives way, at a cost of 120 GPU-seconds" in asked_for
    assert "1 replica of 1 running job stops, at a cost of 120 GPU-seconds" in solved
