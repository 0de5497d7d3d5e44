"""``prices [SPEC]``: what every shape of a workload costs on which nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.options import MaxSizeOption, OutputFormat, OutputOption

if TYPE_CHECKING:
    from solver.prices.book import PriceBook


def prices(
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC]", help="A spec: prices of its reference.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="NAME:PATH", help="A trace instead, as in simulate."),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Workload of openb, or VC of Philly.")
    ] = None,
    few: Annotated[
        bool, typer.Option("--few", help="Few futures, as bid-price-cheap looks at them.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Keep the book as JSON.")
    ] = None,
    max_size: MaxSizeOption = None,
) -> None:
    """Show the bid prices of a workload: what a replica costs the others, by kind of node."""
    from commands.output import check_target, emit, write_file
    from report.json_report import to_json
    from report.prices_view import prices_view
    from solver.prices.book_file import book_document

    check_target(save, "--save")
    if (spec is None) == (trace is None):
        raise typer.BadParameter("either a spec or a trace", param_hint="SPEC")
    book = (
        _of_trace(trace, workload, few=few)
        if trace is not None
        else _of_spec(str(spec), max_size, few=few)
    )
    document = book_document(book)
    emit(output, document, prices_view(book))
    if save is not None:
        write_file(save, to_json(document))


def _of_spec(spec: str, max_size: str | None, *, few: bool) -> PriceBook:
    from commands.inputs import read_question
    from solver.prices.book import price_book

    problem = read_question(spec, max_size=max_size).problem
    return price_book(problem.nodes, problem.reference, few=few)


def _of_trace(trace: str, workload: str | None, *, few: bool) -> PriceBook:
    from commands.simulation import Asked, read_question
    from solver.prices.book import price_book

    asked = Asked(traces=(trace,), workload=workload)
    scenario = read_question(asked, None, plotted=False).sweep.cells[0].source.scenario(1)
    return price_book(scenario.nodes, scenario.offered, few=few)
