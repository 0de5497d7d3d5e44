"""``simulate [SPEC]``: what happens over time, under every policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commands.options import MaxSizeOption, OutputFormat, OutputOption, PricesOption


def simulate(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]", help="A spec whose jobs have arrival and duration (default: shipped)."
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="NAME:PATH",
            help="A trace instead: openb:DIR, philly:DIR, helios:DIR, acme:DIR, or "
            "synthetic:jobs=1000,nodes=16,load=0.8,…; may be given several times.",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="A,B,…",
            help="Orders (fifo-strict, fifo-skip, sjf, priority, drf, reclaim, preempt, "
            "defrag, easy, conservative, per-pod), placements (as in compare), or ORDER+PLACEMENT. "
            "Default for a spec: "
            "first-fit, best-fit, worst-fit, fgd, topology-aware, fifo-strict, sjf, drf, easy, "
            "conservative, per-pod, cp-sat, and priority where jobs have several; for openb: "
            "random, dot-product, gpu-clustering, gpu-packing, best-fit, fgd; for other traces: "
            "fifo-strict, fifo-skip, sjf, easy.",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            metavar="42-51",
            help="Seeds, each a run of every policy (default 1); the table has their means.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload", metavar="A,B,…", help="Workloads of openb, or virtual clusters of Philly."
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", min=1, help="Nodes of a Philly virtual cluster, instead of its own."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="First submission (Philly).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="End of submissions (Philly).")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="DIR", help="Keep every run as Parquet; a rerun goes on from there."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Also draw the runs of the first trace and seed, at most eight policies, as .svg "
            "or .png.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="local|ray[:ADDRESS]", help="Where the runs are made."),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Runs at once (default: one per processor)."),
    ] = None,
    penalty: Annotated[
        float,
        typer.Option(
            "--penalty",
            help="How much longer a job runs that is split over more NVLink islands than needed; "
            "0.3 is 1.3 times as long.",
        ),
    ] = 0.0,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            metavar="DURATION",
            help="Least time between rounds of cp-sat (default: none).",
        ),
    ] = None,
    prices: PricesOption = None,
    price_window: Annotated[
        str | None,
        typer.Option(
            "--price-window",
            metavar="DURATION",
            help="Make the prices of bid-price anew when the arrivals of so long are not those "
            "that they were made for (default: never).",
        ),
    ] = None,
    max_size: MaxSizeOption = None,
) -> None:
    """Replay a workload under several policies and compare: waits, utilization, stranded GPUs.

    Ctrl-C ends it; what is finished is shown, and with --save it is kept.
    """
    from commands.output import check_folder, check_target, emit, make_folder, write_file
    from commands.simulation import Asked, figure, read_question, run_sweep
    from report.json_report import simulate_report
    from report.simulation_view import simulate_view

    check_target(plot, "--plot", suffix=(".svg", ".png"))
    check_folder(save, "--save")
    asked = Asked(
        spec=spec,
        traces=tuple(trace or ()),
        policies=policies,
        seeds=seeds,
        workload=workload,
        nodes=nodes,
        since=since,
        until=until,
        engine=engine,
        workers=workers,
        penalty=penalty,
        round_=round_,
        prices=prices,
        price_window=price_window,
        max_size=max_size,
    )
    question = read_question(asked, save, plotted=plot is not None)
    if save is not None:
        make_folder(save, "--save")
    answer = run_sweep(question)
    rows, notes = answer.rows, answer.notes
    emit(output, simulate_report(rows, notes), simulate_view(question.title, rows, notes))
    if plot is not None and answer.outcomes:
        write_file(plot, figure(question, answer.outcomes, plot))
    if answer.failure is not None:
        raise answer.failure
