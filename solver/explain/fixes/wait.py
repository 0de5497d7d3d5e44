"""Wait until enough of what runs has ended, where it is known when that is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from solver.explain.fixes.change import Change, listed
from solver.explain.question import Case, moving_name, places_for
from solver.problem import Problem
from solver.workload import RunningJob

TRIES = 3
"""Moments that are proposed; later ones help where others take the first."""


def wait(case: Case) -> Iterator[Change]:
    """The earliest moments at which the job fits."""
    ends_of = {j.name: j.ends_in_s for j in _running(case) if j.ends_in_s is not None}
    ends = sorted(set(ends_of.values()))
    if not ends or places_for(_once(ends[-1], ends_of)(case.claim)) is None:
        return
    first = bisect_left(
        ends, True, key=lambda end_s: places_for(_once(end_s, ends_of)(case.claim)) is not None
    )
    for end_s in ends[first : first + TRIES]:
        ended = [name for name, ends_in_s in ends_of.items() if ends_in_s == end_s]
        yield Change(
            kind="wait",
            text=f"wait {end_s} s, until {listed(ended)} has ended",
            params={"until_s": end_s, "for": ended[:10]},
            apply=_once(end_s, ends_of),
        )


def _running(case: Case) -> Iterator[RunningJob]:
    """What runs and is not evicted by the plan."""
    gone = {eviction.job for eviction in case.plan.evictions}
    left = {job.name for job in case.claim.running}
    return (job for job in case.problem.running if job.name in left or job.name not in gone)


def _once(end_s: int, ends_of: Mapping[str, int]) -> Callable[[Problem], Problem]:
    """The problem once everything has ended that ends by then."""
    ended = {name for name, ends_in_s in ends_of.items() if ends_in_s <= end_s}
    moving = {moving_name(name) for name in ended}

    def apply(problem: Problem) -> Problem:
        return replace(
            problem,
            running=tuple(job for job in problem.running if job.name not in ended),
            jobs=tuple(job for job in problem.jobs if job.name not in moving),
        )

    return apply
