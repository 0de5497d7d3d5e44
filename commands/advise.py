"""``advise SPEC``: which way of sharing a GPU suits which tenants, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from commands.options import MaxSizeOption, OutputFormat, OutputOption, SpecArgument


def advise(
    spec: SpecArgument,
    configuration: Annotated[
        bool,
        typer.Option("--configuration", help="Also print what to apply for each tier."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    max_size: MaxSizeOption = None,
) -> None:
    """Say per tenant tier whether whole GPUs, MIG, MPS or time-slicing suits it, and why."""
    from commands.inputs import size_bytes
    from commands.output import emit
    from report.advice_view import advice_report, advice_view
    from solver.advice import advise as advise_tiers
    from specs.compile import compile_spec
    from specs.loader import MAX_SIZE_BYTES, load_spec
    from specs.tenants import devices_of, tiers_of

    loaded = load_spec(spec, MAX_SIZE_BYTES if max_size is None else size_bytes(max_size))
    devices = devices_of(compile_spec(loaded).problem)
    tiers = tiers_of(loaded, devices)
    if not tiers or not devices:
        missing = "tenants" if not tiers else "GPU whose model and memory are known"
        raise typer.BadParameter(f"the spec has no {missing}", param_hint="SPEC")
    advices = advise_tiers(tiers, devices)
    emit(output, advice_report(advices), advice_view(advices, with_configuration=configuration))
