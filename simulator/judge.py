"""What can never start, and why: found out when it arrives, so that nobody waits for it."""

from __future__ import annotations

from dataclasses import replace

from simulator.state import Unit
from solver.api import solve
from solver.greedy import PLACEMENTS
from solver.greedy.draft import Draft
from solver.options import SolveOptions
from solver.problem import Problem
from solver.reasons import pending
from solver.solution import Plan

TRIED = ("first-fit", "topology-aware")
"""Placements that are tried on the empty cluster before the solver is asked."""

EXACT = SolveOptions(time_limit_s=20, deterministic_limit=10, workers=1)


class Judge:
    """Knows which units the empty cluster cannot hold; alike ones are looked at once."""

    def __init__(self, problem: Problem) -> None:
        self._problem = replace(problem, jobs=(), reference_shapes=problem.reference)
        self._whole = problem
        self._drafts: dict[str, Draft] = {}
        self._known: dict[int, str | None] = {}

    def verdict(self, unit: Unit) -> str | None:
        """Why a unit can never start, in a sentence that begins with the rule; None if it can."""
        if unit.lane not in self._known:
            self._known[unit.lane] = self._judge(unit)
        return self._known[unit.lane]

    def _judge(self, unit: Unit) -> str | None:
        for name in TRIED:
            draft = self._draft(name)
            fits = draft.start(unit.jobs)
            draft.roll_back(0)
            if fits:
                return None
        alone = replace(self._problem, jobs=tuple(unit.jobs))
        plan = Plan()
        if sum(job.replicas for job in unit.jobs) > 1:
            # The drafts may have missed a way; one replica by itself they do not miss.
            plan = solve(alone, EXACT).plan
        if all(job.name in plan.by_job for job in unit.jobs):
            return None
        waits = pending(alone, plan)
        return f"{waits[0].reason}: {waits[0].text}"

    def _draft(self, name: str) -> Draft:
        """The empty cluster under a placement, made when it is needed: most units fit the first."""
        if name not in self._drafts:
            self._drafts[name] = Draft(self._whole, PLACEMENTS[name](self._whole, 1))
        return self._drafts[name]
