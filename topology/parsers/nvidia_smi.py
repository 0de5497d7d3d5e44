"""Text of ``nvidia-smi topo -m`` to the topology of a node; pure, for every era of the driver.

`matrix_text` finds the matrix; here it is checked (every GPU has a row, the matrix is symmetric)
and given its meaning. Whatever had to be assumed or repaired is a sentence in
`NodeTopology.warnings`; what cannot be repaired exactly is an error with its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from topology.errors import TopologyParseError
from topology.graph import NodeTopology
from topology.hardware import canonical_model, gpu_model
from topology.links import Link
from topology.parsers.matrix_text import ASK, MatrixText, Row, read_matrix


def parse_topo(
    text: str,
    name: str = "capture",
    gpu_models: str | Sequence[str | None] | None = None,
) -> NodeTopology:
    """Read the output of ``nvidia-smi topo -m``, with whatever a terminal or a paste did to it.

    Parameters
    ----------
    text
        The output; prompts, timestamps and other commands around it do not matter.
    name
        Where it comes from; names the topology, and errors begin with it.
    gpu_models
        Model of every GPU, or one for all; the text does not have them. Without, bandwidths are
        those of an unknown model.

    Raises
    ------
    TopologyParseError
        There is no matrix, a GPU's row is missing or damaged, the matrix is not symmetric, it is
        another command's, or `gpu_models` has another length.

    Examples
    --------
    >>> topology = parse_topo('''
    ...         GPU0  GPU1  CPU Affinity  NUMA Affinity
    ... GPU0     X    NV12  0-15          0
    ... GPU1    NV12   X    16-31         1
    ... ''')
    >>> str(topology.link(0, 1)), topology.islands, topology.numa_affinity
    ('NV12', ((0, 1),), {0: '0', 1: '1'})
    """
    try:
        matrix = read_matrix(text)
        gpus = tuple(label for label in matrix.names if re.fullmatch(r"GPU\d+", label))
        models = _models(gpu_models, len(gpus))
        _check_gpu_rows(matrix, gpus)
        links = _links(matrix)
    except TopologyParseError as error:
        raise error.located(name) from None
    affinities = {int(gpu[3:]): _affinity(matrix.rows[gpu], matrix.n_titles) for gpu in gpus}
    nics = [label for label in matrix.names if label not in gpus]
    return NodeTopology(
        name,
        models,
        [row.memory_mib if (row := gpu_model(model)) else None for model in models],
        {(int(a[3:]), int(b[3:])): link for (a, b), link in links.items() if b in gpus},
        nics={nic: matrix.devices.get(nic, "" if nic.startswith("NIC") else nic) for nic in nics},
        nic_links={pair: link for pair, link in links.items() if pair[1] in nics},
        cpu_affinity={gpu: cpus for gpu, (cpus, _) in affinities.items()},
        numa_affinity={gpu: numa for gpu, (_, numa) in affinities.items()},
        warnings=_warnings(text, matrix, gpus, nics),
    )


def _models(given: str | Sequence[str | None] | None, n_gpus: int) -> list[str | None]:
    if given is None or isinstance(given, str):
        return [given and canonical_model(given)] * n_gpus
    if len(given) != n_gpus:
        raise TopologyParseError(
            f"{len(given)} GPU models for the {n_gpus} GPUs of the matrix",
            hint="name one model for each GPU, or one for all",
        )
    return [model and canonical_model(model) for model in given]


def _check_gpu_rows(matrix: MatrixText, gpus: tuple[str, ...]) -> None:
    missing = [gpu for gpu in gpus if gpu not in matrix.rows]
    if missing:
        raise TopologyParseError(
            "the header names these GPUs, and they have no row",
            value=" ".join(missing),
            line=matrix.header_line,
            hint=ASK,
        )


def _links(matrix: MatrixText) -> dict[tuple[str, str], Link]:
    """Return the link of every pair that one of the two rows tells, in order of the columns.

    Raises
    ------
    TopologyParseError
        A row has its X in another place than its column, or two rows disagree.
    """
    column = {name: at for at, name in enumerate(matrix.names)}
    rows = matrix.rows
    for row in rows.values():
        for name, cell in zip(matrix.names, row.cells, strict=False):
            if (cell == "X") != (name == row.name):
                raise TopologyParseError(
                    f"row {row.name} has this in column {name}; X belongs where both are the same",
                    line=row.line,
                    value=cell,
                    hint=ASK,
                )
    links: dict[tuple[str, str], Link] = {}
    for a, b in combinations(matrix.names, 2):
        told = [
            (rows[one].line, Link.parse(rows[one].cells[column[other]]))
            for one, other in ((a, b), (b, a))
            if one in rows and column[other] < len(rows[one].cells)
        ]
        if len({link for _, link in told}) > 1:
            (first, link), (second, reverse) = told
            raise TopologyParseError(
                f"{a} to {b} is {link} in line {first}, and {b} to {a} is {reverse}; "
                "a link is the same from both ends",
                line=second,
                value=str(reverse),
                hint=ASK,
            )
        if told:
            links[a, b] = told[0][1]
    return links


def _affinity(row: Row, n_titles: int) -> tuple[str | None, str | None]:
    """CPU list as printed, and the NUMA node if it is a single one.

    In a job or a container the CPU list is the job's, so nothing is derived from it; a range of
    NUMA nodes or N/A says that the node is not known.
    """
    if "\t" in row.tail:
        # Fields may be empty: CPU Affinity of a job without CPUs near the GPU.
        fields = [field.strip() for field in row.tail.split("\t")[1:]]
    else:
        fields = row.tail.split()
        if len(fields) == n_titles - 1 and (n_titles < 3 or fields[-1] == "N/A"):
            fields = ["", *fields]  # blanks cannot show an empty field; only the first can be
        elif len(fields) < n_titles:
            fields = []
    cpus, numa = (*fields, "", "")[:2]
    return (
        cpus if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", cpus) else None,
        numa if n_titles > 1 and re.fullmatch(r"\d+", numa) else None,
    )


def _warnings(text: str, matrix: MatrixText, gpus: tuple[str, ...], nics: list[str]) -> list[str]:
    found = []
    for row in matrix.rows.values():
        if row.repaired:
            found.append(f"line {row.line}: row {row.name} was broken or run together; repaired")
    missing = [nic for nic in nics if nic not in matrix.rows]
    short = [nic for nic in nics if nic not in missing and _is_short(matrix, nic)]
    if missing or short:
        what = ", ".join([*missing, *short])
        found.append(
            f"rows missing or cut off: {what}; filled from the other rows "
            "(links among these network cards are not known)"
        )
    cells = {cell for gpu in gpus for cell in matrix.rows[gpu].cells}
    if not any(cell.startswith("NV") for cell in cells) and _is_pci_only(text, matrix, cells):
        found.append(
            "this looks like nvidia-smi topo -mp, which leaves NVLink out: "
            "that there is none proves nothing; use topo -m"
        )
    if matrix.next_line is not None:
        found.append(f"line {matrix.next_line}: another matrix begins; only the first was read")
    return found


def _is_short(matrix: MatrixText, name: str) -> bool:
    return len(matrix.rows[name].cells) < len(matrix.names)


def _is_pci_only(text: str, matrix: MatrixText, cells: set[str]) -> bool:
    """Whether the command says so, or a full legend (of classes not in use too) has no NV#.

    Drivers before NVLink (they say SOC) had no NV# in their legend.
    """
    if re.search(r"topo\s+(-mp|--matrix_pci)\b", text):
        return True
    full = matrix.legend - cells - {"X"}
    return bool(full) and "NV#" not in matrix.legend and "SOC" not in matrix.legend
