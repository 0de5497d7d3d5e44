"""``mig …``: how GPUs are cut into MIG instances."""

from __future__ import annotations

from typing import Annotated

import typer

from commands.options import OutputFormat, OutputOption

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
        typer.Option("--driver", min=450, help="Driver branch, e.g. 470; default: a recent one."),
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
