"""Sweeps: the same rows wherever the runs are made, and none lost with a worker."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from simulator.policies import SimulationOptions
from simulator.scenario import Scenario
from simulator.sources import FixedSource, TraceSource
from simulator.sweep import (
    ATTEMPTS,
    MOST_WRONG,
    Cell,
    FailedRunError,
    LostWorkerError,
    Result,
    Sweep,
    run_here,
    run_local,
)
from simulator.sweep_ray import UnreachableRayError, run_ray
from simulator.traces.table import TraceError
from tests.simulator.story import Story

POLICIES = ("fifo-strict", "easy+fgd", "per-pod")


@dataclass(frozen=True)
class Fragile:
    """A source whose process is killed the first so many times that it is asked."""

    marks: str
    deaths: int = 1

    @property
    def name(self) -> str:
        return "fragile"

    def scenario(self, seed: int) -> Scenario:
        died = len(list(Path(self.marks).iterdir()))
        if died < self.deaths:
            (Path(self.marks) / f"{died}").touch()
            os.kill(os.getpid(), 9)
        return tiny()

    def fingerprint(self) -> str:
        return "fragile"


@dataclass(frozen=True)
class Broken:
    """A source that cannot be read."""

    name: str = "broken"

    def scenario(self, seed: int) -> Scenario:
        raise TraceError("jobs.csv", "a rule", "a way out", line=3)

    def fingerprint(self) -> str:
        return "broken"


def tiny() -> Scenario:
    """Two gangs of three on four GPUs."""
    story = Story().node("n1", gpus=4).job("a", runs=10, replicas=3, gpus=1)
    return story.job("b", runs=10, replicas=3, gpus=1).scenario()


def sweep(*, folder: Path | None = None) -> Sweep:
    """Two sources, three policies, two seeds."""
    sources = (FixedSource(tiny(), "tiny"), TraceSource("synthetic", "jobs=60,nodes=2"))
    cells = [
        Cell(source, policy, seed) for source in sources for policy in POLICIES for seed in (1, 2)
    ]
    return Sweep(cells=tuple(cells), options=SimulationOptions(), folder=folder)


def rows(results: Iterable[Result]) -> dict[Cell, dict]:
    """What came of every cell, but for how long it took."""
    found = {}
    for result in results:
        assert result.cell not in found
        found[result.cell] = asdict(result.summary) | {"run_s": 0}
    return found


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """An empty folder that counts deaths."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def test_two_processes_give_the_same_rows_as_one():
    here = rows(run_here(sweep()))

    apart = rows(run_local(sweep(), workers=2))

    assert list(here) == list(sweep().in_turn)
    assert set(here) == set(sweep().cells)
    assert apart == here
    assert len(here) == 12


def test_policies_of_one_scenario_run_in_a_row():
    turns = [(cell.source.name, cell.seed) for cell in sweep().in_turn]

    assert turns == [
        (name, seed)
        for name in ("story", "synthetic jobs=60,nodes=2")
        for seed in (1, 2)
        for _ in POLICIES
    ]


def test_two_processes_save_what_one_finds(tmp_path: Path):
    made = rows(run_local(sweep(folder=tmp_path), workers=2))

    found = list(run_here(sweep(folder=tmp_path)))

    assert all(result.cached for result in found)
    assert rows(found) == made


def test_a_sweep_that_was_given_up_goes_on_where_it_stopped(tmp_path: Path):
    given_up = run_here(sweep(folder=tmp_path))
    for _ in range(5):
        next(given_up)
    given_up.close()

    results = list(run_here(sweep(folder=tmp_path)))

    assert [result.cached for result in results] == [True] * 5 + [False] * 7
    assert rows(results) == rows(run_here(sweep()))


def test_only_what_is_kept_has_its_outcome():
    (cell, other), options = sweep().cells[:2], SimulationOptions()
    asked = Sweep(cells=(cell, other), options=options, keep=frozenset({cell}))

    kept, row = run_here(asked)

    assert kept.outcome is not None
    assert kept.outcome.summary == kept.summary
    assert row.outcome is None


