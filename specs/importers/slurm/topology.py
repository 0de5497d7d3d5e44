"""``topology.conf`` or ``topology.yaml``: switches (tree) or blocks, to groups of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from specs.errors import SpecErrors, SpecFault, shown
from specs.importers.slurm.hostlist import HostlistError, hosts
from specs.importers.slurm.topology_yaml import Line, is_yaml, yaml_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PAIR = re.compile(r"(\w+)=(\S+)")
NAMES = ("leaf", "spine", "core")


@dataclass(frozen=True, slots=True)
class Places:
    """Levels, outermost first, the groups that each node is in, and networks left out."""

    levels: tuple[str, ...] = ()
    of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class _Switch:
    nodes: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    line: int = 0


def read_topology(text: str, file: str) -> Places:
    """Levels of a network: ``leaf``, ``spine``, ``core`` … of a tree, or ``block``.

    Raises
    ------
    SpecErrors
        Lists of hosts that are none, switches that do not exist, go round, or have two above them.
    """
    faults: list[SpecFault] = []
    switches: dict[str, _Switch] = {}
    blocks: dict[str, str] = {}
    others: tuple[str, ...] = ()
    if is_yaml(text):
        lines, others = yaml_lines(text, file)
    else:
        lines = list(_conf_lines(text))
    strange: list[int] = []
    for number, pairs in lines:
        try:
            if "switchname" in pairs:
                switches[pairs["switchname"]] = _Switch(
                    hosts(pairs.get("nodes", "")), hosts(pairs.get("switches", "")), number
                )
            elif "blockname" in pairs:
                names = hosts(pairs.get("nodes", ""))
                blocks |= dict.fromkeys(names, pairs["blockname"])
            elif "blocksizes" not in pairs:
                strange.append(number)
        except HostlistError as error:
            faults.append(SpecFault(file=file, line=number, rule=str(error)))
    if strange:  # A wrong file has hundreds of them.
        more = f"; so it is on {len(strange) - 1:,} more lines" if len(strange) > 1 else ""
        rule = f"SwitchName=, BlockName= or BlockSizes= is wanted here{more}"
        value = shown(text.splitlines()[strange[0] - 1].strip())
        hint = "Name Slurm's topology.conf, or leave --topology out"
        faults.append(SpecFault(file=file, line=strange[0], value=value, rule=rule, hint=hint))
    above = _above(switches, file, faults)
    if faults:
        raise SpecErrors(faults[:100])
    if blocks and not switches:
        of = {node: {"block": name} for node, name in blocks.items()}
        return Places(("block",), of, others)
    return replace(_tree(switches, above), others=others)


def _conf_lines(text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.splitlines(), start=1):
        if line := raw.partition("#")[0].strip():
            yield number, {key.lower(): value for key, value in _PAIR.findall(line)}


def _above(switches: Mapping[str, _Switch], file: str, faults: list[SpecFault]) -> dict[str, str]:
    """The switch above each switch."""
    above: dict[str, str] = {}
    for name, switch in switches.items():
        for inner in switch.below:
            if inner not in switches or inner in above:
                rule = "no switch has this name" if inner not in switches else "it has two above it"
                fault = SpecFault(file=file, line=switch.line, value=shown(inner), rule=rule)
                faults.append(fault)
            above[inner] = name
    for name in switches:
        way, at = {name}, name
        while at in above:
            at = above[at]
            if at in way:
                rule = "switches cannot be above themselves"
                faults.append(SpecFault(file=file, line=switches[name].line, rule=rule))
                return {}
            way.add(at)
    return above


def _tree(switches: Mapping[str, _Switch], above: Mapping[str, str]) -> Places:
    of: dict[str, dict[str, str]] = {}
    tallest = 0
    for name, switch in switches.items():
        way, at = [name], name
        while at in above:
            at = above[at]
            way.append(at)
        for node in switch.nodes:
            of[node] = {_level(height): group for height, group in enumerate(way)}
            tallest = max(tallest, len(way))
    return Places(tuple(_level(height) for height in reversed(range(tallest))), of)


def _level(height: int) -> str:
    """Name of a level by its height above the nodes."""
    return NAMES[height] if height < len(NAMES) else f"core-{height - 1}"
