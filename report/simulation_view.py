"""A simulation as a table: one row per policy, the best values marked."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from report.folded import Cells, Column, Folded
from report.text import amount, duration, percent
from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulator.outcome import Summary


@dataclass(frozen=True, slots=True)
class SimulationRow:
    """What a run of one policy with one seed came to, and on which trace."""

    trace: str
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of the table: what it shows of a run, and when it says anything at all.

    Parameters
    ----------
    matters
        Whether the column is shown for these runs.
    explained
        What the legend says about it.
    """

    title: str
    value: Callable[[Summary], float]
    more_is_better: bool = False
    write: Callable[[float], str] = amount
    matters: Callable[[Sequence[Summary]], bool] = lambda _: True
    explained: str = ""


def simulate_view(
    title: str, rows: Sequence[SimulationRow], notes: Sequence[str]
) -> RenderableType:
    """The runs: one row per trace and policy, means over seeds.

    The best value of each column, among the policies of a trace, is marked with ``*``.

    Parameters
    ----------
    rows
        In the order in which traces and policies are shown.
    notes
        Sentences below the table.
    """
    runs: dict[str, dict[str, list[Summary]]] = {}
    for row in rows:
        runs.setdefault(row.trace, {}).setdefault(row.summary.policy, []).append(row.summary)
    everyone = [row.summary for row in rows]
    measures = [measure for measure in MEASURES if measure.matters(everyone)]
    columns = [Cells(measure.title, _cells(measure, runs)) for measure in measures]
    n_seeds = [len(seeds) for policies in runs.values() for seeds in policies.values()]
    if any(n > 1 for n in n_seeds):
        columns.insert(0, Cells("seeds", [Text(str(n)) for n in n_seeds]))
    return Group(
        Text(title, style="bold"),
        Folded(_heads(runs), columns),
        Text(_legend(measures, n_seeds), style="dim"),
        *(Text(f"note: {note}", style="dim") for note in notes),
    )


def _heads(runs: dict[str, dict[str, list[Summary]]]) -> list[Cells]:
    names = [
        Text(policy, style="bold" if policy.endswith("cp-sat") else "")
        for policies in runs.values()
        for policy in policies
    ]
    heads = [Cells("policy", names, "left")]
    if len(runs) > 1:
        # A trace is named where it begins: its policies then read as one block.
        traces = [
            Text(trace if row == 0 else "")
            for trace, policies in runs.items()
            for row, _ in enumerate(policies)
        ]
        heads.insert(0, Cells("trace", traces, "left"))
    return heads


def _cells(measure: Measure, runs: dict[str, dict[str, list[Summary]]]) -> list[Text]:
    cells = []
    for policies in runs.values():
        means = tuple(fmean(map(measure.value, seeds)) for seeds in policies.values())
        column = Column(measure.title, means, measure.more_is_better, measure.write)
        cells += [column.cell(row) for row, _ in enumerate(means)]
    return cells


def _legend(measures: Sequence[Measure], n_seeds: Sequence[int]) -> str:
    means = []
    if any(n > 1 for n in n_seeds):
        counts = sorted(set(n_seeds))
        many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        means = [f"Every number is the mean of {many} seeds."]
    explained = [f"{measure.explained}." for measure in measures if measure.explained]
    return " ".join(["* best of the column, before rounding.", *means, *explained])


def _stay(runs: Sequence[Summary]) -> bool:
    """Whether jobs of some run stay for good, so that its end state is what it is about."""
    return any(run.running > 0 and run.finished == 0 for run in runs)


def _waits(runs: Sequence[Summary]) -> bool:
    return any(run.finished > 0 or run.wait_max_s > 0 for run in runs) or not _stay(runs)


def _preempts(runs: Sequence[Summary]) -> bool:
    return any(run.preemptions for run in runs)


def _jct(run: Summary) -> float:
    # Where no job ran to its end there is no mean, and it must not pass for the best one.
    return run.jct_mean_s or inf


def _jct_text(value_s: float) -> str:
    return duration(value_s) if isfinite(value_s) else "-"


MEASURES = (
    Measure(title="finished", value=lambda run: run.finished, more_is_better=True),
    Measure(
        title="failed",
        value=lambda run: run.failed,
        matters=lambda runs: any(run.failed for run in runs),
    ),
    Measure(
        title="not\nplaced",
        value=lambda run: run.unschedulable,
        matters=lambda runs: any(run.unschedulable for run in runs),
    ),
    Measure(
        title="still\nrun",
        value=lambda run: run.running,
        more_is_better=True,
        matters=lambda runs: any(run.running for run in runs),
    ),
    Measure(
        title="allocated\nGPUs",
        value=lambda run: run.allocated_milli / GPU_MILLI,
        more_is_better=True,
        matters=_stay,
        explained="allocated: GPUs held at the end",
    ),
    Measure(
        title="utilization",
        value=lambda run: run.utilization_ratio,
        more_is_better=True,
        write=percent,
        explained="utilization: GPU-time of jobs that run, of all from first arrival to last end",
    ),
    Measure(
        title="wait\nmean",
        value=lambda run: run.wait_mean_s,
        write=duration,
        matters=_waits,
        explained="wait: arrival to first start, of jobs that started",
    ),
    Measure(title="wait\np50", value=lambda r: r.wait_p50_s, write=duration, matters=_waits),
    Measure(title="wait\np99", value=lambda r: r.wait_p99_s, write=duration, matters=_waits),
    Measure(
        title="JCT\nmean",
        value=_jct,
        write=_jct_text,
        matters=lambda runs: any(run.jct_mean_s for run in runs),
        explained="JCT: arrival to end",
    ),
    Measure(
        title="stranded\nGPUs",
        value=lambda run: run.stranded_gpus_mean,
        explained="stranded: free GPUs of no use to the workload, and fragm.: the expected "
        "unusable share of them; means over time",
    ),
    Measure(title="fragm.\nGPUs", value=lambda run: run.fragmentation_gpus_mean),
    Measure(title="dead-\nlocks", value=lambda run: run.deadlocks),
    Measure(title="preemp-\ntions", value=lambda run: run.preemptions, matters=_preempts),
    Measure(
        title="lost\nGPU-h",
        value=lambda run: run.lost_gpu_h,
        matters=_preempts,
        explained="lost: work done again after preemptions, and restarts",
    ),
    Measure(
        title="Jain",
        value=lambda run: run.jain,
        more_is_better=True,
        matters=lambda runs: any(run.jain != 1 for run in runs),
        explained="Jain: 1 where every queue was given the same part of what it is entitled to",
    ),
)
"""The columns, from left to right."""
