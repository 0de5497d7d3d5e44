"""What came of one run: its row of the table, what became of every job, series and log."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.lives import State
from simulator.metrics import Series
from simulator.state import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What became of one job; times in milliseconds, None where it never came to that."""

    job: str
    queue: str
    kind: str
    gpu_milli: int
    arrival_ms: int
    start_ms: int | None
    end_ms: int | None
    state: State
    reason: str
    preemptions: int
    lost_gpu_ms: int

    @property
    def wait_ms(self) -> int | None:
        """From arrival to the first start."""
        return None if self.start_ms is None else self.start_ms - self.arrival_ms


MOST_NAMED = 20
"""Jobs that a row names of those that never started or still wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A job that never fits the empty cluster, or still waits at the end, and why."""

    job: str
    state: State
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One row of the comparison.

    `finished`, `failed` (by themselves, or dropped on arrival where nobody waits),
    `unschedulable` (they never fit), `waiting` (still, when nothing more ends or arrives) and
    `running` (they do not end by themselves) add up to all jobs.

    Times are None where no job started, or none ended. `left` names the first `MOST_NAMED` of
    those that never fit or still wait.
    """

    policy: str
    seed: int
    finished: int
    failed: int
    unschedulable: int
    waiting: int
    running: int
    left: tuple[Left, ...]
    utilization_ratio: float
    goodput_ratio: float
    wait_mean_s: float | None
    wait_p50_s: float | None
    wait_p90_s: float | None
    wait_p99_s: float | None
    wait_max_s: float | None
    jct_mean_s: float | None
    stranded_gpus_mean: float
    fragmentation_gpus_mean: float
    deadlocks: int
    preemptions: int
    lost_gpu_h: float
    allocated_milli: int
    fragmentation_milli: float
    jain: float
    share_gap_mean: float
    share_gap_max: float
    finish_rho_max: float | None
    finish_rho_mean: float | None
    makespan_s: float
    events: int
    run_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A whole run."""

    summary: Summary
    jobs: tuple[JobOutcome, ...]
    series: Series
    log: tuple[Entry, ...]
