"""Draws how time and memory grow with the cluster, on logarithmic axes.

    python -m benchmarks.growth docs/img/scale.svg [SIZE …]

Each size is solved once for admission, with the time that is promised for it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.instances import GPUS_PER_NODE, SIZES
from benchmarks.scale import GOALS, solved

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 78, 190, 58, 58
INK, MUTED, GRID = "#1f2933", "#616e7c", "#e4e7eb"
COLOURS = {
    "whole process": "#0f7b6c",
    "first checked plan": "#2f6fb0",
    "memory, GiB": "#c2410c",
}
DRAWN = ("S", "M", "L", "XL")


@dataclass(frozen=True, slots=True)
class Point:
    """One size: its GPUs, and what was measured."""

    gpus: int
    gap: float
    values: dict[str, float]


def measure(sizes: Sequence[str]) -> list[Point]:
    """One solve for each size, for the last of its instances' plainest one."""
    points = []
    for size in sizes:
        goal = GOALS[size][0]
        found, took_s = solved(goal.instance, goal.seconds, goal.reserve_s, "--admission-only")
        values = {"whole process": took_s, "memory, GiB": found["peak_mib"] / 1024}
        if found["first_plan_s"] is not None:
            values["first checked plan"] = found["first_plan_s"]
        points.append(
            Point(SIZES[goal.instance].nodes * GPUS_PER_NODE, found["admission_gap"], values)
        )
    return points


def growth_svg(points: Sequence[Point]) -> str:
    """Time and memory over GPUs, both axes logarithmic."""
    xs = [point.gpus for point in points]
    ys = [value for point in points for value in point.values.values()]
    x_range = (math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs))))
    y_range = (math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))))

    def at(gpus: float, value: float) -> tuple[float, float]:
        x = (math.log10(gpus) - x_range[0]) / (x_range[1] - x_range[0])
        y = (math.log10(value) - y_range[0]) / (y_range[1] - y_range[0])
        return LEFT + x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif" font-size="13" role="img" '
        'aria-label="Time and memory over the number of GPUs">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(16, 28, "Admission proved within the stated gap: what it takes", INK, size=17),
    ]
    for power in range(x_range[0], x_range[1] + 1):
        x, y = at(10**power, 10 ** y_range[0])
        parts.append(_line([(x, y), (x, TOP)], GRID))
        parts.append(_text(x, y + 20, f"{10**power:,}", MUTED, anchor="middle"))
    for power in range(y_range[0], y_range[1] + 1):
        x, y = at(10 ** x_range[0], 10**power)
        parts.append(_line([(x, y), (WIDTH - RIGHT, y)], GRID))
        parts.append(_text(x - 8, y + 4, f"{10.0**power:g}", MUTED, anchor="end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "GPUs", MUTED, anchor="middle"))
    parts.append(_text(16, TOP - 10, "seconds, GiB", MUTED))
    for name, colour in COLOURS.items():
        line = [at(p.gpus, p.values[name]) for p in points if name in p.values]
        parts.append(_line(line, colour, width=2))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in line]
        x, y = line[-1]
        parts.append(_text(x + 10, y + 4, name, colour))
    for point in points:
        x, y = at(point.gpus, point.values["whole process"])
        gap = "optimal" if point.gap == 0 else f"gap {100 * point.gap:.2g} %"
        parts.append(_text(x, y - 10, gap, INK, anchor="middle", size=12))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(points: Sequence[tuple[float, float]], colour: str, width: int = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 13
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
        f'font-size="{size}">{text}</text>'
    )


def main(words: Sequence[str]) -> None:
    """Measure, and write the picture."""
    target, *sizes = words
    Path(target).write_text(growth_svg(measure(sizes or DRAWN)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
