"""A plan as tables: what starts where, what each tier reached, what waits and why."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from report.console import new_table
from report.text import amount, percent, places, plural, seconds
from solver.cluster import GPU_MILLI
from solver.metrics import placed_milli
from solver.result import ObjectiveTerm, SolveResult, SolveStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from solver.problem import Problem
    from solver.workload import Job

UNITS = {
    "milli-GPU": ("GPUs", 1000),
    "milli-CPU": ("CPUs", 1000),
    "milli x age rank": ("", 1000),
    "weighted share": ("", 1),
}
"""Units that people read in other words: unit of the result -> (word, how many make one)."""

SINGULAR = re.compile(r"^(GPU|CPU|job|slice|group|replica)s\b")
"""What a unit is called where there is one of it: group 1."""

STEPS_OF_UNIT = {
    *("gpu_milli", "cpu_milli", "memory_mib"),
    *("gpus", "cost", "replicas", "jobs", "mig", "slices"),
}
"""Steps that their unit says already."""

MAX_SHAPES = 6
"""Shapes that the table of stranded GPUs shows, heaviest first."""


def solve_view(problem: Problem, result: SolveResult) -> RenderableType:
    """The plan of ``solve``: what starts where, what each tier reached, what waits and why."""
    sections: list[RenderableType] = [_headline(problem, result)]
    if result.plan.placements:
        sections += [_heading("Starts"), _starts(problem, result)]
    if result.evictions or result.moves:
        sections += [_heading("Gives way"), _gives_way(problem, result)]
    if result.pending:
        sections += [_heading("Waits"), _waits(problem, result)]
    sections += [_heading("Tiers, in order"), *_tiers(result.objectives)]
    sections += [_heading("Stranded"), *_stranded(result)]
    if len(result.queues) > 1:
        sections += [_heading("Queues (GPUs)"), _queues(result)]
    sections += _notes(result.notes)
    return Group(*sections)


def _headline(problem: Problem, result: SolveResult) -> Text:
    m = result.metrics
    styles = {SolveStatus.OPTIMAL: "bold green", SolveStatus.FEASIBLE: "bold yellow"}
    text = Text.assemble(
        (problem.name, "bold"),
        ": ",
        (result.status.value, styles.get(result.status, "bold red")),
        f" plan by {result.policy}, checked, in {seconds(result.timing.total_s)}\n",
        f"{m.admitted_jobs} of {plural(len(problem.jobs), 'job')} start on "
        f"{_gpus(m.admitted_gpus, 3)}; {_gpus(m.free_gpus, 3)} "
        f"stay{'s' if m.free_gpus == 1 else ''} "
        f"free, {amount(m.stranded_gpus)} of them stranded; {percent(m.utilization_ratio)} in use",
    )
    if result.evictions or result.moves:
        text.append(f"\n{_price(result)}")
    if result.must_fail:
        names = ", ".join(result.must_fail)
        text.append(f"\nproved unable to run although marked must: {names}", style="bold red")
    return text


def _starts(problem: Problem, result: SolveResult) -> Table:
    table = new_table()
    for title in ("job", "queue"):
        table.add_column(title, overflow="fold")
    for title in ("prio", "replicas", "GPUs"):
        table.add_column(title, justify="right")
    table.add_column("where", overflow="fold")
    for job in sorted(problem.jobs, key=lambda job: -job.priority):
        held = result.plan.by_job.get(job.name, ())
        if held:
            gpus = sum(placed_milli(problem, p) for p in held) / GPU_MILLI
            table.add_row(
                escape(job.name),
                escape(job.queue),
                str(job.priority),
                f"{len(held)}/{job.replicas}",
                amount(gpus, 3),
                escape(places(held)),
            )
    return table


def _price(result: SolveResult) -> str:
    """What gives way, and what it costs."""
    parts = []
    if result.evictions:
        stopped = sum(len(evicted.replicas) for evicted in result.evictions)
        jobs = plural(len(result.evictions), "running job")
        parts.append(
            f"{plural(stopped, 'replica')} of {jobs} {'stops' if stopped == 1 else 'stop'}"
        )
    if result.moves:
        parts.append(plural(len(result.moves), "replica moves", "replicas move"))
    cost = result.metrics.preemption_cost_gpu_s
    return f"{' and '.join(parts)}, at a cost of {amount(cost)} GPU-seconds"


def _gives_way(problem: Problem, result: SolveResult) -> Table:
    table = new_table()
    for title in ("job", "queue"):
        table.add_column(title, overflow="fold")
    for title in ("prio", "replicas", "GPUs"):
        table.add_column(title, justify="right")
    table.add_column("what", overflow="fold")
    table.add_column("cost GPU-s", justify="right")
    running = {job.name: job for job in problem.running}
    for evicted in result.evictions:
        job = running[evicted.job]
        whole = len(evicted.replicas) == len(job.replicas)
        nodes = sorted({job.replicas[n].node for n in evicted.replicas})
        table.add_row(
            escape(job.name),
            escape(job.queue),
            str(job.priority),
            f"{len(evicted.replicas)}/{len(job.replicas)}",
            amount(evicted.gpu_milli / GPU_MILLI, 3),
            escape(f"{'stops' if whole else 'gives up its surplus'} on {', '.join(nodes)}"),
            amount(evicted.cost_gpu_s),
        )
    for moved in result.moves:
        job = running[moved.job]
        table.add_row(
            escape(job.name),
            escape(job.queue),
            str(job.priority),
            f"1/{len(job.replicas)}",
            amount(moved.gpu_milli / GPU_MILLI, 3),
            escape(f"moves from {moved.from_node} to {moved.to_node}"),
            amount(moved.cost_gpu_s),
        )
    return table


def _waits(problem: Problem, result: SolveResult) -> Table:
    table = new_table()
    for title in ("job", "queue"):
        table.add_column(title, overflow="fold")
    table.add_column("prio", justify="right")
    table.add_column("wants", no_wrap=True)
    table.add_column("reason", no_wrap=True)
    table.add_column("why", overflow="fold")
    for waiting in result.pending:
        job = problem.job_by_name[waiting.job]
        table.add_row(
            escape(job.name),
            escape(job.queue),
            str(job.priority),
            _wants(job),
            waiting.reason,
            escape(waiting.text),
        )
    return table


def _wants(job: Job) -> str:
    parts = []
    for role in job.roles:
        shape = role.shape
        if shape.gpus:
            what = f"{shape.gpus} GPU"
        elif shape.share_milli:
            what = f"{amount(shape.share_milli / GPU_MILLI, 3)} GPU"
        elif shape.slices:
            what = " + ".join(f"{count} {wish}" for wish, count in shape.slices)
        elif shape.share_memory_mib:
            what = f"{amount(shape.share_memory_mib / 1024)} GiB of GPU"
        else:
            what = f"{amount(shape.cpu_milli / 1000)} CPU"
        parts.append(f"{role.replicas} x {what}")
    return " + ".join(parts)


def _tiers(terms: Sequence[ObjectiveTerm]) -> list[RenderableType]:
    """A row per tier and priority level, and one for every step that is not proved.

    Steps that are 0, and proved to be, are only counted.
    """
    table = new_table()
    table.add_column("tier", no_wrap=True)
    table.add_column("reached")
    table.add_column("bound", no_wrap=True)
    table.add_column("gap", justify="right", no_wrap=True)
    silent = 0
    for name, group in groupby(terms, key=_tier):
        steps = list(group)
        proved = [term for term in steps if term.value == term.bound]
        said = [_reached(term) for term in proved if term.value]
        silent += len(proved) - len(said)
        if said:
            table.add_row(name, ", ".join(said), "the same", Text(percent(0), style="green"))
        for term in steps:
            if term.value != term.bound:
                sign = "≤" if term.sense == "max" else "≥"
                gap = Text(percent(term.gap_ratio), style="yellow")
                table.add_row(name, _reached(term), f"{sign} {_in_words(term, term.bound)}", gap)
    found: list[RenderableType] = [table] if table.row_count else []
    if silent:
        steps_are = plural(silent, "further step is", "further steps are")
        found.append(Text(f"  {steps_are} 0, and proved to be", style="dim"))
    return found


def _tier(term: ObjectiveTerm) -> str:
    return term.name if term.level is None else f"{term.name} {term.level}"


def _reached(term: ObjectiveTerm) -> str:
    """A step with its value; where the step is a unit itself, the value says it all."""
    step, _, below = term.step.partition("-below-")
    depth, _, rank = below.partition("-")  # a rank where it is about shares: fairness-below-1-2
    step = f"{step}-{rank}" if rank else step
    said = "" if step in STEPS_OF_UNIT else f"{step} "
    inner = f" of queues {plural(int(depth), 'level')} down" if depth else ""
    return f"{said}{_in_words(term, term.value)}{inner}"


def _in_words(term: ObjectiveTerm, value: float) -> str:
    word, scale = UNITS.get(term.unit, (term.unit, 1))
    if value == scale:
        word = SINGULAR.sub(r"\1", word)
    return f"{amount(value / scale, 4)} {word}".rstrip()


def _gpus(gpus: float, digits: int = 2) -> str:
    return f"{amount(gpus, digits)} {'GPU' if gpus == 1 else 'GPUs'}"


def _stranded(result: SolveResult) -> list[RenderableType]:
    m = result.metrics
    causes = {cause: gpus for cause, gpus in m.stranded_by_cause.items() if gpus}
    text = f"  {amount(m.stranded_gpus)} of {amount(m.free_gpus)} free GPUs"
    if causes:
        text += f", by cause: {', '.join(f'{c} {amount(g)}' for c, g in causes.items())}"
    text += f"; fragmentation {_gpus(m.fragmentation_gpus)}"
    shapes = {shape: gpus for shape, gpus in m.stranded_by_shape.items() if gpus}
    if not shapes:
        return [Text(text)]
    table = new_table()
    table.add_column("for replicas of", overflow="fold")
    table.add_column("stranded GPUs", justify="right")
    for shape, gpus in list(shapes.items())[:MAX_SHAPES]:
        table.add_row(escape(shape), amount(gpus))
    if len(shapes) > MAX_SHAPES:
        table.add_row(f"… and {plural(len(shapes) - MAX_SHAPES, 'rarer shape')}", "")
    return [Text(text), table]


def _queues(result: SolveResult) -> Table:
    table = new_table()
    table.add_column("queue")
    for title in ("quota", "demand", "entitled", "used", "dominant share"):
        table.add_column(title, justify="right")
    table.add_column("borrowed from")
    for queue in result.queues:
        gpus = [
            amount(amounts.get("gpu_milli", 0) / GPU_MILLI)
            for amounts in (queue.quota, queue.demand, queue.entitled, queue.used)
        ]
        lenders = ", ".join(
            f"{escape(name)} {amount(milli / GPU_MILLI)}"
            for name, milli in queue.borrowed_from.items()
        )
        table.add_row(escape(queue.name), *gpus, percent(queue.dominant_share), lenders or "-")
    return table


def _notes(notes: Iterable[str]) -> list[RenderableType]:
    return [Text(f"note: {note}", style="dim") for note in notes]


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")
