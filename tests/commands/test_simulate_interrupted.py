"""``simulate`` when it is stopped, or when its workers are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACE = "synthetic:jobs=400,nodes=4"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="children are looked up in /proc"
)


def begin(folder: Path, seeds: str) -> subprocess.Popen[str]:
    words = ["--trace", TRACE, "--policies", "easy", "--seeds", seeds, "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "cli.py", "simulate", *words, "--save", folder, "--output", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_runs(folder: Path, count: int) -> None:
    until = time.monotonic() + 60
    while len(list(folder.rglob("summary.json"))) < count:
        assert time.monotonic() < until, "no run was finished"
        time.sleep(0.02)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that make the runs."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_ctrl_c_before_anything_is_finished_is_one_line(tmp_path: Path):
    """Sent to all processes, as a terminal does, while the workers are still starting."""
    words = ["--trace", "synthetic:jobs=2000,nodes=8,load=1.1", "--policies", "first-fit,best-fit"]
    process = subprocess.Popen(
        [sys.executable, "cli.py", "simulate", *words, "--workers", "2", "--save", tmp_path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not workers_of(process):
        assert time.monotonic() < until, "no worker was started"

    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err.strip()) == (130, "", "interrupted")


def test_ctrl_c_keeps_what_is_finished_and_a_rerun_goes_on(tmp_path: Path):
    first = begin(tmp_path, "1-200")
    wait_for_runs(tmp_path, 4)  # Two of them may be saved, but not yet told by their workers.

    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)

    answer = json.loads(out)
    done = len(answer["rows"])
    assert first.returncode == 0, err
    assert 2 <= done < 200
    assert f"interrupted: {done} of 200 runs are finished" in answer["notes"]

    kept = [row["seed"] for row in answer["rows"]][:2]
    again, _ = begin(tmp_path, ",".join(map(str, [*kept, 201]))).communicate(timeout=60)

    assert any(
        note.startswith("2 of 3 runs were there already") for note in json.loads(again)["notes"]
    )
    rows = {row["seed"]: row for row in answer["rows"]}
    assert [rows[row["seed"]] for row in json.loads(again)["rows"][:2]] == [rows[s] for s in kept]


def test_a_worker_that_is_killed_loses_no_run(tmp_path: Path):
    sweep = begin(tmp_path, "1-20")
    wait_for_runs(tmp_path, 1)

    os.kill(workers_of(sweep)[0], signal.SIGKILL)
    out, err = sweep.communicate(timeout=120)

    assert sweep.returncode == 0, err
    assert [row["seed"] for row in json.loads(out)["rows"]] == list(range(1, 21))
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_is_killed(how: signal.Signals, tmp_path: Path):
    sweep = begin(tmp_path, "1-200")
    wait_for_runs(tmp_path, 1)
    workers = workers_of(sweep)

    sweep.send_signal(how)
    sweep.communicate(timeout=60)  # The workers have its pipes, too.

    assert len(workers) == 2
    assert not any(b"spawn_main" in command_of(pid) for pid in workers)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # It is gone.
        return b""
