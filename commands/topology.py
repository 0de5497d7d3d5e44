"""The verb ``topology``: links, islands and best sets of a machine."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from commands.options import OutputFormat

if TYPE_CHECKING:
    from pathlib import Path

    from topology.graph import NodeTopology


class TopologyOutput(StrEnum):
    """How the links are written: as for every verb, or as a picture."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    SVG = "svg"


def topology(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PRESET",
            help="Output of nvidia-smi topo -m in a file (./NAME where a preset has that name), "
            "- for standard input, or a preset such as hgx-h100.",
        ),
    ],
    output: Annotated[
        TopologyOutput, typer.Option("--output", "-o", help="How to write the answer.")
    ] = TopologyOutput.TABLE,
    gpu_model: Annotated[
        str | None,
        typer.Option(
            "--gpu-model", help="Model of the GPUs in a capture: sets memory and bandwidth."
        ),
    ] = None,
) -> None:
    """Show the links, NVLink islands and best GPU sets of a machine."""
    from commands.output import emit
    from report.topology_svg import topology_svg
    from report.topology_view import topology_report, topology_view

    node, domain_nodes = load_topology(source, gpu_model)
    if output is TopologyOutput.SVG:
        sys.stdout.write(topology_svg(node, domain_nodes))
        return
    emit(
        OutputFormat(output.value),
        topology_report(node, domain_nodes),
        topology_view(node, domain_nodes),
    )


def load_topology(source: str, gpu_model: str | None = None) -> tuple[NodeTopology, int | None]:
    """Read a capture or look a preset up, whichever `source` names.

    Returns
    -------
    tuple
        The node, and the nodes of its NVLink domain (None for captures: they do not tell).

    Raises
    ------
    TopologyError
        There is no such file or preset, or the file is no capture.
    """
    from pathlib import Path

    from topology.errors import UnknownPresetError
    from topology.parsers.nvidia_smi import parse_topo
    from topology.presets import machine

    if source == "-":
        return parse_topo(_read(None), "standard input", gpu_model), None
    try:
        known = machine(source)
    except UnknownPresetError:
        looks_like_file = Path(source).exists() or set(source) & set("/\\.")
        if not looks_like_file:
            raise
        return parse_topo(_read(Path(source)), source, gpu_model), None
    if gpu_model is not None:
        raise typer.BadParameter(
            f"the preset {known.name} has its models already", param_hint="--gpu-model"
        )
    return known.topology, known.domain_nodes


def _read(path: Path | None) -> str:
    """Return the text of a file (None: standard input), but never more than a capture can have."""
    from specs.reading import standard_input
    from topology.errors import TopologySourceError
    from topology.parsers.matrix_text import MAX_BYTES

    if path is None:
        data = standard_input().read(MAX_BYTES + 1)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            hint = "a file with the output of nvidia-smi topo -m, or the name of a preset"
            raise TopologySourceError(str(path), reason, hint=f"give {hint}") from error
    # Damaged bytes become marks that are no cell of a matrix, so they end in a clear refusal.
    return data.decode("utf-8-sig", errors="replace")
