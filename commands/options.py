"""Parameters that several verbs share, declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from solver.options import ModelChoice


class OutputFormat(StrEnum):
    """How an answer is written to standard output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


SpecArgument = Annotated[
    str,
    typer.Argument(metavar="SPEC", help="The cluster spec, a YAML file; - reads standard input."),
]
OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="How to write the answer.")
]
MaxSizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-size",
        metavar="QUANTITY",
        help="Largest spec that is read, e.g. 128Mi (default 64Mi).",
    ),
]
TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="DURATION",
        help="Longest search, e.g. 30s or 2m; then the best plan so far is the answer.",
    ),
]
ModelOption = Annotated[
    ModelChoice | None,
    typer.Option(
        "--model",
        help="How cp-sat searches: direct (every node by name), aggregated (classes of nodes; "
        "for large clusters), or auto, by size (default).",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Search threads; 1 makes runs repeatable."),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of every random choice.")
]
DefragOption = Annotated[
    bool,
    typer.Option(
        "--defrag", help="Move running work so that free GPUs are of use; the steps in order."
    ),
]
ForOption = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="JOB",
        help="With --defrag: the least moves and evictions by which this job starts.",
    ),
]
BudgetOption = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="GPU_S",
        min=0,
        help="With --defrag: most GPU-seconds that moves and evictions may cost together.",
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="What bid-price places by, from prices --save, instead of prices of its own.",
    ),
]
