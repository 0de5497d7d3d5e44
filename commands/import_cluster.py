"""``import …``: a published cluster to a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commands.output import check_target, write_file

import_app = typer.Typer(
    name="import", help="Turn a published cluster into a spec.", no_args_is_help=True
)


@import_app.callback()
def _import() -> None:
    """Turn a published cluster into a spec."""


@import_app.command("openb")
def openb(
    nodes: Annotated[
        Path, typer.Option("--nodes", metavar="FILE", help="openb_node_list_*.csv, maybe .gz.")
    ],
    pods: Annotated[
        Path | None,
        typer.Option("--pods", metavar="FILE", help="openb_pod_list_*.csv, maybe .gz."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Take only the first pods of the list.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the spec here, not to standard output."),
    ] = None,
) -> None:
    """Turn lists of the openb trace into a spec: pods are pending jobs in the list's order."""
    from specs.importers.openb import dropped, openb_spec, read_nodes, read_pods

    check_target(save, "--save")
    machines = read_nodes(nodes)
    work = read_pods(pods, limit) if pods is not None else ()
    names = ", ".join(path.name for path in (nodes, pods) if path is not None)
    text = "\n".join(openb_spec(machines, work, f"From {names}.")) + "\n"
    for column, count in dropped(work).items():
        typer.echo(f"note: {column} of {count} pods dropped: a spec has no such key", err=True)
    if save is None:
        typer.echo(text, nl=False)
    else:
        write_file(save, text)
        typer.echo(f"{save}: {len(machines)} nodes, {len(work)} jobs", err=True)
