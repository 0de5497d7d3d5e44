"""The comparison as a picture: an SVG bar chart that needs no plotting library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from report.text import amount, plural
from solver.result import SolveResult, SolveStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 900
LABEL_WIDTH = 150
PANEL_GAP = 56
ROW_HEIGHT = 26
BAR_HEIGHT = 16
TOP = 100
BOTTOM = 96
RIGHT = 46

INK, MUTED, GRID = "#1f2933", "#616e7c", "#e4e7eb"
BAR, OPTIMUM, BOUND = "#9fb3c8", "#0f7b6c", "#c2410c"
TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measure of all policies, drawn as horizontal bars from 0."""

    title: str
    subtitle: str
    axis: str
    values: tuple[float, ...]
    bound: float | None
    bound_text: str


def compare_svg(results: Sequence[SolveResult], title: str) -> str:
    """Stranded and admitted GPUs per policy, cp-sat highlighted, its proved bound as a line.

    Parameters
    ----------
    results
        One per policy, in the order of the bars from top to bottom.
    title
        Name of the cluster.

    Returns
    -------
    str
        A standalone SVG document, white background, for screens and paper.
    """
    best = next((r for r in results if r.policy.endswith("cp-sat")), None)
    panels = (
        Panel(
            title="Stranded GPUs",
            subtitle="free, but of no use to the workload",
            axis="GPUs (fewer is better)",
            values=tuple(r.metrics.stranded_gpus for r in results),
            bound=_stranded_bound(best),
            bound_text="no plan as good in earlier tiers has less",
        ),
        Panel(
            title="Admitted GPUs",
            subtitle="held by the jobs that start",
            axis="GPUs (more is better)",
            values=tuple(r.metrics.admitted_gpus for r in results),
            bound=None,
            bound_text="",
        ),
    )
    height = TOP + ROW_HEIGHT * len(results) + BOTTOM
    panel_width = (WIDTH - LABEL_WIDTH - PANEL_GAP - RIGHT) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="13" role="img" aria-label="{escape(title)}: policies compared">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(
            16,
            30,
            f"{title}: {plural(len(results), 'policy', 'policies')}, one cluster",
            size=18,
            weight="bold",
        ),
        *_policy_labels(results),
    ]
    for index, panel in enumerate(panels):
        x = LABEL_WIDTH + index * (panel_width + PANEL_GAP)
        parts += _panel(panel, results, x, panel_width)
    parts.append(_text(16, height - 14, _footer(best), size=12, fill=MUTED))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _stranded_bound(best: SolveResult | None) -> float | None:
    if best is None:
        return None
    return next((t.bound for t in best.objectives if t.name == "stranded"), None)


def _footer(best: SolveResult | None) -> str:
    if best is None:
        return "Every plan was checked."
    if best.status is SolveStatus.OPTIMAL:
        return f"Every plan was checked. {best.policy}: proved optimal on every tier."
    return f"Every plan was checked. {best.policy}: {best.status.value}, not every tier proved."


def _policy_labels(results: Sequence[SolveResult]) -> list[str]:
    labels = []
    for row, result in enumerate(results):
        ours = result.policy.endswith("cp-sat")
        labels.append(
            _text(
                LABEL_WIDTH - 10,
                _middle(row) + 4,
                result.policy,
                anchor="end",
                weight="bold" if ours else "normal",
                fill=OPTIMUM if ours else INK,
            )
        )
    return labels


def _panel(panel: Panel, results: Sequence[SolveResult], x: float, width: float) -> list[str]:
    bottom = TOP + ROW_HEIGHT * len(results)
    ticks = axis_ticks(max((*panel.values, panel.bound or 0.0)))
    scale = width / ticks[-1]
    parts = [
        _text(x, TOP - 36, panel.title, size=14, weight="bold"),
        _text(x, TOP - 18, panel.subtitle, size=12, fill=MUTED),
    ]
    for tick in ticks:
        at = x + scale * tick
        parts.append(_line(at, TOP - 8, at, bottom, GRID))
        parts.append(_text(at, bottom + 16, amount(tick), anchor="middle", size=11, fill=MUTED))
    parts.append(_text(x + width / 2, bottom + 34, panel.axis, anchor="middle", fill=MUTED))
    for row, (result, value) in enumerate(zip(results, panel.values, strict=True)):
        ours = result.policy.endswith("cp-sat")
        fill = OPTIMUM if ours else BAR
        parts.append(
            f'<rect x="{x:.1f}" y="{_middle(row) - BAR_HEIGHT / 2:.1f}" '
            f'width="{max(scale * value, 1):.1f}" height="{BAR_HEIGHT}" rx="2" fill="{fill}"/>'
        )
    # Bars first, then the line, then the numbers: a number is never crossed.
    if panel.bound is not None:
        at = x + scale * panel.bound
        parts.append(_line(at, TOP - 8, at, bottom, BOUND, dash="5 3", stroke=1.6))
    for row, (result, value) in enumerate(zip(results, panel.values, strict=True)):
        ours = result.policy.endswith("cp-sat")
        parts.append(
            _text(
                x + max(scale * value, 1) + 5,
                _middle(row) + 4,
                amount(value),
                size=12,
                weight="bold" if ours else "normal",
                halo=True,
            )
        )
    if panel.bound is not None:
        note = f"proved bound {amount(panel.bound)}: {panel.bound_text}"
        parts.append(_text(x, bottom + 34 + 18, note, size=11, fill=BOUND))
    return parts


def axis_ticks(largest: float) -> list[float]:
    """Round marks from 0 up to at least `largest`.

    Examples
    --------
    >>> axis_ticks(7.2), axis_ticks(0)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 1.0])
    """
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / TICKS
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(f * magnitude for f in (1, 2, 5, 10) if f * magnitude >= rough)
    return [step * i for i in range(math.ceil(largest / step - 1e-9) + 1)]


def _middle(row: int) -> float:
    return TOP + ROW_HEIGHT * (row + 0.5)


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "", stroke: float = 1
) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{stroke}"{dashes}/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
    fill: str = INK,
    halo: bool = False,
) -> str:
    # A white outline keeps numbers readable on grid lines and bars.
    outline = ' paint-order="stroke" stroke="white" stroke-width="3"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{fill}"{outline}>{escape(text)}</text>'
    )
