"""A saved plan against the cluster as its objects show it now: it is judged again before export."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from solver.solution import Plan
from solver.verify import verify
from specs.errors import SpecErrors, SpecFault

if TYPE_CHECKING:
    from solver.problem import Problem
    from solver.workload import RunningJob
    from specs.plans import SavedPlan

MAX_TOLD = 10


def check_holds(plan: SavedPlan, problem: Problem) -> None:
    """Judge a plan on a problem, without the running work that it stops or moves away.

    Parameters
    ----------
    problem
        What the objects say now; a plan that was made for another state, or for a spec that was
        edited since, may not hold in it.

    Raises
    ------
    SpecErrors
        The plan breaks a rule there, or stops work that is not there.
    """
    stopped: dict[str, set[int]] = defaultdict(set)
    for job, replicas in plan.evictions:
        stopped[job] |= set(replicas)
    for job, replica, _, _ in plan.moves:
        stopped[job].add(replica)
    left = [_without(job, stopped.get(job.name, set())) for job in problem.running]
    remaining = replace(problem, running=tuple(job for job in left if job.replicas))
    violations = verify(remaining, Plan.of(plan.placements))
    if violations:
        hint = "Import the objects and solve again"
        raise SpecErrors(
            SpecFault(
                file="plan",
                path=violation.subject,
                rule=f"does not hold in the cluster of these objects: {violation.text}",
                hint=hint,
            )
            for violation in violations[:MAX_TOLD]
        )


def _without(job: RunningJob, stopped: set[int]) -> RunningJob:
    """The job without some of its replicas."""
    kept = [index for index in range(len(job.replicas)) if index not in stopped]
    return replace(
        job,
        replicas=tuple(job.replicas[index] for index in kept),
        shapes=tuple(job.shapes[index] for index in kept),
    )
