"""``mig …``: how GPUs are cut into MIG instances."""

from __future__ import annotations

from enum import StrEnum
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


class MigExport(StrEnum):
    """Forms of a plan for other tools."""

    MIG_PARTED = "mig-parted"
    CHECKPOINT = "mig-parted-checkpoint"


mig_app = typer.Typer(name="mig", help="MIG: layouts of a GPU, and plans.", no_args_is_help=True)


@mig_app.callback()
def _mig() -> None:
    """MIG: layouts of a GPU, and plans."""


@mig_app.command("layouts")
def layouts(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A GPU model, such as H100-80GB or A30.")
    ],
    all_profiles: Annotated[
        bool,
        typer.Option(
            "--all-profiles",
            help="Count and draw with every profile, not only the plain ones: more memory per "
            "slice, media engines.",
        ),
    ] = False,
    driver: Annotated[
        int | None,
        typer.Option(
            "--driver",
            min=450,
            help="Driver branch, the first number of its version, e.g. 470; default: a recent one.",
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the MIG profiles of a GPU model and its layouts, as a picture of memory slots."""
    from commands.output import emit
    from report.mig_layouts_view import layouts_report, layouts_view
    from topology.hardware import canonical_model
    from topology.mig.tables import mig_table

    table = mig_table(model)
    if driver is not None:
        table = table.under_driver(driver)
    profiles = table.profiles if all_profiles else table.base
    name = canonical_model(model)
    emit(output, layouts_report(name, table, profiles), layouts_view(name, table, profiles))


@mig_app.command("plan")
def plan(
    spec: SpecArgument,
    export: Annotated[
        MigExport | None,
        typer.Option(
            "--export",
            help="Write for mig-parted instead: its config (counts, YAML) or its checkpoints "
            "(with placements, JSON).",
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="cp-sat, or a greedy baseline.")
    ] = "cp-sat",
    output: OutputOption = OutputFormat.TABLE,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = None,
    max_size: MaxSizeOption = None,
) -> None:
    """Choose the geometry of every GPU: what to destroy and create, where, in which order."""
    from commands.inputs import read_question
    from commands.output import emit
    from commands.policies import answer, check_policies
    from report.json_report import to_json
    from report.mig_plan_view import (
        checkpoint_notes,
        config_notes,
        mig_parted_checkpoint,
        mig_parted_config,
        mig_plan_report,
        mig_plan_view,
    )
    from report.yaml_report import to_yaml

    check_policies([policy], "--policy")
    question = read_question(
        spec, max_size=max_size, time_limit=time_limit, workers=workers, seed=seed
    )
    result = answer(question, policy)
    problem = question.problem
    notes = [] if export is None else list(result.notes)
    if export is MigExport.MIG_PARTED:
        typer.echo(to_yaml(mig_parted_config(problem, result)), nl=False)
        notes += config_notes(problem, result)
    elif export is MigExport.CHECKPOINT:
        typer.echo(to_json(mig_parted_checkpoint(problem, result)), nl=False)
        notes += checkpoint_notes(problem, result)
    else:
        emit(output, mig_plan_report(problem, result), mig_plan_view(problem, result))
    for note in notes:
        typer.echo(f"note: {note}", err=True)


@mig_app.command("ahead")
def ahead(
    spec: SpecArgument,
    draws: Annotated[
        int, typer.Option("--draws", min=1, max=1000, help="Demands that are drawn.")
    ] = 10,
    output: OutputOption = OutputFormat.TABLE,
    time_limit: TimeLimitOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = None,
    max_size: MaxSizeOption = None,
) -> None:
    """Cut the free GPUs for a demand that varies, and compare with fleets cut in one way."""
    from commands.inputs import duration_s, size_bytes
    from commands.output import emit
    from report.fleet_view import fleet_report, fleet_view
    from solver.fleet import best_fleet, free_gpus, static_fleets
    from specs.compile import compile_spec
    from specs.loader import MAX_SIZE_BYTES, load_spec
    from specs.slices import demand_of

    loaded = load_spec(spec, MAX_SIZE_BYTES if max_size is None else size_bytes(max_size))
    problem = compile_spec(loaded).problem
    items, gpus = demand_of(loaded), free_gpus(problem)
    if not items or not gpus:
        missing = "demand under mig" if not items else "GPU that is free and can be cut"
        raise typer.BadParameter(f"the spec has no {missing}", param_hint="SPEC")
    limit_s = 30.0 if time_limit is None else duration_s(time_limit)
    chance = 1 if seed is None else seed
    best = best_fleet(gpus, items, draws=draws, seed=chance, time_s=limit_s, workers=workers)
    fixed = static_fleets(gpus, items, draws=draws, seed=chance, time_s=limit_s, workers=workers)
    fleets = (best, *fixed)
    emit(output, fleet_report(fleets, gpus), fleet_view(problem.name, fleets, gpus))
