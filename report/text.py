"""How amounts and places are written for people: short, with their units."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Iterable

    from solver.solution import Placement

_TIMES = ((1, 60, "s"), (60, 60, "min"), (3600, 24, "h"), (86_400, math.inf, "d"))
"""Seconds of a unit, how many of it make the next one, and its name."""

_NUMBERED = re.compile(r"^(.*?)(\d+)$")


def amount(value: float, decimals: int = 2) -> str:
    """A number with as many decimals as it needs.

    Examples
    --------
    >>> amount(12.0), amount(0.5), amount(1234.567)
    ('12', '0.5', '1,234.57')
    """
    if not math.isfinite(value):
        return "∞"
    rounded = round(value, decimals)
    if rounded == int(rounded):
        return f"{int(rounded):,}"
    return f"{rounded:,.{decimals}f}".rstrip("0")


def percent(ratio: float) -> str:
    """A ratio in percent, to three or so digits; what is above 0 never reads as 0.

    Examples
    --------
    >>> percent(0), percent(0.25), percent(0.123456), percent(0.0123456), percent(0.00001)
    ('0 %', '25 %', '12.3 %', '1.23 %', '<0.01 %')
    """
    if 0 < ratio < 0.00005:
        return "<0.01 %"
    return f"{amount(100 * ratio, 1 if ratio >= 0.1 else 2)} %"


def seconds(value_s: float) -> str:
    """A run time: milliseconds below a second.

    Examples
    --------
    >>> seconds(0.0123), seconds(3.14159)
    ('12 ms', '3.1 s')
    """
    return f"{value_s * 1000:.0f} ms" if value_s < 1 else f"{value_s:.1f} s"


def duration(value_s: float) -> str:
    """A time that people wait, in the largest unit that it has one of; to a tenth below 100.

    Examples
    --------
    >>> duration(0), duration(0.01), duration(42), duration(192.3), duration(18_400)
    ('0 s', '<0.1 s', '42 s', '3.2 min', '5.1 h')
    >>> duration(200_000), duration(3599.9), duration(123 * 86_400 + 50_000)
    ('2.3 d', '1 h', '124 d')
    """
    if 0 < value_s < 0.05:
        return "<0.1 s"
    if not math.isfinite(value_s):
        return "∞"
    # Rounded first: 59.97 min are an hour, not 60 min.
    sizes = ((round(value_s / size_s, 1), count, unit) for size_s, count, unit in _TIMES)
    units, unit = next((units, unit) for units, count, unit in sizes if units < count)
    return f"{amount(units, 1 if units < 100 else 0)} {unit}"


def plural(count: int, noun: str, many: str = "") -> str:
    """A count with its noun; `many` where adding an s is not enough.

    Examples
    --------
    >>> plural(1, "job"), plural(3, "job")
    ('1 job', '3 jobs')
    """
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def ranges(indices: Iterable[int]) -> str:
    """Indices with runs joined.

    Examples
    --------
    >>> ranges([0, 1, 2, 3, 6])
    '0-3,6'
    """
    runs: list[list[int]] = []
    for index in sorted(set(indices)):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def node_names(names: Iterable[str]) -> str:
    """Node names with numbered ones joined, as Slurm writes host lists.

    Examples
    --------
    >>> node_names(["h100-0", "h100-2", "h100-1", "login"])
    'h100-[0-2] login'
    """
    numbered: dict[str, list[int]] = {}
    words: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(name)
        # A number with leading zeros would not come back from a range.
        if match and str(int(match[2])) == match[2]:
            numbered.setdefault(match[1], []).append(int(match[2]))
        else:
            words.append(name)
    for prefix, indices in numbered.items():
        text = ranges(indices)
        words.append(f"{prefix}{text}" if text.isdecimal() else f"{prefix}[{text}]")
    return " ".join(sorted(words))


def places(placements: Iterable[Placement]) -> str:
    """Where the replicas of a job start: nodes, and the GPUs held on each.

    Examples
    --------
    >>> from solver.solution import Placement
    >>> held = [Placement("a", "w", i, f"n{i}", (0, 1)) for i in range(3)]
    >>> places(held)
    'n[0-2] gpu 0-1'
    """
    gpus: dict[str, set[int]] = {}
    shares: dict[str, set[int]] = {}
    cut: dict[str, list[str]] = {}
    for place in placements:
        made = cut.setdefault(place.node, [])
        made += [f"gpu {entry.gpu} {entry.instance}" for entry in place.instances]
        gpus.setdefault(place.node, set()).update(place.gpus)
        if place.gpus:
            shares.setdefault(place.node, set()).add(place.share_milli)
    by_text: dict[str, list[str]] = {}
    for node, held in gpus.items():
        text = f" gpu {ranges(held)}" if held else ""
        part = sorted(shares.get(node, set()) - {GPU_MILLI})
        if part:
            text += f" ({', '.join(amount(milli / GPU_MILLI, 3) for milli in part)} of each)"
        if cut[node]:
            text += f" {', '.join(sorted(cut[node]))}"
        by_text.setdefault(text, []).append(node)
    parts = [f"{node_names(nodes)}{text}" for text, nodes in by_text.items()]
    return "; ".join(parts)
