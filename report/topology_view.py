"""One node's links for people and programs: islands, nearest network cards, best sets per size."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from report.text import plural
from topology.graph import Fabric, NodeTopology
from topology.scoring import bottleneck_gb_s, first_best_sets, total_gb_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from topology.scoring import GpuSet

TOPOLOGY_SCHEMA = "unstrand/topology/v1"

MAX_SETS_LISTED = 64
"""Best sets per size in JSON and YAML; `best_sets_total` counts all."""

MAX_SETS_SEARCHED = 50_000
"""Sets of one size that are looked at; 16 GPUs have 12870 of eight."""

MAX_SETS_SHOWN = 4
"""Best sets per size in the table."""

FABRIC_WORDS = {
    Fabric.DIRECT: "direct links",
    Fabric.SWITCH: "NVLink through a switch",
    Fabric.NONE: "no NVLink",
}


def topology_report(topology: NodeTopology, domain_nodes: int | None = None) -> dict[str, Any]:
    """The answer of ``topology`` (schema ``unstrand/topology/v1``).

    Devices are named as printed (``GPU0``, ``NIC3``, ``mlx5_0``); `null` is unknown.

    Parameters
    ----------
    domain_nodes
        Nodes of the NVLink domain that such a node is in; a matrix does not tell (None).
    """
    gpus, nics = topology.gpu_labels, tuple(topology.nics)
    best = _best_sets(topology)
    return {
        "schema": TOPOLOGY_SCHEMA,
        "name": topology.name,
        "gpus": [
            {"label": label, "model": model, "memory_mib": memory_mib}
            for label, model, memory_mib in zip(
                gpus, topology.gpu_models, topology.gpu_memory_mib, strict=True
            )
        ],
        "nics": [{"label": nic, "device": topology.nics[nic] or None} for nic in nics],
        "links": [
            {"a": a, "b": b, "kind": str(link)}
            for a, b in [*combinations(gpus, 2), *((gpu, nic) for gpu in gpus for nic in nics)]
            if (link := topology.device_link(a, b)) is not None
        ],
        "islands": [_labels(island) for island in topology.islands],
        "fabric": topology.fabric.value,
        "domain_nodes": domain_nodes,
        "nearest_nics": {
            label: {"kind": str(nearest[0]), "nics": list(nearest[1])}
            for gpu, label in enumerate(gpus)
            if (nearest := topology.nearest_nics(gpu))
        },
        "cpu_affinity": _by_gpu(topology, topology.cpu_affinity),
        "numa_affinity": _by_gpu(topology, topology.numa_affinity),
        "best_sets": {str(size): [_labels(s) for s in sets] for size, (sets, _) in best.items()},
        "best_sets_total": {str(size): total for size, (_, total) in best.items()},
        "warnings": [*topology.warnings, *_omitted(topology, best)],
    }


def topology_view(topology: NodeTopology, domain_nodes: int | None = None) -> RenderableType:
    """The answer of ``topology`` as tables: matrix, facts of each GPU, best sets per size."""
    best = _best_sets(topology)
    sections: list[RenderableType] = [
        Text(f"{topology.name}: {headline(topology, domain_nodes)}", style="bold"),
        _matrix(topology),
        _islands(topology),
    ]
    if facts := _facts(topology):
        sections.append(facts)
    if best:
        sections += [
            Text("\nBest sets: by the slowest pair, then by all"),
            _sets(topology, best),
        ]
    sections += [
        Text(f"note: {warning}", style="yellow")
        for warning in (*topology.warnings, *_omitted(topology, best))
    ]
    return Group(*sections)


def headline(topology: NodeTopology, domain_nodes: int | None = None) -> str:
    """The node in one line: its GPUs, how they are linked, how far NVLink reaches.

    Examples
    --------
    >>> from topology.presets import preset
    >>> headline(preset("a100-pcie-pairs"))
    '4 x A100-PCIE-80GB, direct links, 2 islands (2 + 2)'
    """
    models = sorted({model or "GPU of unknown model" for model in topology.gpu_models})
    counts = [
        (sum((m or "GPU of unknown model") == model for m in topology.gpu_models), model)
        for model in models
    ]
    words = [" + ".join(f"{count} x {model}" for count, model in counts)]
    words.append(FABRIC_WORDS[topology.fabric])
    if topology.islands:
        sizes = " + ".join(str(len(island)) for island in topology.islands)
        words.append(f"{plural(len(topology.islands), 'island')} ({sizes})")
    if domain_nodes is not None and domain_nodes > 1:
        words.append(f"one of {domain_nodes} nodes of an NVLink domain")
    return ", ".join(words)


# --- facts -------------------------------------------------------------------------------------


def _labels(gpus: Iterable[int]) -> list[str]:
    return [f"GPU{gpu}" for gpu in gpus]


def _by_gpu(topology: NodeTopology, facts: Mapping[int, str | None]) -> dict[str, str | None]:
    return {label: facts.get(gpu) for gpu, label in enumerate(topology.gpu_labels)}


def _best_sets(topology: NodeTopology) -> dict[int, tuple[tuple[GpuSet, ...], int]]:
    """First best sets and their number, for every size that can be searched."""
    n_gpus = topology.n_gpus
    return {
        size: first_best_sets(topology, size, MAX_SETS_LISTED)
        for size in range(2, n_gpus + 1)
        if topology.is_uniform or comb(n_gpus, size) <= MAX_SETS_SEARCHED
    }


def _omitted(topology: NodeTopology, best: Mapping[int, object]) -> list[str]:
    missing = [str(size) for size in range(2, topology.n_gpus + 1) if size not in best]
    return [f"too many sets to search for sizes {', '.join(missing)}"] if missing else []


# --- tables ------------------------------------------------------------------------------------


def _matrix(topology: NodeTopology) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for label in topology.gpu_labels:
        table.add_column(label)
    for a, label in enumerate(topology.gpu_labels):
        cells = [
            Text("X", style="dim") if a == b else _link(topology, a, b)
            for b in range(topology.n_gpus)
        ]
        table.add_row(label, *cells)
    return table


def _link(topology: NodeTopology, a: int, b: int) -> Text:
    link = topology.link(a, b)
    return Text(str(link), style="green" if link.kind.is_nvlink else "")


def _islands(topology: NodeTopology) -> Text:
    alone = sorted(
        set(range(topology.n_gpus)) - {gpu for island in topology.islands for gpu in island}
    )
    lines = [f"island  {' '.join(_labels(island))}" for island in topology.islands]
    if topology.islands and alone:
        lines.append(f"without NVLink  {' '.join(_labels(alone))}")
    return Text("\n".join(lines) if lines else "no GPU has NVLink to another")


def _facts(topology: NodeTopology) -> Table | None:
    """What is known of each GPU beside its links; None where nothing is."""
    nearest = [topology.nearest_nics(gpu) for gpu in range(topology.n_gpus)]
    columns = {
        "NUMA": [topology.numa_affinity.get(gpu) for gpu in range(topology.n_gpus)],
        "CPUs": [topology.cpu_affinity.get(gpu) for gpu in range(topology.n_gpus)],
        "Nearest NICs": [
            f"{found[0]} {' '.join(found[1])}" if found else None for found in nearest
        ],
    }
    known = {title: cells for title, cells in columns.items() if any(cells)}
    if not known:
        return None
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in known:
        table.add_column(title)
    for gpu, label in enumerate(topology.gpu_labels):
        table.add_row(label, *(Text(cells[gpu] or "unknown") for cells in known.values()))
    return table


def _sets(topology: NodeTopology, best: Mapping[int, tuple[tuple[GpuSet, ...], int]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("GPUs", justify="right")
    table.add_column("Sets", justify="right")
    table.add_column("Slowest pair", justify="right")
    if topology.fabric is not Fabric.SWITCH:
        table.add_column("All pairs", justify="right")
    table.add_column("Which")
    for size, (sets, total) in best.items():
        shown = "  ".join("+".join(map(str, gpus)) for gpus in sets[:MAX_SETS_SHOWN])
        more = total - min(total, MAX_SETS_SHOWN)
        speeds = [f"{bottleneck_gb_s(topology, sets[0])} GB/s"]
        if topology.fabric is not Fabric.SWITCH:  # behind a switch pairs share, and do not add up
            speeds.append(f"{total_gb_s(topology, sets[0])} GB/s")
        if topology.is_uniform and total > 1:
            shown, more = "any", 0
        table.add_row(
            str(size), f"{total:,}", *speeds, shown + (f"  and {more:,} more" if more else "")
        )
    return table
