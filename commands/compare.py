"""``compare SPEC``: the optimum beside every greedy baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commands.options import (
    MaxSizeOption,
    ModelOption,
    OutputFormat,
    OutputOption,
    PricesOption,
    SeedOption,
    SpecArgument,
    TimeLimitOption,
    WorkersOption,
)


def compare(
    spec: SpecArgument,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies", metavar="A,B,…", help="Only these (default: every baseline and cp-sat)."
        ),
    ] = None,
    prices: PricesOption = None,
    output: OutputOption = OutputFormat.TABLE,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg", help="Also draw the comparison."),
    ] = None,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = None,
    max_size: MaxSizeOption = None,
    model: ModelOption = None,
) -> None:
    """Place the pending jobs of a spec by every policy: one row each, the best values marked."""
    from commands.inputs import read_question
    from commands.output import check_target, emit, write_file
    from commands.policies import all_policies, answer, check_policies, read_prices
    from report.comparison_view import compare_view
    from report.json_report import compare_report
    from report.plots import compare_svg
    from solver.comparison import share_bounds

    check_target(plot, "--plot", suffix=".svg")
    names = all_policies() if policies is None else [p.strip() for p in policies.split(",")]
    check_policies(names, "--policies")
    book = read_prices(prices, names)
    question = read_question(
        spec, max_size=max_size, time_limit=time_limit, workers=workers, seed=seed, model=model
    )
    results = share_bounds([answer(question, name, prices=book) for name in names])
    if plot is not None:
        write_file(plot, compare_svg(results, question.problem.name))
    emit(output, compare_report(results), compare_view(results))
