"""``validate SPEC``: only the checks."""

from __future__ import annotations

import typer

from commands.options import MaxSizeOption, OutputFormat, OutputOption, SpecArgument


def validate(
    spec: SpecArgument,
    output: OutputOption = OutputFormat.TABLE,
    max_size: MaxSizeOption = None,
) -> None:
    """Check a spec: every fault with its place, and exit code 3 if there is one."""
    from commands.inputs import read_question
    from commands.output import emit
    from report.validation import fault_report, summary, valid_report
    from specs.errors import SpecErrors

    try:
        question = read_question(spec, max_size=max_size)
    except SpecErrors as errors:
        if output is not OutputFormat.TABLE:
            emit(output, fault_report(errors.faults), "")
        raise
    for note in question.notes:
        typer.echo(f"note: {note}", err=True)
    emit(output, valid_report(question.problem, question.notes), summary(question.problem))
