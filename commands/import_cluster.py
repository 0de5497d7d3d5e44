"""``import …``: a published cluster to a spec."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from commands.output import check_target, write_file

import_app = typer.Typer(
    name="import", help="Turn a real or published cluster into a spec.", no_args_is_help=True
)

SaveOption = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Write the spec here, not to standard output."),
]


@import_app.callback(invoke_without_command=True)
def _import(context: typer.Context) -> None:
    """Turn a real or published cluster into a spec."""
    if context.invoked_subcommand is None:
        context.fail("no source: kubernetes, slurm or openb; --help lists them")


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
    node_limit: Annotated[
        int | None,
        typer.Option("--node-limit", min=0, help="Take only the first nodes of the list."),
    ] = None,
    save: SaveOption = None,
) -> None:
    """Turn lists of the openb trace into a spec: pods are pending jobs in the list's order."""
    from specs.importers.openb import dropped, openb_spec, read_nodes, read_pods

    check_target(save, "--save")
    machines = read_nodes(nodes)[:node_limit]
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


@import_app.command("kubernetes")
def kubernetes(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Output of `kubectl get nodes,pods -A -o json`, or YAML; - reads standard input. "
            "Jobs, Workloads, PodGroups, queues and PriorityClasses in it are used too.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Ask the cluster of a kubeconfig, read-only (extra kube)."),
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="With --live: which file.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="With --live: which context.")
    ] = None,
    gpu_resource: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu-resource",
            metavar="NAME",
            help="A resource that is a GPU (default: nvidia.com/gpu, amd.com/gpu); repeatable.",
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            metavar="NAME=LABEL",
            help="A level of the topology and the label that has its groups, outermost first; "
            "repeatable. Default: Topology objects, else labels that are known.",
        ),
    ] = None,
    domain_label: Annotated[
        list[str] | None,
        typer.Option(
            "--domain-label", metavar="LABEL", help="A label of NVLink domains; repeatable."
        ),
    ] = None,
    save: SaveOption = None,
) -> None:
    """Turn the objects of a Kubernetes cluster into a spec; nothing in it is changed.

    What was read, assumed and ignored is said on standard error, with counts.
    """
    from commands.kubernetes import import_options, read_files, read_live
    from kube.importer import import_cluster

    check_target(save, "--save")
    options = import_options(gpu_resource, level, domain_label)
    if live and files:
        raise typer.BadParameter("objects come from files or --live, not both", param_hint="FILE")
    if not live and not files:
        raise typer.BadParameter("name a file, - for standard input, or --live", param_hint="FILE")
    if not live and (kubeconfig or context):
        raise typer.BadParameter("goes with --live", param_hint="--kubeconfig, --context")
    snapshot = read_live(kubeconfig, context) if live else read_files(files or ())
    imported = import_cluster(snapshot, options)
    _hand_over(imported.text, snapshot.report.lines(), save)


def _hand_over(text: str, remarks: Iterable[str], save: Path | None) -> None:
    """Remarks to people, the spec to where it was wanted."""
    for line in remarks:
        typer.echo(line, err=True)
    if save is None:
        typer.echo(text, nl=False)
    else:
        write_file(save, text)
        typer.echo(f"{save}: written", err=True)


@import_app.command("slurm")
def slurm(
    nodes: Annotated[
        Path,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="Output of `scontrol show node -o`; - reads standard input.",
        ),
    ],
    jobs: Annotated[
        Path | None, typer.Option("--jobs", metavar="FILE", help="Output of `squeue --json`.")
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="topology.conf or topology.yaml."),
    ] = None,
    save: SaveOption = None,
) -> None:
    """Turn what Slurm prints about its nodes and jobs into a spec.

    One of the files may be standard input, -. What was read, assumed and ignored is said on
    standard error, with counts.
    """
    from specs.errors import SpecErrors, SpecFault
    from specs.importers.report import ImportReport
    from specs.importers.slurm.importer import slurm_spec
    from specs.importers.slurm.jobs import read_jobs
    from specs.importers.slurm.nodes import read_nodes
    from specs.importers.slurm.topology import read_topology
    from specs.importers.table import MAX_TABLE_BYTES
    from specs.reading import read_bounded, standard_input, too_large

    check_target(save, "--save")

    if sum(str(path) == "-" for path in (nodes, jobs, topology)) > 1:
        hint = "--nodes, --jobs, --topology"
        raise typer.BadParameter("standard input can be read once", param_hint=hint)

    def text(path: Path) -> str:
        if str(path) == "-":
            raw = standard_input().read(MAX_TABLE_BYTES + 1)
            if len(raw) > MAX_TABLE_BYTES:
                raise SpecErrors([SpecFault(file="<stdin>", rule=too_large(MAX_TABLE_BYTES))])
        else:
            raw = read_bounded(path, MAX_TABLE_BYTES)
        return raw.decode("utf-8-sig", "replace")

    def name(path: Path) -> str:
        return "<stdin>" if str(path) == "-" else str(path)

    report = ImportReport()
    machines = read_nodes(text(nodes), name(nodes))
    work = read_jobs(text(jobs), name(jobs)) if jobs is not None else ()
    places = read_topology(text(topology), name(topology)) if topology is not None else None
    spec = "\n".join(slurm_spec(machines, work, report, places)) + "\n"
    _hand_over(spec, report.lines(), save)
