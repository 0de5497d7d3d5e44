"""Runs as a picture: utilization and stranded GPUs over time, waits, who held the GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

from report.curves import area, cumulative, thinned
from report.text import duration
from simulator.scenario import MS
from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator.outcome import Outcome

WIDTH_IN, HEIGHT_IN, PNG_DPI = 12.0, 8.2, 150
INK, MUTED, GRID = "#1f2933", "#616e7c", "#e4e7eb"

COLOURS = ("#0072B2", "#E69F00", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
"""Of the policies: those that people with any colour vision tell apart (Okabe and Ito, 2008)."""
OUR_COLOURS = ("#009E73", "#000000")
"""Of those that ask the solver."""
DASHES = ("-", "--", ":", "-.")
"""Where there are more policies than colours, the next ones are dashed."""

MAX_QUEUES = 7
"""Queues with a colour of their own; the smaller ones are one more together."""

FEW_BARS = 4
"""Room for so many bars is kept, so that fewer do not become thick blocks."""

TIME_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
"""Milliseconds of a unit, and its name."""
UNITS_SHOWN = 3
"""An axis is in the largest unit that it has so many of."""

WAIT_TICKS_S = (0, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
LINEAR_S = 10
"""Waits are on a logarithmic axis, but for those below, which it cannot show."""


class MissingPlotsError(ImportError):
    """The plotting library is not installed."""

    def __init__(self) -> None:
        super().__init__("plots need matplotlib: pip install 'unstrand[plots]'")


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy is drawn."""

    colour: str
    dash: str
    ours: bool

    @property
    def line(self) -> dict[str, Any]:
        """What matplotlib is told of a line."""
        return {
            "color": self.colour,
            "linestyle": self.dash,
            "linewidth": 2.4 if self.ours else 1.2,
            "zorder": 3 if self.ours else 2,
        }


def simulation_figure(
    title: str, outcomes: Sequence[Outcome], capacity_milli: int, path: Path
) -> bytes:
    """Four panels that compare runs; those of ``cp-sat`` have thicker lines.

    Runs of a policy with several seeds share a colour; its bar is their mean.

    Parameters
    ----------
    outcomes
        One per run, with their series, in the order of the legend.
    capacity_milli
        GPUs of the cluster, in thousandths.
    path
        What the picture is for: its suffix, ``.svg`` or ``.png``, says in which format.

    Returns
    -------
    bytes
        The file, the same for the same input.

    Raises
    ------
    MissingPlotsError
        There is no matplotlib.
    ValueError
        The suffix is of another format.
    """
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise ValueError(f"{path}: a picture is a .svg or a .png file")
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingPlotsError from error
    with mpl.rc_context():
        # Neither the user's own style nor the date or a random id may change the file.
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": "unstrand",
                "svg.fonttype": "none",
                "font.size": 10,
                "text.parse_math": False,  # a policy, a queue or a title may have a dollar sign
                "text.color": INK,
                "axes.labelcolor": MUTED,
                "axes.edgecolor": GRID,
                "xtick.color": MUTED,
                "ytick.color": MUTED,
            }
        )
        figure = _figure(title, outcomes, capacity_milli)
        file = BytesIO()
        if suffix == ".svg":
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "unstrand"})
        else:
            figure.savefig(file, format="png", dpi=PNG_DPI, metadata={"Software": "unstrand"})
    return file.getvalue()


def styles_of(policies: Iterable[str]) -> dict[str, Style]:
    """A style for every policy, in the order of their first appearance.

    Examples
    --------
    >>> styles = styles_of(["fgd", "cp-sat", "fgd"])
    >>> [(name, style.colour, style.ours) for name, style in styles.items()]
    [('fgd', '#0072B2', False), ('cp-sat', '#009E73', True)]
    """
    others, ours = (
        cycle([(colour, dash) for dash in DASHES for colour in colours])
        for colours in (COLOURS, OUR_COLOURS)
    )
    styles = {}
    for policy in dict.fromkeys(policies):
        solver = policy.endswith("cp-sat")
        styles[policy] = Style(*next(ours if solver else others), ours=solver)
    return styles


def time_unit(end_ms: float) -> tuple[int, str]:
    """Milliseconds of the unit that suits a time axis, and its name.

    Examples
    --------
    >>> time_unit(90_000), time_unit(10 * 86_400_000)
    ((1000, 's'), (86400000, 'd'))
    """
    fitting = (unit for unit in TIME_UNITS if end_ms >= UNITS_SHOWN * unit[0])
    return next(fitting, TIME_UNITS[-1])


def _figure(title: str, outcomes: Sequence[Outcome], capacity_milli: int) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D

    styles = styles_of(outcome.summary.policy for outcome in outcomes)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout=layout)
    # Rows of their own: the names of policies beside the bars make no room above them.
    rows = figure.add_gridspec(2, 1)
    busy, stranded = figure.add_subfigure(rows[0]).subplots(1, 2)
    waits, queues = figure.add_subfigure(rows[1]).subplots(1, 2)
    for axes in (busy, stranded, waits, queues):
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0)
    _utilization(busy, outcomes, styles, capacity_milli)
    _stranded(stranded, outcomes, styles)
    _waits(waits, outcomes, styles)
    _queues(queues, outcomes, styles, capacity_milli)
    figure.legend(
        handles=[Line2D([], [], label=name, **style.line) for name, style in styles.items()],
        title=title,
        title_fontproperties={"size": 14, "weight": "bold"},
        alignment="left",
        loc="outside upper left",
        ncols=_legend_columns(list(styles)),
        frameon=False,
    )
    return figure


