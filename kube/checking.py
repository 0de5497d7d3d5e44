"""A saved plan against the cluster as its objects show it now: it is judged again before export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solver.verify import verify
from specs.errors import SpecErrors, SpecFault

if TYPE_CHECKING:
    from solver.problem import Problem
    from solver.solution import Plan

MAX_TOLD = 10


def check_holds(plan: Plan, problem: Problem) -> None:
    """Judge a plan on a problem.

    Parameters
    ----------
    problem
        What the objects say now; a plan that was made for another state, or for a spec that was
        edited since, may not hold in it.

    Raises
    ------
    SpecErrors
        The plan breaks a rule there.
    """
    violations = verify(problem, plan)
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
