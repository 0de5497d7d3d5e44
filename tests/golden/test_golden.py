"""Numbers that readers see: what every policy makes of the shipped specs.

The files hold values, bounds, statuses and metrics, no placements (they may tie) and no times.
Where a change of behaviour is meant, write them anew and look at the difference::

    UNSTRAND_WRITE_GOLDEN=1 pytest tests/golden
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from solver import greedy
from solver.api import CP_SAT, solve
from solver.options import SolveOptions
from solver.result import SolveResult
from specs.compile import compile_spec
from specs.loader import load_spec

HERE = Path(__file__).parent
SPECS = Path(__file__).resolve().parents[2] / "specs"
OVER_TIME = {"adversarial"}
"""Specs for `simulate`, which have a golden file of another kind."""

NAMES = sorted(path.stem for path in SPECS.glob("*.yaml") if path.stem not in OVER_TIME)
OPTIONS = SolveOptions(time_limit_s=120)
DIGITS = 6


def numbers(result: SolveResult) -> dict[str, object]:
    """What a golden file says of one policy's answer."""
    steps = {}
    for term in result.objectives:
        level = "" if term.level is None else f"[{term.level}]"
        steps[f"{term.name}{level}/{term.step}"] = [rounded(term.value), rounded(term.bound)]
    return {
        "status": result.status.value,
        "steps": steps,
        "metrics": rounded(asdict(result.metrics)),
        "pending": {entry.job: entry.reason for entry in result.pending},
    }


def rounded(value: object) -> object:
    """The value with floats cut to what is worth comparing."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return value


def proved_alone(answer: dict[str, object]) -> dict[str, object]:
    """Without what optimal plans may differ in: metrics that no tier looks at."""
    tiers = {"admitted_gpus", "free_gpus", "stranded_gpus", "topology_cost"}
    metrics = {key: value for key, value in answer["metrics"].items() if key in tiers}
    return {**answer, "metrics": metrics, "pending": sorted(answer["pending"])}


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_says_of_a_shipped_spec_what_it_always_said(name):
    problem = compile_spec(load_spec(SPECS / f"{name}.yaml")).problem
    golden = HERE / f"{name}.json"

    answers = {policy: numbers(solve(problem, OPTIONS, policy)) for policy in greedy.POLICIES}
    answers[CP_SAT] = proved_alone(numbers(solve(problem, OPTIONS)))

    if os.environ.get("UNSTRAND_WRITE_GOLDEN"):
        golden.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
    expected = json.loads(golden.read_text())
    assert json.loads(json.dumps(answers)) == expected
    assert expected[CP_SAT]["status"] == "optimal"
