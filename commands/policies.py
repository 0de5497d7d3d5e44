"""Names of policies on the command line, and the answer that one of them gives."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from commands.inputs import Question
    from solver.result import SolveResult
    from solver.solution import Plan

CP_SAT = "cp-sat"


def all_policies() -> list[str]:
    """Every greedy baseline, then cp-sat."""
    from solver.greedy import POLICIES

    return [*POLICIES, CP_SAT]


def check_policies(names: Iterable[str], option: str) -> None:
    """Refuse names that no policy has, before any work begins.

    Raises
    ------
    typer.BadParameter
        With the names that look like the one that was written.
    """
    from solver.greedy import UnknownPolicyError, parse_policy

    for name in names:
        if name == CP_SAT:
            continue
        try:
            parse_policy(name)
        except UnknownPolicyError as error:
            text = str(error)
            if text.startswith("no policy"):
                text += f", {CP_SAT}"
            if get_close_matches(name, [CP_SAT]):
                text = f'no policy "{name}"; did you mean {CP_SAT}?'
            raise typer.BadParameter(text, param_hint=option) from error


def answer(question: Question, policy: str, start: Plan | None = None) -> SolveResult:
    """What a policy makes of the question, with progress on standard error."""
    from report.progress import ProgressLine
    from solver.api import solve

    with ProgressLine(sys.stderr) as progress:
        result = solve(question.problem, question.options, policy, progress, start)
    notes = dict.fromkeys((*question.notes, *result.notes))
    return replace(result, notes=tuple(notes))
