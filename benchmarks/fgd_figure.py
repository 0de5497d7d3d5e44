"""``python -m benchmarks.fgd_figure FILE.svg [SEED …]``: allocated against offered load.

The ``default`` workload of openb: published curves (mean over seeds 42 to 51), ours (mean over the
seeds given, default 42 to 51) and the ceiling.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from benchmarks.fgd_race import CEILING
from benchmarks.openb import ALL_SEEDS, CAPACITY_MILLI, OPENB, _curves
from simulator.levels import levels
from simulator.run import simulate
from simulator.sources import TraceSource

LEVELS = range(80, 131)
PUBLISHED = {"FGD": "#b35806", "BestFit": "#998ec3", "GpuPacking": "#7f9f7f", "DotProd": "#999999"}
OURS = {"bid-price": "-"}


def our_curve(policy: str, seeds: Sequence[int]) -> dict[int, float]:
    """Mean allocated percent by level."""
    curves = []
    for seed in seeds:
        scenario = TraceSource("openb", str(OPENB), "default").scenario(seed)
        curves.append(levels(simulate(scenario, policy, seed), CAPACITY_MILLI, LEVELS))
    return {
        level: mean(curve[level].allocated_pct for curve in curves if level in curve)
        for level in LEVELS
        if any(level in curve for curve in curves)
    }


def main(arguments: Sequence[str]) -> None:
    """Draw into the file that is named first."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "unstrand"
    target, *rest = arguments
    seeds = [int(seed) for seed in rest] or list(ALL_SEEDS)
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    ours = {policy: our_curve(policy, seeds) for policy in OURS}
    for policy, curve in ours.items():
        axes.plot(list(curve), list(curve.values()), color="#1f5fa8", lw=2.2, label=policy)
    published = _curves("published_alloc_pct.csv.gz")
    for name, colour in PUBLISHED.items():
        runs = [published["default", name, seed] for seed in ALL_SEEDS]
        at = [level for level in LEVELS if all(level in run for run in runs)]
        values = [mean(run[level] for run in runs) for level in at]
        axes.plot(at, values, color=colour, lw=1.4, label=f"{name} (published)")
    ceiling = CEILING["default"]
    axes.axhline(ceiling, color="black", lw=1, ls="--", label=f"ceiling at load 100 ({ceiling} %)")
    axes.plot([80, 100], [80, 100], color="black", lw=0.8, ls=":", label="all that is offered")
    axes.set(xlim=(LEVELS[0], LEVELS[-1]), ylim=(80, 98))
    axes.set_xlabel("offered load, % of the cluster's GPUs")
    axes.set_ylabel("allocated, % of the cluster's GPUs")
    axes.set_title(
        f"openb, default workload; bid-price with seed {', '.join(map(str, seeds))}", loc="left"
    )
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    figure.savefig(Path(target), metadata={"Date": None} if target.endswith(".svg") else None)


if __name__ == "__main__":
    main(sys.argv[1:])
