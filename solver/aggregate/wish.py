"""What the linear program would start: the guide for packings, and their bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from solver.aggregate.relaxation import ADMISSION, Relaxation
from solver.tiers import Ruler
from solver.workload import Job

WHOLE = 0.99
"""A part of a gang, in the linear program, that counts as the whole of it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the linear program would start.

    Parameters
    ----------
    parts
        Job name to the part of it that starts; jobs of independent replicas are missing.
    worth
        The admission steps in their order: no plan is better.
    """

    parts: Mapping[str, float]
    worth: tuple[int, ...]

    def part(self, job: Job) -> float:
        """The part of a job that starts; independent replicas count as whole."""
        return self.parts.get(job.name, 1.0)

    def whole(self, job: Job) -> bool:
        """Whether the program starts the whole of a job."""
        return self.part(job) >= WHOLE


def wish_of(ruler: Ruler, program: Relaxation, left_s: Callable[[], float]) -> Wish | None:
    """What the linear program starts when the steps are taken in order; None if time runs out."""
    problem = ruler.problem
    parts: dict[str, float] = {}
    worth: list[int] = []
    for step in ruler.steps:
        if step.kind not in ADMISSION:
            continue
        found = program.bound(step, left_s())
        if found is None:
            return None
        # No more than what a plan may have: the program's value can lie above all whole ones.
        program.keep(step, min(found.bound, math.floor(found.value * (1 - 1e-7))))
        worth.append(found.bound)
        for job in problem.jobs:
            if job.priority == step.level and job.gang:
                parts[job.name] = found.parts[job.name]
    return Wish(parts, tuple(worth))
