"""Runs on disk: whole or made again, and as they were when they are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from simulator.policies import SimulationOptions
from simulator.run import simulate
from simulator.saving import folder_of, save, saved_outcome, saved_summary, sweep_drafts
from simulator.sources import FixedSource
from simulator.sweep import Cell, FailedRunError, Sweep, run_here
from tests.simulator.story import Story


def story(runs: float = 10) -> Story:
    """Two queues, a job that never fits, one that fails, one that goes on."""
    told = Story().queue("red").queue("blue").node("n1", gpus=4, cpu=8)
    told.job("a", runs=runs, gpus=3, cpu=4, queue="red").job("huge", at=1, gpus=9, queue="blue")
    told.job("b", at=1, runs=5, gpus=2, queue="blue", fails=True)
    return told.job("endless", at=2, gpus=1, queue="red")


def sweep(root: Path, given: Story, policy: str = "fifo-skip", **changes: object) -> Sweep:
    """One run of a story, whose content is what it says."""
    scenario = given.scenario()
    cell = Cell(FixedSource(scenario, repr(scenario)), policy, 1)
    told = Sweep(cells=(cell,), options=SimulationOptions(), folder=root)
    return replace(told, **changes)


def once(given: Sweep) -> bool:
    """Make the run of a sweep; whether it was there already."""
    (result,) = run_here(given)
    return result.cached


def only(root: Path, name: str) -> Path:
    """The one file of that name."""
    (found,) = root.rglob(name)
    return found


def test_a_run_that_is_there_is_not_made_again(tmp_path: Path):
    assert not once(sweep(tmp_path, story()))

    assert once(sweep(tmp_path, story()))


def test_the_row_of_a_saved_run_is_the_row_it_had(tmp_path: Path):
    (made,) = run_here(sweep(tmp_path, story()))

    (read,) = run_here(sweep(tmp_path, story()))

    assert read.cached
    assert read.summary == made.summary


def test_a_changed_scenario_is_run_again(tmp_path: Path):
    once(sweep(tmp_path, story()))

    assert not once(sweep(tmp_path, story(runs=11)))


def test_changed_options_are_run_again(tmp_path: Path):
    once(sweep(tmp_path, story()))

    assert not once(sweep(tmp_path, story(), options=SimulationOptions(penalty=0.5)))


def test_another_policy_has_a_folder_of_its_own(tmp_path: Path):
    once(sweep(tmp_path, story()))

    assert not once(sweep(tmp_path, story(), "easy"))
    assert once(sweep(tmp_path, story()))


@pytest.mark.parametrize("damage", ["cut", "empty", "no object", "gone", "another format"])
def test_a_summary_that_is_not_whole_is_made_again(tmp_path: Path, damage: str):
    once(sweep(tmp_path, story()))
    path = only(tmp_path, "summary.json")
    text = path.read_text()
    if damage == "gone":
        path.unlink()
    else:
        kept = json.dumps(json.loads(text) | {"format": -1})
        path.write_text(
            {
                "cut": text[: len(text) // 2],
                "empty": "",
                "no object": "[1]",
                "another format": kept,
            }[damage]
        )

    assert not once(sweep(tmp_path, story()))
    assert once(sweep(tmp_path, story()))


@pytest.mark.parametrize("name", ["jobs.parquet", "events.parquet", "series.parquet"])
def test_a_run_without_one_of_its_tables_is_made_again(tmp_path: Path, name: str):
    once(sweep(tmp_path, story()))
    only(tmp_path, name).unlink()

    assert not once(sweep(tmp_path, story()))


def test_a_saved_outcome_is_what_was_saved_but_for_its_log(tmp_path: Path):
    outcome = simulate(story().scenario(), "fifo-skip")
    save(outcome, tmp_path / "run", "mark")

    summary = saved_summary(tmp_path / "run", "mark")
    read = saved_outcome(tmp_path / "run", summary)

    assert read.summary == outcome.summary
    assert read.jobs == outcome.jobs
    assert read.series.columns() == outcome.series.columns()
    assert read.series.queue_milli == outcome.series.queue_milli
    assert (read.log, len(outcome.log) > 0) == ((), True)


def test_a_run_without_jobs_can_be_saved_and_read(tmp_path: Path):
    outcome = simulate(Story().node("n1", gpus=1).scenario(), "fifo-skip")
    save(outcome, tmp_path / "run", "mark")

    read = saved_outcome(tmp_path / "run", saved_summary(tmp_path / "run", "mark"))

    assert read.jobs == ()
    assert read.series.columns() == outcome.series.columns()


def test_a_run_of_which_nothing_ever_started_can_be_read(tmp_path: Path):
    outcome = simulate(Story().node("n1", gpus=1).job("huge", gpus=2).scenario(), "fifo-skip")
    save(outcome, tmp_path / "run", "mark")

    read = saved_outcome(tmp_path / "run", saved_summary(tmp_path / "run", "mark"))

    assert read.jobs == outcome.jobs


def test_the_tables_say_what_happened(tmp_path: Path):
    once(sweep(tmp_path, story()))

    events = pl.read_parquet(only(tmp_path, "events.parquet"))
    jobs = pl.read_parquet(only(tmp_path, "jobs.parquet"))

    assert events.filter(pl.col("job") == "a")["event"].to_list() == ["arrive", "start", "end"]
    assert events["time_ms"].is_sorted()
    assert dict(zip(jobs["job"], jobs["state"], strict=True)) == {
        "a": "finished",
        "b": "failed",
        "endless": "running",
        "huge": "unschedulable",
    }


def test_another_mark_is_another_run(tmp_path: Path):
    save(simulate(story().scenario(), "fifo-skip"), tmp_path, "mark")

    assert saved_summary(tmp_path, "mark") is not None
    assert saved_summary(tmp_path, "other") is None


@pytest.mark.parametrize("name", ["../up", "..", ".", "a/b", "/etc", "", "x" * 300, "Größe 1:2"])
def test_every_run_is_in_a_folder_below_the_root(tmp_path: Path, name: str):
    folder = folder_of(tmp_path, name, "easy+best-fit", 1)

    assert folder.resolve().is_relative_to(tmp_path.resolve())
    assert len(folder.resolve().relative_to(tmp_path.resolve()).parts) == 2
    folder.mkdir(parents=True)


def test_no_two_runs_share_a_folder(tmp_path: Path):
    names = ["a b", "a_b", "a/b", "a", "a-1", "x" * 60, "x" * 61, "x" * 62]
    folders = {
        folder_of(tmp_path, name, policy, seed)
        for name in names
        for policy in ("easy", "easy+fgd")
        for seed in (1, 11)
    }

    assert len(folders) == len(names) * 4


def test_no_drafts_are_left_behind(tmp_path: Path):
    once(sweep(tmp_path, story()))

    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "jobs.parquet",
        "events.parquet",
        "series.parquet",
        "summary.json",
    }


def test_what_a_killed_process_left_half_written_is_swept(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [folder / f".{name}.{dead.pid}.tmp" for name in ("jobs.parquet", "summary.json")]
    living = folder / f".jobs.parquet.{os.getpid()}.tmp"
    others = [folder / ".notes.tmp", folder / f".mine.{dead.pid}.tmp", folder / "jobs.parquet"]
    for path in (*left, living, *others):
        path.touch()

    sweep_drafts(folder)

    assert sorted(folder.iterdir()) == sorted([living, *others])


def test_a_run_whose_tables_cannot_be_read_any_more_is_made_again(tmp_path: Path):
    given = sweep(tmp_path, story())
    kept = replace(given, keep=frozenset(given.cells))
    assert not once(kept)
    assert once(kept)

    (path,) = tmp_path.rglob("series.parquet")
    path.write_bytes(path.read_bytes()[:40])

    assert not once(kept)
    assert once(kept)


def test_a_full_disk_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise pl.exceptions.ComputeError("parquet: No space left on device (os error 28)")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)

    with pytest.raises(FailedRunError, match="No space left") as caught:
        once(sweep(tmp_path, story()))

    assert isinstance(caught.value.__cause__, OSError)
    assert not list(tmp_path.rglob("*.tmp"))
