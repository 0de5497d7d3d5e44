"""Ruin and recreate: stops some jobs of a packing and starts others, when that is no worse.

What is stopped lies together: jobs on a few nodes, of one priority level and those below. Then
those jobs and some that wait are tried, those first that the linear program would start. A round
that makes nothing worse stays, so that the search drifts. Rounds cost what they touch and not what
the cluster holds.

References
----------
P. Shaw, "Using constraint programming and local search methods to solve vehicle routing problems",
CP 1998.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from random import Random

import numpy as np

from solver.aggregate.packer import Packer, Seats
from solver.aggregate.relaxation import ADMISSION
from solver.aggregate.wish import Wish
from solver.tiers import admitted
from solver.workload import Job

STOPPED, SPARE, TRIED = 2, 4, 12
"""Jobs around which a round stops others, nodes with idle GPUs beside, waiting jobs it tries.

As many again of the waiting jobs that the linear program would start.
"""

NOISE = 0.3
"""How far chance moves a job in the order of the linear program's parts."""

Worth = tuple[int, ...]


class Ruin:
    """Works on one packer, which it changes in place.

    Parameters
    ----------
    wish
        What the linear program would start.
    """

    def __init__(self, packer: Packer, seed: int, wish: Wish) -> None:
        self._packer = packer
        self._problem = packer.problem
        self._wish = wish
        self._rng = Random(seed)
        self._levels = sorted({job.priority for job in self._problem.jobs}, reverse=True)
        self._position = self._problem.position
        self._free = [j for j in self._problem.jobs if j.gang and j.start_group is None]
        self._on_node: dict[int, set[str]] = defaultdict(set)
        for name in packer.seats:
            self._enter(name)

    def run(self, worth: Worth, deadline_s: float, rounds: int | None) -> Worth:
        """Go on until nothing is missed, or time or rounds are over; the worth in the end.

        Parameters
        ----------
        worth
            The admission steps, level by level, of what is there.
        """
        done = 0
        while (rounds is None or done < rounds) and time.monotonic() < deadline_s:
            level = self._level_that_misses(worth)
            if level is None:
                break
            change = self._round(level)
            worth = tuple(a + b for a, b in zip(worth, change, strict=True))
            done += 1
        return worth

    def _level_that_misses(self, worth: Worth) -> int | None:
        """A level drawn by how much it misses."""
        missed = []
        for place, _ in enumerate(self._levels):
            here = slice(place * len(ADMISSION), (place + 1) * len(ADMISSION))
            gaps = dict(
                zip(ADMISSION, np.subtract(self._wish.worth[here], worth[here]), strict=True)
            )
            gaps["oldest"] = gaps["oldest"] / len(self._problem.jobs)
            missed.append(float(sum(max(0, gap) for gap in gaps.values())))
        if not any(missed):
            return None
        return self._rng.choices(self._levels, missed)[0]

    def _round(self, level: int) -> Worth:
        """By how much the worth changes: never for the worse."""
        nothing = (0,) * (len(self._levels) * len(ADMISSION))
        jobs = [job for job in self._free if job.priority <= level]
        seated = [job for job in jobs if job.name in self._packer.seats]
        waiting = [job for job in jobs if job.name not in self._packer.seats]
        if not seated:
            return nothing
        stopped = self._around(seated, level)
        wished = [job for job in waiting if self._wish.whole(job)]
        others = [job for job in waiting if not self._wish.whole(job)]
        tried = [
            job
            for jobs in (wished, others)
            for job in self._rng.sample(jobs, min(TRIED, len(jobs)))
        ]
        touched = [*stopped, *tried]
        before: dict[str, Seats | None] = dict.fromkeys(job.name for job in tried)
        old = self._worth(touched)
        for job in stopped:
            self._leave(job.name)
            before[job.name] = self._packer.stop(job)
        order = sorted(
            touched,
            key=lambda j: (
                -j.priority,
                -self._wish.part(j) + self._rng.random() * NOISE,
                self._position[j.name],
            ),
        )
        for job in order:
            if self._packer.start(job):
                self._fill_up(job)
        change = tuple(a - b for a, b in zip(self._worth(touched), old, strict=True))
        if change < nothing:
            for job in touched:
                if job.name in self._packer.seats:
                    self._packer.stop(job)
            for job in touched:
                seats = before[job.name]
                if seats is not None:
                    self._packer.restore(job, seats)
            change = nothing
        for job in touched:
            if job.name in self._packer.seats:
                self._enter(job.name)
        return change

    def _around(self, seated: Sequence[Job], level: int) -> list[Job]:
        """The jobs that share a few nodes."""
        rng, packer = self._rng, self._packer
        allowed = {job.name for job in seated}
        mine = [job for job in seated if job.priority == level] or list(seated)
        nodes = {
            seat.node
            for job in rng.sample(mine, min(len(mine), STOPPED))
            for places in packer.seats[job.name].values()
            for seat in places
        }
        spare = np.flatnonzero(packer.stock.idle)
        nodes |= {int(spare[rng.randrange(len(spare))]) for _ in range(SPARE if len(spare) else 0)}
        names = {name for n in nodes for name in self._on_node[n]} & allowed
        return [self._problem.job_by_name[name] for name in sorted(names)]

    def _fill_up(self, job: Job) -> None:
        """What an elastic gang takes beyond its minimum."""
        for role in job.roles:
            for _ in range(role.replicas - role.min_replicas):
                if not self._packer.place(job, {role.name: 1}):
                    break

    def _worth(self, jobs: Sequence[Job]) -> Worth:
        sums: dict[tuple[int, str], int] = defaultdict(int)
        for job in jobs:
            seats = self._packer.seats.get(job.name, {})
            counts = {role: len(places) for role, places in seats.items()}
            for kind in ADMISSION:
                sums[job.priority, kind] += admitted(self._problem, job, counts, kind)
        return tuple(sums[level, kind] for level in self._levels for kind in ADMISSION)

    def _enter(self, name: str) -> None:
        for places in self._packer.seats[name].values():
            for seat in places:
                self._on_node[seat.node].add(name)

    def _leave(self, name: str) -> None:
        for places in self._packer.seats[name].values():
            for seat in places:
                self._on_node[seat.node].discard(name)