def test_another_seed_is_another_synthetic_trace_and_the_same_fixed_one():
    table = rows(run_here(sweep()))
    fixed, drawn = ([table[c] for c in table if c.source.name == name and c.policy == "easy+fgd"]
                    for name in ("story", "synthetic jobs=60,nodes=2"))  # fmt: skip

    assert [row | {"seed": 0} for row in fixed] == [fixed[0] | {"seed": 0}] * 2
    assert drawn[0]["wait_mean_s"] != drawn[1]["wait_mean_s"]


def test_the_run_of_a_killed_worker_is_made_again(marks: Path):
    cells = (Cell(Fragile(str(marks)), "easy", 1), *sweep().cells[:3])
    asked = Sweep(cells=cells, options=SimulationOptions())

    table = rows(run_local(asked, workers=2))

    assert set(table) == set(cells)
    assert table[cells[0]]["finished"] == 2
    assert len(list(marks.iterdir())) == 1


def test_workers_that_are_lost_again_and_again_are_an_error(marks: Path):
    cell = Cell(Fragile(str(marks), deaths=100), "easy", 1)

    with pytest.raises(FailedRunError, match="easy with seed 1 on fragile") as caught:
        list(run_local(Sweep(cells=(cell,), options=SimulationOptions()), workers=1))

    assert isinstance(caught.value.error, LostWorkerError)
    assert len(list(marks.iterdir())) == ATTEMPTS


def test_a_run_that_takes_its_worker_with_it_leaves_the_others_alone(marks: Path):
    killer = Cell(Fragile(str(marks), deaths=100), "easy", 1)
    others = sweep().cells[:3]
    runs = run_local(Sweep(cells=(killer, *others), options=SimulationOptions()), workers=2)

    made = []
    with pytest.raises(FailedRunError, match="killed 3 times") as caught:
        made.extend(result.cell for result in runs)

    assert caught.value.more == 0
    assert set(made) == set(others)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_goes_wrong_says_which_it_was(workers: int):
    cells = (Cell(Broken(), "easy", 7),)
    asked = Sweep(cells=cells, options=SimulationOptions())

    with pytest.raises(FailedRunError, match=r"easy with seed 7 on broken.*jobs\.csv:3") as caught:
        list(run_here(asked) if workers == 1 else run_local(asked, workers))

    assert isinstance(caught.value.error, TraceError)


@pytest.mark.parametrize("workers", [1, 2])
def test_who_goes_wrong_again_and_again_ends_it(workers: int):
    seeds = range(3 * MOST_WRONG)
    asked = Sweep(
        cells=tuple(Cell(Broken(), "easy", n) for n in seeds), options=SimulationOptions()
    )

    with pytest.raises(FailedRunError) as caught:
        list(run_here(asked) if workers == 1 else run_local(asked, workers))

    assert caught.value.more == MOST_WRONG - 1
    assert f"(and {MOST_WRONG - 1} more)" in str(caught.value)


def test_what_was_left_half_written_is_gone_after_the_next_start(tmp_path: Path):
    asked = replace(sweep(folder=tmp_path), cells=sweep().cells[:1])
    list(run_here(asked))
    (run,) = (path.parent for path in tmp_path.rglob("summary.json"))
    (run / f".series.parquet.{2**22 + 1}.tmp").touch()

    list(run_here(asked))

    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_cluster_that_does_not_answer_is_told_soon():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there.
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnreachableRayError, match=address):
            next(run_ray(sweep(), address, 1))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_something_else_that_listens_is_told_soon(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("simulator.sweep_ray.ANSWER_S", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnreachableRayError, match="not in 4 s"):
            next(run_ray(sweep(), address, 1))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # A cluster that nobody asked for.

    assert rows(run_ray(sweep(), None, 2)) == rows(run_here(sweep()))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_makes_the_run_of_a_killed_worker_again(marks: Path):
    cells = (Cell(Fragile(str(marks)), "easy", 1), *sweep().cells[:2])

    table = rows(run_ray(Sweep(cells=cells, options=SimulationOptions()), None, 2))

    assert set(table) == set(cells)
    assert len(list(marks.iterdir())) == 1
