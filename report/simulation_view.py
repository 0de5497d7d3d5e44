"""A simulation as a table: one row per policy, the best values marked."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from report.folded import Cells, Column, Folded
from report.text import amount, duration, percent, plural
from simulator.lives import State
from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simulator.outcome import Left, Summary


NEVER, WAITING = State.UNSCHEDULABLE, State.WAITING

AT_ONCE = "no time passes: utilization, stranded and fragm. are those of that moment"

MOST_NAMES, MOST_REASONS = 5, 3
"""Jobs of one reason, and reasons, that a note names."""


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
    value
        The number; None where there is none.
    matters
        Whether the column is shown for these runs.
    of_done
        Whether it is about jobs that got done, so that who got fewer done is not the best in it.
    explained
        What the legend says about it.
    """

    title: str
    value: Callable[[Summary], float | None]
    more_is_better: bool = False
    write: Callable[[float], str] = amount
    matters: Callable[[Sequence[Summary]], bool] = lambda _: True
    of_done: bool = False
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


def left_notes(rows: Sequence[SimulationRow]) -> list[str]:
    """A sentence on jobs that never fit, and one on those that still wait: who, and why.

    Policies and seeds that leave the same jobs share it. Before them, one on runs over no time.
    """
    found: dict[tuple[str, State, int, tuple[Left, ...]], dict[str, None]] = {}
    for row in rows:
        run = row.summary
        for state, count in ((NEVER, run.unschedulable), (WAITING, run.waiting)):
            if count:
                left = tuple(left for left in run.left if left.state is state)
                found.setdefault((row.trace, state, count, left), {})[run.policy] = None
    policies = len({row.summary.policy for row in rows})
    notes = [AT_ONCE] if rows and not any(row.summary.makespan_s for row in rows) else []
    for (_, state, count, left), who in found.items():
        names = "every policy" if len(who) == policies else ", ".join(who)
        what = "never fits" if count == 1 else "never fit"
        if state is WAITING:
            what = "still waits at the end" if count == 1 else "still wait at the end"
        reasons = dict.fromkeys(entry.reason for entry in left)
        named = "; ".join(
            f"{_some([e.job for e in left if e.reason == reason])} ({reason})"
            for reason in list(reasons)[:MOST_REASONS]
        )
        rest = len(reasons) - MOST_REASONS
        named += f"; and {plural(rest, 'further reason')}" if rest > 0 else ""
        notes.append(f"{names}: {plural(count, 'job')} {what}: {named}")
    return notes


def _some(names: Sequence[str]) -> str:
    more = ", …" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


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
        means = tuple(_mean(map(measure.value, seeds)) for seeds in policies.values())
        compared = None
        if measure.of_done:
            done = [fmean(run.finished + run.failed for run in runs) for runs in policies.values()]
            compared = tuple(count == max(done) for count in done)
        column = Column(measure.title, means, measure.more_is_better, measure.write, compared)
        cells += [column.cell(row) for row, _ in enumerate(means)]
    return cells


def _mean(values: Iterable[float | None]) -> float:
    """The mean of those that are there; NaN where none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else nan


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
    return any(run.finished > 0 or run.wait_max_s for run in runs) or not _stay(runs)


def _preempts(runs: Sequence[Summary]) -> bool:
    return any(run.preemptions for run in runs)


MEASURES = (
    Measure(title="finished", value=lambda run: run.finished, more_is_better=True),
    Measure(
        title="failed",
        value=lambda run: run.failed,
        matters=lambda runs: any(run.failed for run in runs),
        explained="failed: by themselves, or dropped on arrival where nobody waits",
    ),
    Measure(
        title="never\nfit",
        value=lambda run: run.unschedulable,
        matters=lambda runs: any(run.unschedulable for run in runs),
        explained="never fit: not even the empty cluster",
    ),
    Measure(
        title="still\nwait",
        value=lambda run: run.waiting,
        matters=lambda runs: any(run.waiting for run in runs),
        explained="still wait: when nothing more ends or arrives",
    ),
    Measure(
        title="still\nrun",
        value=lambda run: run.running,
        more_is_better=True,
        matters=lambda runs: any(run.running for run in runs),
        explained="still run: they do not end by themselves",
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
        title="goodput",
        value=lambda run: run.goodput_ratio,
        more_is_better=True,
        write=percent,
        matters=_preempts,
        explained="goodput: the same without work that was lost and restarts",
    ),
    Measure(
        title="wait\nmean",
        value=lambda run: run.wait_mean_s,
        write=duration,
        matters=_waits,
        of_done=True,
        explained="wait: arrival to first start, of jobs that started",
    ),
    Measure(
        title="wait\np50",
        value=lambda run: run.wait_p50_s,
        write=duration,
        matters=_waits,
        of_done=True,
    ),
    Measure(
        title="wait\np99",
        value=lambda run: run.wait_p99_s,
        write=duration,
        matters=_waits,
        of_done=True,
    ),
    Measure(
        title="JCT\nmean",
        value=lambda run: run.jct_mean_s,
        write=duration,
        matters=lambda runs: any(run.jct_mean_s is not None for run in runs),
        of_done=True,
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
    Measure(
        title="preemp-\ntions",
        value=lambda run: run.preemptions,
        matters=_preempts,
        explained="preemptions: times that running work was stopped or moved for other work",
    ),
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
    Measure(
        title="gap\nmean",
        value=lambda run: run.share_gap_mean,
        write=percent,
        matters=lambda runs: any(run.share_gap_max for run in runs),
        explained="gap: what the queue that lacks most lacks of what it is entitled to, of all "
        "GPUs",
    ),
    Measure(
        title="gap\nmax",
        value=lambda run: run.share_gap_max,
        write=percent,
        matters=lambda runs: any(run.share_gap_max for run in runs),
    ),
    Measure(
        title="rho\nmax",
        value=lambda run: run.finish_rho_max,
        matters=lambda runs: any((run.finish_rho_max or 0) > 1 for run in runs),
        explained="rho: finish-time fairness, arrival to end over the same on an n-th of the "
        "cluster, n being the jobs there at the time",
    ),
)
"""The columns, from left to right."""
