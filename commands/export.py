"""``export PLAN --to …``: what a plan means for a cluster, as files to review."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specs.plans import SavedPlan


class Target(StrEnum):
    """What a plan is written for."""

    KUBERNETES = "kubernetes"
    MIG_PARTED = "mig-parted"
    DEVICE_PLUGIN = "device-plugin"
    KUEUE_TOPOLOGY = "kueue-topology"


def export(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan that solve --save wrote.")],
    to: Annotated[Target, typer.Option("--to", help="What to write.")],
    objects: Annotated[
        list[str] | None,
        typer.Option(
            "--objects",
            metavar="FILE",
            help="The objects that the spec was imported from (kubernetes, kueue-topology).",
        ),
    ] = None,
    gpu_resource: Annotated[
        list[str] | None, typer.Option("--gpu-resource", metavar="NAME", help="As at the import.")
    ] = None,
    level: Annotated[
        list[str] | None, typer.Option("--level", metavar="NAME=LABEL", help="As at the import.")
    ] = None,
    domain_label: Annotated[
        list[str] | None, typer.Option("--domain-label", metavar="LABEL", help="As at the import.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write the files into this folder."),
    ] = None,
) -> None:
    """Write a plan as requests or configuration for a cluster; nothing is sent to it.

    Without --save the files are only shown.
    """
    from commands.kubernetes import import_options, read_files
    from commands.output import check_folder
    from kube.importer import import_cluster
    from specs.plans import load_saved
    from specs.saved import named

    check_folder(save, "--save")
    if to is Target.KUBERNETES and not objects:
        text = (
            "missing; the objects that the spec was imported from say which pods its jobs are. "
            "Give what was imported, such as --objects cluster.json"
        )
        raise typer.BadParameter(text, param_hint="--objects")
    options = import_options(gpu_resource, level, domain_label)
    saved = load_saved(plan)
    imported = None
    if objects:
        imported = import_cluster(read_files(objects), options)
    if to is Target.KUBERNETES and imported is not None:
        from kube.checking import check_holds
        from kube.files import step_files
        from kube.steps import plan_steps
        from specs.compile import compile_spec
        from specs.loader import parse_spec

        found = plan_steps(saved.plan, imported)
        check_holds(saved.plan, compile_spec(parse_spec(imported.text, "objects")).problem)
        if saved.spec and saved.spec != imported.text:
            found.remarks.append("the plan's spec is not what these objects are imported as now")
        files, remarks = step_files(found), tuple(found.remarks)
        if save is None:
            for step in found.steps:
                typer.echo(step.text)
    else:
        keys = dict(imported.levels.keys) if imported is not None else {}
        keys |= dict(pair.split("=", 1) for pair in level or ())
        files, remarks = _config_files(to, saved, named(plan), keys)
        if save is None:
            for name, content in files.items():
                typer.echo(f"# {name}\n{content}", nl=False)
    for remark in remarks:
        typer.echo(f"note: {remark}", err=True)
    if save is not None:
        _write(save, files)


def _config_files(
    to: Target, saved: SavedPlan, name: str, keys: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Files of a configuration, from the plan and the spec in it."""
    from kube.configs import (
        device_plugin,
        kueue_topology,
        label_script,
        mig_parted,
        mig_parted_remarks,
    )
    from kube.importer import HEADER
    from specs.compile import compile_spec
    from specs.errors import SpecErrors, SpecFault
    from specs.loader import parse_spec

    if not saved.spec:
        fault = SpecFault(file=name, rule="the plan has no spec", hint="Write it with solve --save")
        raise SpecErrors([fault])
    problem = compile_spec(parse_spec(saved.spec, name)).problem
    remarks: tuple[str, ...] = ()
    if to is Target.MIG_PARTED:
        text, labels = mig_parted(problem, saved.plan)
        remarks = mig_parted_remarks(problem, saved.plan)
        if not labels:
            remarks += ("no node of the plan has MIG: the configuration is empty",)
        elif saved.spec.startswith(HEADER):
            remarks += (
                "which GPU has which instances was assumed at the import: compare with "
                "nvidia-smi -L on the node before you label it, as GPUs that differ are cut anew",
            )
        file = "mig-parted.yaml"
    elif to is Target.DEVICE_PLUGIN:
        text, labels, remarks = device_plugin(problem, saved.plan)
        if not labels:
            remarks += ("no node of the plan shares GPUs: the configuration is empty",)
        file = "device-plugin.yaml"
    else:
        text, labels, remarks = kueue_topology(problem.name, problem, keys)
        file = "topology.yaml"
    files = {file: text}
    if labels:
        files["label-nodes.sh"] = label_script(labels)
    return files, remarks


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Put files, all or none, into a folder that has none of an earlier export in it.

    Raises
    ------
    typer.BadParameter
        The folder has files already: steps of two plans must not mix.
    """
    from commands.output import write_file

    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    if any(folder.iterdir()):
        raise typer.BadParameter(f'"{folder}" is not empty', param_hint="--save")
    try:
        for name, content in files.items():
            write_file(folder / name, content)
    except BaseException:  # Ctrl-C too: half of the steps is no plan
        for name in files:
            (folder / name).unlink(missing_ok=True)
        if is_new:
            folder.rmdir()
        raise
    typer.echo(f"{folder}: {len(files)} files", err=True)
