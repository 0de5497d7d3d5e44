"""Ctrl-C during a long search: the best plan so far is the answer."""

import json
import os
import random
import signal
import subprocess
import sys
import time
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


@pytest.mark.slow
def test_ctrl_c_returns_the_incumbent(tmp_path: Path):
    spec = tmp_path / "hard.yaml"
    spec.write_text(hard_spec())
    process = subprocess.Popen(
        [sys.executable, ROOT / "cli.py", "solve", spec, "-o", "json", "--time-limit", "100s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    time.sleep(8)
    assert process.poll() is None, "the search was over too soon to be interrupted"

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    answer = json.loads(out)
    assert process.returncode == 0, err
    assert answer["status"] == "feasible"
    assert answer["placements"]
    assert any("interrupted" in note for note in answer["notes"])
