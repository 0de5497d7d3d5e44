"""``topology.yaml``: the switches and blocks of ``topology.conf``, in several networks.

References
----------
``topology.yaml(5)`` of Slurm 25.05; where the file exists, Slurm reads no topology.conf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.document import parse_document
from specs.errors import SpecErrors, SpecFault
from specs.importers.fields import Fields, ObjectFault, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

Line = tuple[int, dict[str, str]]
"""Line of an entry, and its keys and values as topology.conf has them."""

KINDS = {
    "tree": ("switches", {"switchname": "switch", "switches": "children", "nodes": "nodes"}),
    "block": ("blocks", {"blockname": "block", "nodes": "nodes"}),
}


def is_yaml(text: str) -> bool:
    """Whether the first line that says something begins a YAML document or list."""
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line:
            return line.startswith("-")
    return False


def yaml_lines(text: str, file: str) -> tuple[list[Line], tuple[str, ...]]:
    """Entries of the default network of a topology.yaml, and the names of networks left out.

    The default is the first that says ``cluster_default: true``, else the first of all.

    Raises
    ------
    SpecErrors
        The file is no YAML, or no list of topologies.
    """
    document = parse_document(text, file, "Networks begin with - topology:")
    if document.faults:
        raise SpecErrors(list(document.faults))
    if not isinstance(document.data, list) or not document.data:
        raise SpecErrors([SpecFault(file=file, rule="a list of topologies is wanted here")])
    try:
        networks = [
            Fields(data, Place(file, document.place((index,)).line), f"topology[{index}]")
            for index, data in enumerate(document.data)
        ]
        chosen = next((n for n in networks if n.flag("cluster_default")), networks[0])
        lines = list(_entries(chosen))
        others = [network.text("topology") for network in networks if network is not chosen]
    except ObjectFault as error:
        raise SpecErrors([error.fault]) from error
    if not lines:
        others.append(chosen.text("topology"))
    return lines, tuple(others)


def _entries(network: Fields) -> Iterator[Line]:
    for kind, (listed, keys) in KINDS.items():
        if not network.has(kind):
            continue
        for entry in network.map(kind).maps(listed):
            found = {ours: entry.text(theirs) for ours, theirs in keys.items() if entry.has(theirs)}
            name = next(iter(keys))
            if name not in found:
                raise entry.fault(keys[name], "it has a name")
            yield network.place.line, found
        if sizes := _sizes(network.map(kind)):
            yield network.place.line, {"blocksizes": ",".join(str(size) for size in sizes)}


def _sizes(network: Fields) -> list[object]:
    sizes = network.data.get("block_sizes")
    return sizes if isinstance(sizes, list) else []
