"""From options on the command line to a problem and the limits of its solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from solver.options import ModelChoice, SolveOptions
    from solver.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A spec that was read: what is asked, within which limits, and what was assumed.

    `text` is the spec as it was written.
    """

    problem: Problem
    options: SolveOptions
    notes: tuple[str, ...]
    text: str


def read_question(
    spec: str,
    *,
    max_size: str | None = None,
    time_limit: str | None = None,
    workers: int | None = None,
    seed: int | None = None,
    model: ModelChoice | None = None,
) -> Question:
    """Read a spec; options that are given go before those of its ``solve:`` section.

    Raises
    ------
    specs.errors.SpecErrors
        The spec has faults.
    typer.BadParameter
        An option is no quantity or no duration.
    """
    from specs.compile import compile_spec
    from specs.loader import MAX_SIZE_BYTES, load_spec

    limit_bytes = MAX_SIZE_BYTES if max_size is None else size_bytes(max_size)
    given: dict[str, object] = {"workers": workers, "seed": seed, "model": model}
    given["time_limit_s"] = None if time_limit is None else duration_s(time_limit)
    loaded = load_spec(spec, limit_bytes)
    compiled = compile_spec(loaded)
    chosen = {key: value for key, value in given.items() if value is not None}
    return Question(
        problem=compiled.problem,
        options=replace(compiled.options, **chosen),  # type: ignore[arg-type]
        notes=compiled.notes,
        text=loaded.document.text,
    )


def size_bytes(text: str) -> int:
    """Bytes of ``--max-size``."""
    from specs.models.quantity import QuantityError, memory_bytes

    try:
        size = memory_bytes(text)
    except QuantityError as error:
        raise typer.BadParameter(f'"{text}": {error}', param_hint="--max-size") from error
    if not size:
        raise typer.BadParameter("a spec has at least one byte", param_hint="--max-size")
    return size


def duration_s(text: str, option: str = "--time-limit") -> float:
    """Seconds of an option that says how long."""
    from specs.models.quantity import QuantityError, parse_duration_s

    try:
        limit_s = float(parse_duration_s(text))
    except QuantityError as error:
        raise typer.BadParameter(f'"{text}": {error}', param_hint=option) from error
    if not limit_s:
        raise typer.BadParameter("some time, more than 0s", param_hint=option)
    return limit_s
