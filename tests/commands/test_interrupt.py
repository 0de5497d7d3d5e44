"""Ctrl-C during a long search: the best plan so far is the answer."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
NODES, GANGS = 96, 120


def hard_spec() -> str:
    """Half-occupied nodes and gangs of many sizes: more than two seconds of search."""
    rng = random.Random(7)
    running = []
    for node in range(NODES):
        gpus = sorted(rng.sample(range(8), rng.randint(1, 7)))
        place = {"node": f"h-{node}", "gpus": gpus, "cpu": 9 * len(gpus)}
        running.append({"job": f"old-{node}", "replicas": [place]})
    jobs = [
        {
            "name": f"gang-{i}",
            "replicas": rng.randint(1, 6),
            "gpus": rng.choice([1, 2, 3, 4, 5]),
            "cpu": rng.randint(10, 60),
            "priority": rng.choice([1, 2]),
        }
        for i in range(GANGS)
    ]
    pool = {"name": "h", "count": NODES, "preset": "hgx-h100", "cpu": 192}
    spec = {"cluster": {"name": "hard", "pools": [pool]}, "running": running, "jobs": jobs}
    return yaml.safe_dump(spec)


INTERRUPTED_AT_THE_FIRST_PLAN = """
import os, signal, sys, threading, time
sys.path.insert(0, {root!r})
import cli
from solver import searching

greedy = searching.best_greedy

def greedy_then_ctrl_c(*args):
    found = greedy(*args)
    threading.Timer({after_s}, os.kill, (os.getpid(), signal.SIGINT)).start()
    return found

searching.best_greedy = greedy_then_ctrl_c
cli.main(["solve", {spec!r}, "-o", "json", "--time-limit", "100s"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.05, 0.4, 1.5, 3.0])
def test_ctrl_c_returns_the_incumbent(tmp_path: Path, after_s: float):
    """Whatever the search does at that moment: build, relax, round or search."""
    spec = tmp_path / "hard.yaml"
    spec.write_text(hard_spec())
    program = INTERRUPTED_AT_THE_FIRST_PLAN.format(root=str(ROOT), spec=str(spec), after_s=after_s)

    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert answer["status"] == "feasible"
    assert answer["placements"]
    assert any("interrupted" in note for note in answer["notes"])


CTRL_C_AFTER_EVERY_SOLVER_CALL = """
import os, signal, sys
sys.path.insert(0, {root!r})
import solver.search as search
from ortools.sat.python import cp_model

model = cp_model.CpModel()
x = model.new_int_var(0, 3, "x")
limits = search.SearchLimits(
    effort=search.Effort.QUICK, time_s=5, deterministic=None, workers=1, seed=1, gap=0
)
search.search(model, x, "max", limits)
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
except KeyboardInterrupt:
    print("caught")
"""


def test_a_search_leaves_ctrl_c_as_it_was():
    """CP-SAT's own handler, once registered, leaves a Ctrl-C that kills the process."""
    program = CTRL_C_AFTER_EVERY_SOLVER_CALL.format(root=str(ROOT))

    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (process.returncode, process.stdout) == (0, "caught\n")


def test_cp_sat_runs_in_one_place_only():
    """Elsewhere it would run in the main thread, with its own handler of Ctrl-C."""
    runs = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "solver").rglob("*.py"))
        if "CpSolver()" in path.read_text()
    ]

    assert runs == ["solver/search.py"]
