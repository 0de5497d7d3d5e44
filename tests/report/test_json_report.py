import json
from dataclasses import fields, replace

import pytest
import yaml
from jsonschema import Draft202012Validator

from report.json_report import (
    compare_report,
    number,
    plan_report,
    simulate_report,
    solve_report,
    to_json,
)
from report.yaml_report import to_yaml
from tests.report.answers import FIRST_FIT, OPTIMAL
from tests.report.runs import EASY, STRICT, row

NUMBER = {"type": ["number", "null"]}
AMOUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


def closed(**properties: object) -> dict[str, object]:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def listed(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


STATUS = {"enum": ["optimal", "feasible", "infeasible"]}
SOLVE = closed(
    schema={"const": "unstrand/solve/v1"},
    status=STATUS,
    policy={"type": "string"},
    model={"type": "string"},
    objectives=listed(
        closed(
            name={"type": "string"},
            level={"type": ["integer", "null"]},
            step={"type": "string"},
            sense={"enum": ["max", "min"]},
            unit={"type": "string"},
            value=NUMBER,
            bound=NUMBER,
            gap_ratio=NUMBER,
        )
    ),
    placements=listed(
        closed(
            job={"type": "string"},
            role={"type": "string"},
            replica={"type": "integer"},
            node={"type": "string"},
            gpus=listed({"type": "integer"}),
            instances={"type": "array"},
            share_milli={"type": "integer"},
        )
    ),
    pending=listed(
        closed(
            job={"type": "string"},
            reason={"type": "string"},
            text={"type": "string"},
            facts={"type": "object"},
        )
    ),
    evictions={"type": "array"},
    moves={"type": "array"},
    queues=listed(
        closed(
            name={"type": "string"},
            quota=AMOUNTS,
            demand=AMOUNTS,
            used=AMOUNTS,
            entitled=AMOUNTS,
            dominant_share=NUMBER,
            borrowed_from=AMOUNTS,
        )
    ),
    metrics={
        "type": "object",
        "required": ["admitted_jobs", "admitted_gpus", "stranded_gpus", "stranded_by_cause"],
    },
    timing=closed(build_s=NUMBER, solve_s=NUMBER, verify_s=NUMBER, total_s=NUMBER),
    notes=listed({"type": "string"}),
)
ROW = closed(
    policy={"type": "string"},
    status=STATUS,
    admitted_jobs={"type": "integer"},
    admitted_gpus=NUMBER,
    stranded_gpus=NUMBER,
    stranded_by_shape={"type": "object", "additionalProperties": NUMBER},
    fragmentation_gpus=NUMBER,
    worst_dominant_share=NUMBER,
    preemption_cost_gpu_s={"type": "integer"},
    topology_cost=NUMBER,
    total_s=NUMBER,
    gap_ratio=NUMBER,
    gap_step={"type": ["string", "null"]},
)
COMPARE = closed(schema={"const": "unstrand/compare/v1"}, rows=listed(ROW))

RUN = closed(
    trace={"type": "string"},
    policy={"type": "string"},
    seed={"type": "integer"},
    finished={"type": "integer"},
    failed={"type": "integer"},
    unschedulable={"type": "integer"},
    waiting={"type": "integer"},
    goodput_ratio={"type": "number", "minimum": 0, "maximum": 1},
    left={"type": "array"},
    running={"type": "integer"},
    utilization_ratio={"type": "number", "minimum": 0, "maximum": 1},
    wait_mean_s=NUMBER,
    wait_p50_s=NUMBER,
    wait_p90_s=NUMBER,
    wait_p99_s=NUMBER,
    wait_max_s=NUMBER,
    jct_mean_s=NUMBER,
    stranded_gpus_mean=NUMBER,
    fragmentation_gpus_mean=NUMBER,
    deadlocks={"type": "integer"},
    preemptions={"type": "integer"},
    lost_gpu_h=NUMBER,
    allocated_milli={"type": "integer"},
    fragmentation_milli=NUMBER,
    jain=NUMBER,
    share_gap_mean=NUMBER,
    share_gap_max=NUMBER,
    finish_rho_max=NUMBER,
    finish_rho_mean=NUMBER,
    makespan_s=NUMBER,
    events={"type": "integer"},
    run_s=NUMBER,
)
SIMULATE = closed(
    schema={"const": "unstrand/simulate/v1"}, rows=listed(RUN), notes=listed({"type": "string"})
)


def test_the_answer_of_solve_has_exactly_the_keys_that_are_promised():
    report = json.loads(to_json(solve_report(OPTIMAL)))

    Draft202012Validator(SOLVE).validate(report)


def test_the_answer_of_compare_has_exactly_the_keys_that_are_promised():
    report = json.loads(to_json(compare_report([FIRST_FIT, OPTIMAL])))

    Draft202012Validator(COMPARE).validate(report)
    assert [row["policy"] for row in report["rows"]] == ["first-fit", "cp-sat"]


def test_the_answer_of_simulate_has_exactly_the_keys_that_are_promised():
    rows = [row(STRICT), row(EASY, seed=2), row(EASY, "other")]
    report = json.loads(to_json(simulate_report(rows, ["a note"])))

    Draft202012Validator(SIMULATE).validate(report)
    assert [(r["trace"], r["policy"], r["seed"]) for r in report["rows"]] == [
        ("tiny", STRICT.policy, 1),
        ("tiny", EASY.policy, 2),
        ("other", EASY.policy, 1),
    ]
    assert report["notes"] == ["a note"]


def test_every_number_of_a_run_is_in_its_row():
    (run,) = simulate_report([row(EASY)])["rows"]

    assert {key for key in run if key != "trace"} == {field.name for field in fields(EASY)}


def test_whole_numbers_are_integers_and_infinities_are_null():
    assert json.loads(to_json({"a": number(17.0), "b": number(float("-inf"))})) == {
        "a": 17,
        "b": None,
    }
    assert '"admitted_gpus": 17,' in to_json(solve_report(OPTIMAL))


def test_a_gap_above_zero_stays_above_zero():
    off_by_little = replace(OPTIMAL.objectives[0], value=16_999_999_999, bound=17_000_000_000)
    report = solve_report(replace(OPTIMAL, objectives=(off_by_little,)))

    assert report["objectives"][0]["gap_ratio"] > 0


def test_the_gap_of_a_row_is_that_of_the_first_step_that_has_one():
    baseline, best = compare_report([FIRST_FIT, OPTIMAL])["rows"]

    assert baseline["gap_step"] == "guarantee gpu_milli"
    assert baseline["gap_ratio"] == pytest.approx((17 - 9) / 17)
    assert (best["gap_step"], best["gap_ratio"]) == (None, 0)


def test_yaml_says_the_same_as_json():
    report = solve_report(OPTIMAL)

    assert yaml.safe_load(to_yaml(report)) == json.loads(to_json(report))


def test_a_saved_plan_carries_the_spec_that_it_answers():
    plan = plan_report(OPTIMAL, "cluster: {name: demo}\n")

    assert plan["spec"] == "cluster: {name: demo}\n"
    assert {key: plan[key] for key in plan if key != "spec"} == solve_report(OPTIMAL)


def test_the_keys_come_in_a_stable_order():
    assert list(solve_report(OPTIMAL)) == list(SOLVE["properties"])
