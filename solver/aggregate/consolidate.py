"""Brings gangs together: the same jobs on fewer groups of nodes, a few gangs at a time.

A gang that spans more groups than it needs is taken off its seats together with its neighbours
there and those on a few other nodes; all are seated anew, the largest first. What does not span
fewer groups afterwards, or does not find room, is put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from solver.aggregate.packer import Packer, Seats
from solver.aggregate.spans import Spans
from solver.workload import Job

OTHER_NODES = 3
MOST_JOBS = 14
IN_VAIN = 400
"""Attempts without success after which the search gives up."""


class Consolidator:
    """Works on one packer, which it changes in place.

    Parameters
    ----------
    hungry
        Sorts jobs, the hardest to place first.
    """

    def __init__(
        self, packer: Packer, seed: int, hungry: Callable[[Job], tuple[float, ...]]
    ) -> None:
        self._packer = packer
        self._problem = packer.problem
        self._hungry = hungry
        self._rng = Random(seed)
        self._spans = Spans(packer)
        self._on_node: dict[int, set[str]] = {}
        for name, seats in packer.seats.items():
            self._enter(name, seats)

    def run(self, deadline_s: float, rounds: int | None) -> int:
        """Try until nothing helps any more, or time or rounds are over; how often it helped."""
        helped = in_vain = done = 0
        costly = self._costly()
        while costly and in_vain < IN_VAIN + 4 * len(costly):
            if time.monotonic() > deadline_s or (rounds is not None and done >= rounds):
                break
            done += 1
            job = self._rng.choice(costly)
            if self._attempt(job):
                helped, in_vain = helped + 1, 0
                costly = self._costly()
            else:
                in_vain += 1
        return helped

    def _costly(self) -> list[Job]:
        jobs = (self._problem.job_by_name[name] for name in self._packer.seats)
        return [job for job in jobs if any(self._spans.excess(job))]

    def _attempt(self, job: Job) -> bool:
        packer = self._packer
        nodes = {s.node for places in packer.seats[job.name].values() for s in places}
        chosen = set(self._rng.sample(sorted(nodes), min(len(nodes), OTHER_NODES)))
        all_nodes = sorted(self._on_node)
        chosen |= {self._rng.choice(all_nodes) for _ in range(OTHER_NODES)}
        names = {job.name} | {name for n in sorted(chosen) for name in self._on_node.get(n, ())}
        jobs = [self._problem.job_by_name[name] for name in sorted(names)]
        jobs = [j for j in jobs if j.gang]
        if len(jobs) > MOST_JOBS:
            return False
        before = [self._spans.excess(j) for j in jobs]
        old = [(j, self._stop(j)) for j in jobs]
        ranked = sorted(
            old, key=lambda pair: (*self._hungry(pair[0]), -pair[0].replicas, self._rng.random())
        )
        new: list[Job] = []
        for other, seats in ranked:
            if not packer.place(other, {role: len(places) for role, places in seats.items()}):
                break
            self._enter(other.name, packer.seats[other.name])
            new.append(other)
        if len(new) == len(jobs):
            after = [self._spans.excess(j) for j in jobs]
            if _total(after) < _total(before):
                return True
        for other in new:
            self._stop(other)
        for other, seats in old:
            packer.restore(other, seats)
            self._enter(other.name, seats)
        return False

    def _enter(self, name: str, seats: Seats) -> None:
        for places in seats.values():
            for seat in places:
                self._on_node.setdefault(seat.node, set()).add(name)

    def _stop(self, job: Job) -> Seats:
        seats = self._packer.stop(job)
        for places in seats.values():
            for seat in places:
                self._on_node[seat.node].discard(job.name)
        return seats


def _total(spans: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Level by level, outermost first."""
    return tuple(sum(level) for level in zip(*spans, strict=True))
