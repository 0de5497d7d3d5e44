"""What the bounds proved for one plan say about other plans of the same problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solver.result import ObjectiveTerm, SolveResult, SolveStatus


def share_bounds(results: Sequence[SolveResult]) -> list[SolveResult]:
    """Judge each result by the sharpest bounds that any of them proved.

    A bound of step k holds for every plan at least as good in the steps before it. So it also
    holds for a plan with equal values there, and a greedy plan that equals a proved optimum in
    every step is an optimum itself.

    Parameters
    ----------
    results
        Answers to one problem, so with the same steps.
    """
    judged = list(results)
    for judge in results:
        judged = [_judged_by(judge, result) for result in judged]
    return judged


def first_gap(result: SolveResult) -> ObjectiveTerm | None:
    """The first step in order that is not proved optimal; None where all are.

    What later steps reach does not matter as long as an earlier one can be improved.
    """
    return next((term for term in result.objectives if term.value != term.bound), None)


def _judged_by(judge: SolveResult, result: SolveResult) -> SolveResult:
    terms = list(result.objectives)
    for place, (ours, proved) in enumerate(zip(result.objectives, judge.objectives, strict=True)):
        sharper = min if ours.sense == "max" else max
        terms[place] = replace(ours, bound=sharper(ours.bound, proved.bound))
        if ours.value != proved.value:
            break
    else:
        if judge.status is not SolveStatus.FEASIBLE:
            return replace(result, objectives=tuple(terms), status=judge.status)
    return replace(result, objectives=tuple(terms))
