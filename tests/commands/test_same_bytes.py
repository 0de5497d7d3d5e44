"""Same input, same seed, one worker and a deterministic limit: the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def answer(spec: Path, hash_seed: str) -> str:
    """The JSON of solve without run times."""
    command = [sys.executable, str(ROOT / "cli.py"), "solve", str(spec)]
    options = ["--output", "json", "--workers", "1", "--seed", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=True, env=environment
    )
    said = json.loads(done.stdout)
    del said["timing"]
    return json.dumps(said)


@pytest.mark.parametrize("name", ["nvl72", "twelve-free-eight-wanted", "cpu-starved"])
def test_two_processes_answer_alike_whatever_the_hash_seed(name, tmp_path):
    spec = tmp_path / f"{name}.yaml"
    text = (ROOT / "specs" / f"{name}.yaml").read_text()
    spec.write_text(text + "\nsolve: {deterministic_limit: 20, time_limit: 120s}\n")

    first, second = answer(spec, "1"), answer(spec, "2")

    assert first == second
