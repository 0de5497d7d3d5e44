"""A simulation's input: machines, queues, and jobs with their arrivals and run times.

Times are whole milliseconds since the start of the trace, so that equal times are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import pi, sin
from typing import Literal

from solver.cluster import Node
from solver.fragmentation import TargetWorkload
from solver.problem import Problem
from solver.solution import Placement
from solver.workload import Job, Queue, Shape

MS = 1000
"""Milliseconds of a second."""

DAY_MS = 24 * 3600 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyLoad:
    """How many replicas a service wants over the day: a sine between its floor and its ceiling.

    The load is highest at `peak_ms` after midnight, lowest twelve hours later. It is looked at
    every `step_ms`, and whenever anything else happens.
    """

    peak_ms: int = 14 * 3600 * MS
    step_ms: int = 900 * MS

    def replicas(self, floor: int, ceiling: int, at_ms: int) -> int:
        """Replicas wanted at a moment, from `floor` to `ceiling`.

        Examples
        --------
        >>> load = DailyLoad()
        >>> [load.replicas(2, 10, hour * 3600 * MS) for hour in (2, 8, 14)]
        [2, 6, 10]
        """
        half_ms = DAY_MS // 2
        since_peak_ms = (at_ms - self.peak_ms + half_ms) % DAY_MS - half_ms  # every day the same
        phase = 2 * pi * since_peak_ms / DAY_MS + pi / 2
        return floor + round((ceiling - floor) * (1 + sin(phase)) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job of a trace: when it comes, how long it runs, how it can be stopped.

    Parameters
    ----------
    job
        What it asks for; its name is unique in the scenario.
    arrival_ms
        When it is submitted.
    duration_ms
        Run time with all its replicas in the best place, at least 1; None: it does not end by
        itself.
    outcome
        How the trace says it ended, once it has run for its duration.
    preemptible
        Whether it may be stopped for work of higher priority.
    checkpoint_ms
        Time between checkpoints; None: what it has done is lost when it is stopped.
    restart_ms
        What starting again costs, after it was stopped.
    load
        How many replicas a service wants over the day; None: always all of them.
    """

    job: Job
    arrival_ms: int
    duration_ms: int | None
    outcome: Literal["finished", "failed"] = "finished"
    preemptible: bool = True
    checkpoint_ms: int | None = None
    restart_ms: int = 60 * MS
    load: DailyLoad | None = None

    def __post_init__(self) -> None:
        if self.duration_ms is not None and self.duration_ms < 1:
            raise ValueError(f"{self.job.name}: a job that ends runs for at least 1 ms")
        if self.arrival_ms < 0:
            raise ValueError(f"{self.job.name}: it arrives before the trace begins")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Work that holds its place when the simulation begins.

    `arrival` says what it is and how long it still runs; `placements` has its replicas. Its last
    checkpoint was `checkpoint_age_ms` before time 0.
    """

    arrival: Arrival
    placements: tuple[Placement, ...]
    checkpoint_age_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A row of a trace that cannot be used: where it stands, and which rule it breaks."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The workload that fragmentation is relative to (Weng et al., ATC 2023).

    `shapes` are weighted by counts in the order in which they are summed; `population` is the
    number of tasks that they were chosen from.
    """

    shapes: tuple[tuple[Shape, int], ...]
    population: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """All that a simulation needs besides a policy and a seed.

    Parameters
    ----------
    nodes
        The machines; ties of placement scores go to the one that comes first.
    standing
        Work that is in place at time 0.
    arrivals
        Sorted by arrival; jobs that arrive together keep their order here.
    half_life_ms
        Time in which half of what a queue has used is forgotten; None: fair shares look at the
        present only.
    patient
        Whether jobs wait. Otherwise one that does not fit when it arrives is dropped for good.
    lines
        What has a waiting line of its own: the whole cluster, or each queue (which then has
        machines of its own).
    target
        What fragmentation is relative to; None: what stranded is relative to.
    demand
        What comes and how often, for prices; None: what the jobs are.
    reference_shapes
        What stranded is relative to; None derives it from the jobs.
    rejected
        Rows of the trace that could not be used.
    notes
        Sentences for the user: what was assumed.
    """

    name: str
    nodes: tuple[Node, ...]
    arrivals: tuple[Arrival, ...]
    standing: tuple[Standing, ...] = ()
    levels: tuple[str, ...] = ()
    queues: tuple[Queue, ...] = (Queue(name="default"),)
    half_life_ms: int | None = None
    patient: bool = True
    lines: Literal["cluster", "queue"] = "cluster"
    target: Target | None = None
    demand: tuple[tuple[Shape, int], ...] | None = None
    reference_shapes: tuple[tuple[Shape, int], ...] | None = None
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        times = [arrival.arrival_ms for arrival in self.arrivals]
        if times != sorted(times):
            raise ValueError("arrivals are sorted by time")

    @property
    def everyone(self) -> tuple[Arrival, ...]:
        """All jobs: those in place at the beginning, then those that arrive."""
        return (*(work.arrival for work in self.standing), *self.arrivals)

    @cached_property
    def problem(self) -> Problem:
        """Machines, queues and all jobs at once.

        Raises
        ------
        solver.problem.ProblemError
            Names used twice, or references to what does not exist.
        """
        return Problem(
            name=self.name,
            levels=self.levels,
            nodes=self.nodes,
            queues=self.queues,
            jobs=tuple(arrival.job for arrival in self.everyone),
            reference_shapes=self.reference_shapes,
        )

    @cached_property
    def workload(self) -> TargetWorkload:
        """What fragmentation is relative to, with all that was computed of it so far."""
        if self.target is not None:
            return TargetWorkload(self.target.shapes, self.target.population)
        return TargetWorkload(self.problem.reference)

    @cached_property
    def offered(self) -> tuple[tuple[Shape, int], ...]:
        """What comes and how often: what bid prices are made from."""
        if self.demand is not None:
            return self.demand
        counts: Counter[Shape] = Counter()
        for arrival in self.everyone:
            for role in arrival.job.roles:
                counts[role.shape] += role.replicas
        return tuple(counts.items())

    @cached_property
    def by_name(self) -> Mapping[str, Arrival]:
        """Arrivals by the name of their job."""
        return {arrival.job.name: arrival for arrival in self.everyone}

    @cached_property
    def rejected_by_reason(self) -> Mapping[str, int]:
        """How many rows of the trace could not be used, by reason, most frequent first."""
        return dict(Counter(row.reason for row in self.rejected).most_common())
