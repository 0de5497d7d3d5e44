"""Numbers that readers see: what greedy policies make of the shipped scenario over time.

The solver's rows are held in bands elsewhere: its plans may tie. Written anew like the others::

    UNSTRAND_WRITE_GOLDEN=1 pytest tests/golden
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from simulator.policies import ORDERS
from simulator.run import simulate
from solver.greedy import PLACEMENTS
from specs.compile import compile_spec
from specs.loader import load_spec
from specs.simulation import scenario_of

GOLDEN = Path(__file__).parent / "simulate-adversarial.json"
SPEC = Path(__file__).resolve().parents[2] / "specs" / "adversarial.yaml"
DIGITS = 6


def rows() -> dict[str, dict[str, object]]:
    loaded = load_spec(str(SPEC))
    scenario = scenario_of(loaded, compile_spec(loaded))
    found = {}
    for policy in (*sorted(PLACEMENTS), *sorted(ORDERS)):
        row = asdict(simulate(scenario, policy).summary)
        del row["run_s"]
        found[policy] = {k: round(v, DIGITS) if isinstance(v, float) else v for k, v in row.items()}
    return found


def test_every_policy_makes_of_the_shipped_scenario_what_it_always_made():
    found = rows()
    if os.environ.get("UNSTRAND_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

    assert json.loads(json.dumps(found)) == json.loads(GOLDEN.read_text())