def _legend_columns(policies: Sequence[str]) -> int:
    """As many as fit, spread evenly over the lines that this takes."""
    widest_in = 0.8 + 0.085 * max(map(len, policies), default=0)
    fitting = max(1, int(WIDTH_IN / widest_in))
    lines = max(1, ceil(len(policies) / fitting))
    return max(1, ceil(len(policies) / lines))


def _headed(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")


def _over_time(
    axes: Axes,
    outcomes: Sequence[Outcome],
    styles: Mapping[str, Style],
    series: str,
    scale: float,
) -> None:
    recorded = [outcome for outcome in outcomes if outcome.series.time_ms]
    size_ms, unit = time_unit(max((o.series.time_ms[-1] for o in recorded), default=0))
    for outcome in recorded:
        times, values = thinned(outcome.series.time_ms, getattr(outcome.series, series))
        style = styles[outcome.summary.policy]
        axes.step(times / size_ms, values * scale, where="post", **style.line)
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"time since the start of the trace ({unit})")


def _utilization(
    axes: Axes, outcomes: Sequence[Outcome], styles: Mapping[str, Style], capacity_milli: int
) -> None:
    _headed(axes, "Utilization")
    _over_time(axes, outcomes, styles, "busy_milli", 100 / max(1, capacity_milli))
    axes.set_ylim(0, 102)
    axes.set_ylabel("GPUs busy (%)")


def _stranded(axes: Axes, outcomes: Sequence[Outcome], styles: Mapping[str, Style]) -> None:
    _headed(axes, "Stranded: free, but of no use to the workload")
    _over_time(axes, outcomes, styles, "stranded_milli", 1 / GPU_MILLI)
    axes.set_ylabel("stranded GPUs (fewer is better)")


def _waits(axes: Axes, outcomes: Sequence[Outcome], styles: Mapping[str, Style]) -> None:
    _headed(axes, "Waits from arrival to first start")
    longest_s = 0.0
    for outcome in outcomes:
        waits_s = [job.wait_ms / MS for job in outcome.jobs if job.wait_ms is not None]
        if waits_s:
            at, part = cumulative(waits_s)
            style = styles[outcome.summary.policy]
            axes.step(at, 100 * part, where="post", **style.line)
            longest_s = max(longest_s, at[-1])
    if not longest_s:
        axes.text(
            0.5, 0.5, "no job that started had to wait", ha="center", transform=axes.transAxes
        )
    axes.set_xscale("symlog", linthresh=LINEAR_S)
    # A little room on the left keeps the rise at 0 off the axis.
    right_s = max(longest_s * 1.3, 1.0)
    axes.set_xlim(-0.03 * LINEAR_S * (right_s > LINEAR_S), right_s)
    # Between 0 and 10 s there is no room for another number unless waits are short.
    ticks = [t for t in WAIT_TICKS_S if t <= right_s and not (t == 1 and right_s > 60)]
    axes.set_xticks(ticks, [duration(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_xlabel("wait at most (logarithmic above 10 s)")
    axes.set_ylabel("jobs that started (%)")


def _queues(
    axes: Axes, outcomes: Sequence[Outcome], styles: Mapping[str, Style], capacity_milli: int
) -> None:
    from matplotlib import colormaps

    _headed(axes, "GPU-time held, by queue")
    shares = {name: queue_shares(outcomes, name, capacity_milli) for name in styles}
    queues = _by_size(shares)
    rows = range(len(shares))
    colours = colormaps["cividis"]
    left = [0.0] * len(shares)
    for index, (label, names) in enumerate(queues.items()):
        widths = [sum(share.get(name, 0.0) for name in names) for share in shares.values()]
        shade = colours(0.2 + 0.75 * index / max(1, len(queues) - 1))
        axes.barh(
            rows, widths, 0.68, left, color=shade, label=label, edgecolor="white", linewidth=0.6
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(rows, list(shares))
    for policy, style in zip(axes.get_yticklabels(), styles.values(), strict=True):
        policy.set_color(INK)
        policy.set_fontweight("bold" if style.ours else "normal")
    axes.set_ylim(max(len(shares), FEW_BARS) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 100)
    axes.set_xlabel("GPU-time of the cluster (%)")
    axes.legend(
        title="queue",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=9,
        alignment="left",
    )


def queue_shares(outcomes: Sequence[Outcome], policy: str, capacity_milli: int) -> dict[str, float]:
    """What each queue held of the GPU-time of the cluster under a policy, in percent.

    From the first arrival to the last end, as utilization is; the mean over its runs.
    """
    runs = [outcome.series for outcome in outcomes if outcome.summary.policy == policy]
    shares: dict[str, float] = {}
    for series in runs:
        span_ms = series.time_ms[-1] - series.time_ms[0] if series.time_ms else 0
        whole = max(1, capacity_milli * span_ms) * len(runs) / 100
        for queue, held in series.queue_milli.items():
            shares[queue] = shares.get(queue, 0.0) + area(series.time_ms, held) / whole
    return shares


def _by_size(shares: Mapping[str, Mapping[str, float]]) -> dict[str, list[str]]:
    """Queues behind each label of the legend: the largest ones, and all others together."""
    total: dict[str, float] = {}
    for share in shares.values():
        for queue, percent in share.items():
            total[queue] = total.get(queue, 0.0) + percent
    ranked = sorted(total, key=lambda queue: -total[queue])
    if len(ranked) <= MAX_QUEUES + 1:
        return {queue: [queue] for queue in ranked}
    others = ranked[MAX_QUEUES:]
    return {**{q: [q] for q in ranked[:MAX_QUEUES]}, f"{len(others)} others": others}
