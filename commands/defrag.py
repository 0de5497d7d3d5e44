"""``solve --defrag``: which options go with it, and the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from commands.inputs import Question
    from commands.options import OutputFormat
    from solver.options import ModelChoice
    from solver.problem import Problem


def check_options(
    defrag: bool,
    target: str | None,
    budget: int | None,
    *,
    policy: str,
    model: ModelChoice | None,
    start: Path | None,
) -> None:
    """Refuse options that say nothing beside each other.

    Raises
    ------
    typer.BadParameter
        With the option that is out of place, and why.
    """
    from commands.policies import CP_SAT
    from solver.options import ModelChoice

    if not defrag:
        for value, option in ((target, "--for"), (budget, "--budget")):
            if value is not None:
                raise typer.BadParameter("goes with --defrag", param_hint=option)
        return
    if policy != CP_SAT:
        text = f"{policy} moves nothing; --defrag searches with {CP_SAT}"
        raise typer.BadParameter(text, param_hint="--policy")
    if model is ModelChoice.AGGREGATED:
        text = "--defrag has to know every node by name: direct"
        raise typer.BadParameter(text, param_hint="--model")
    if start is not None:
        text = "--defrag begins with what runs, not with a plan"
        raise typer.BadParameter(text, param_hint="--from")


def defragmented(
    question: Question,
    target: str | None,
    budget: int | None,
    output: OutputFormat,
    save: Path | None,
) -> None:
    """Search, and write the answer.

    Raises
    ------
    commands.errors.StuckJobError
        It is proved that the job cannot start (within the budget).
    commands.errors.NoAnswerError
        No way was found in time, and it is not proved that there is none.
    """
    from commands.errors import NoAnswerError, StuckJobError
    from commands.output import emit, write_file
    from report.defrag_view import defrag_report, defrag_view
    from report.json_report import to_json
    from report.progress import ProgressLine
    from solver.defrag.api import defragment
    from solver.defrag.result import as_result

    problem = question.problem
    if target is not None:
        check_target_job(problem, target)
    with ProgressLine(sys.stderr) as progress:
        answer = defragment(
            problem,
            target=target,
            budget_gpu_s=budget,
            options=question.options,
            progress=progress,
        )
    if not answer.points:
        within = "" if budget is None else f" within {budget} GPU-seconds"
        if answer.excluded:
            raise StuckJobError(str(target), within)
        ended = "before the interruption" if answer.notes else "in time"
        raise NoAnswerError(f'no way to start job "{target}"{within} was found {ended}')
    result = as_result(problem, answer, question.notes)
    report = defrag_report(answer, result)
    if save is not None:
        write_file(save, to_json({**report, "spec": question.text}))
    emit(output, report, defrag_view(answer, result))


def check_target_job(problem: Problem, name: str) -> None:
    """Refuse a job that does not wait."""
    from specs.hints import did_you_mean

    if name in problem.job_by_name:
        return
    if any(running.name == name for running in problem.running):
        raise typer.BadParameter(f'"{name}" runs already', param_hint="--for")
    hint = did_you_mean(name, problem.job_by_name, "jobs")
    raise typer.BadParameter(f'no job "{name}" waits. {hint}', param_hint="--for")
