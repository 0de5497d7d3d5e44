"""``explain SPEC JOB``: why a job waits, and what would make it start, at which price."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from commands.options import (
    MaxSizeOption,
    OutputFormat,
    OutputOption,
    SeedOption,
    SpecArgument,
    TimeLimitOption,
    WorkersOption,
)


def explain(
    spec: SpecArgument,
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job of the spec that waits.")],
    output: OutputOption = OutputFormat.TABLE,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = None,
    max_size: MaxSizeOption = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="PLAN", help="Begin with a saved plan instead of none."),
    ] = None,
) -> None:
    """Say why a job waits: rules that cannot hold together, node by node, and verified fixes.

    The spec is solved first; the job is then held against what the plan leaves. Fixes come
    cheapest first, each solved with it applied.
    """
    from commands.inputs import read_question
    from commands.output import emit
    from commands.policies import CP_SAT, answer
    from report.explain_view import explain_report, explain_view
    from solver.carry_over import carried_over
    from solver.explain.answer import explain as explain_job
    from specs.plans import load_plan

    question = read_question(
        spec, max_size=max_size, time_limit=time_limit, workers=workers, seed=seed
    )
    problem = question.problem
    if job not in problem.job_by_name:
        running = [entry.name for entry in problem.running]
        raise typer.BadParameter(
            _unknown(job, list(problem.job_by_name), running), param_hint="JOB"
        )
    begin = None if start is None else carried_over(problem, load_plan(start))
    result = answer(question, CP_SAT, begin)
    explanation = explain_job(problem, result.plan, job, question.options)
    emit(output, explain_report(explanation), explain_view(explanation))


def _unknown(job: str, waiting: Sequence[str], running: Sequence[str]) -> str:
    """What to say of a job that does not wait."""
    from specs.hints import did_you_mean

    if job in running:
        return f'"{job}" runs already'
    hint = did_you_mean(job, waiting)
    if not hint and (named := _named(job, waiting)):
        hint = f'Did you mean "{named}"?'
    if not hint and (named := _named(job, running)):
        hint = f'"{named}" runs already'
    return f'no job "{job}" waits. {hint or did_you_mean(job, waiting, "jobs")}'


def _named(word: str, jobs: Sequence[str]) -> str:
    """The only job that a word can mean: its name without a namespace, its id, one of its pods."""
    word = word.rsplit("/", 1)[-1]
    found = []
    for name in jobs:
        own = name.rsplit("/", 1)[-1]
        if own == word or own.startswith(f"{word}-") or word.startswith(f"{own}-"):
            found.append(name)
    return found[0] if len(found) == 1 else ""
