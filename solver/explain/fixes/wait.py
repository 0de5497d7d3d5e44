"""Wait until enough of what runs has ended, where it is known when that is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.explain.fixes.change import Change, listed
from solver.explain.question import Case, places_for
from solver.problem import Problem

TRIES = 3
"""Moments that are proposed; later ones help where others take the first."""


def wait(case: Case) -> Iterator[Change]:
    """The earliest moments at which the job fits."""
    ends = sorted({j.ends_in_s for j in case.claim.running if j.ends_in_s is not None})
    if not ends or places_for(_once(ends[-1])(case.claim)) is None:
        return
    first = bisect_left(
        ends, True, key=lambda end_s: places_for(_once(end_s)(case.claim)) is not None
    )
    for end_s in ends[first : first + TRIES]:
        ended = [job.name for job in case.claim.running if job.ends_in_s == end_s]
        yield Change(
            kind="wait",
            text=f"wait {end_s} s, until {listed(ended)} has ended",
            params={"until_s": end_s, "for": ended[:10]},
            apply=_once(end_s),
        )


def _once(end_s: int) -> Callable[[Problem], Problem]:
    """The problem once everything has ended that ends by then."""

    def apply(problem: Problem) -> Problem:
        left = [j for j in problem.running if j.ends_in_s is None or j.ends_in_s > end_s]
        return replace(problem, running=tuple(left))

    return apply
