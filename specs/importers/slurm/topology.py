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

_PAIR = re.compile(r'(\w+)=("[^"]*"|\S+)')
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
    groups: dict[str, tuple[str, ...]] = {}
    sizes: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    if is_yaml(text):
        lines, others = yaml_lines(text, file)
    else:
        lines = list(_conf_lines(text))
    strange: list[int] = []
    for number, pairs in lines:
        try:
            name = pairs.get("switchname", pairs.get("blockname", ""))
            if name in (switches if "switchname" in pairs else groups):
                rule = "it is defined twice"
                faults.append(SpecFault(file=file, line=number, value=shown(name), rule=rule))
            if "switchname" in pairs:
                switches[pairs["switchname"]] = _Switch(
                    hosts(pairs.get("nodes", "")), hosts(pairs.get("switches", "")), number
                )
            elif "blockname" in pairs:
                names = hosts(pairs.get("nodes", ""))
                groups[pairs["blockname"]] = names
            elif "blocksizes" in pairs:
                sizes = _sizes(pairs["blocksizes"])
            else:
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
    if any(groups.values()) and not switches:
        return replace(_blocks(groups, sizes), others=others)
    if groups and switches:
        others = (*others, "blocks beside switches")
    return replace(_tree(switches, above), others=others)


def _conf_lines(text: str) -> Iterator[Line]:
    """Lines with their pairs; one that ends in a backslash goes on in the next."""
    begun, first = "", 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.partition("#")[0].strip()
        first = first if begun else number
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        if line := (begun + line).strip():
            yield first, {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        begun = ""


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


def _sizes(text: str) -> tuple[int, ...]:
    """Sizes of blocks in nodes, the smallest first.

    Raises
    ------
    HostlistError
        They are no whole numbers.
    """
    words = [word.strip() for word in text.strip("[]").split(",")]
    if not all(word.isascii() and word.isdigit() and 0 < len(word) < 7 for word in words):
        raise HostlistError(f'"{text[:60]}" are no sizes of blocks')
    return tuple(sorted({int(word) for word in words} - {0}))


def _blocks(groups: Mapping[str, tuple[str, ...]], sizes: tuple[int, ...]) -> Places:
    """Blocks; a larger size makes one block of so many that follow each other."""
    of: dict[str, dict[str, str]] = {}
    names = list(groups)
    for at, (name, nodes) in enumerate(groups.items()):
        around = {}
        for size in sizes[1:]:
            many = max(1, size // sizes[0])
            first = at // many * many
            around[f"block-{size}"] = f"{names[first]}..{names[min(first + many, len(names)) - 1]}"
        of |= {node: {**around, "block": name} for node in nodes}
    return Places((*(f"block-{size}" for size in reversed(sizes[1:])), "block"), of)


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
