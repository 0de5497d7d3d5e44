"""Names of policies on the command line, and the answer that one of them gives."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from commands.inputs import Question
    from solver.prices.saved import SavedPrices
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


def read_prices(path: Path | None, names: Iterable[str]) -> SavedPrices | None:
    """The prices of a file; None where none is named.

    Raises
    ------
    specs.errors.SpecErrors
        The file has no prices.
    typer.BadParameter
        None of the policies places by prices.
    """
    from specs.prices import load_prices

    if path is None:
        return None
    check_priced(names, "--prices")
    return load_prices(path)


def check_priced(names: Iterable[str], option: str) -> None:
    """Refuse an option about prices where nobody places by any.

    Raises
    ------
    typer.BadParameter
        None of the policies places by prices.
    """
    from solver.greedy.bid_price import BID_PRICES

    if not any(name.rpartition("+")[2] in BID_PRICES for name in names):
        text = f"none of these policies places by prices; {BID_PRICES[0]} does"
        raise typer.BadParameter(text, param_hint=option)


def answer(
    question: Question,
    policy: str,
    start: Plan | None = None,
    prices: SavedPrices | None = None,
) -> SolveResult:
    """What a policy makes of the question, with progress on standard error."""
    from report.progress import ProgressLine
    from solver.api import solve

    with ProgressLine(sys.stderr) as progress:
        result = solve(question.problem, question.options, policy, progress, start, prices)
    notes = dict.fromkeys((*question.notes, *result.notes))
    return replace(result, notes=tuple(notes))
