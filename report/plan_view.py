"""A plan as tables: what starts where, what each tier reached, what waits and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from report.console import new_table
from report.text import amount, percent, places, plural, seconds
from solver.cluster import GPU_MILLI
from solver.result import ObjectiveTerm, SolveResult, SolveStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from solver.problem import Problem
    from solver.workload import Job

UNIT_SCALES = {"milli-GPU": ("GPUs", 1000), "milli-CPU": ("CPUs", 1000)}
"""Units that people read in other words: unit of the result -> (word, how many make one)."""

STEP_WORDS = {"gpu_milli": "GPUs", "cpu_milli": "CPU", "memory_mib": "memory"}
"""Steps that are named after a resource."""


def solve_view(problem: Problem, result: SolveResult) -> RenderableType:
    """The plan of ``solve``: what starts where, what each tier reached, what waits and why."""
    sections: list[RenderableType] = [_headline(problem, result)]
    if result.plan.placements:
        sections += [_heading("Starts"), _starts(problem, result)]
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
        f"{amount(m.admitted_gpus)} GPUs; {amount(m.free_gpus)} GPUs stay free, "
        f"{amount(m.stranded_gpus)} of them stranded; {percent(m.utilization_ratio)} in use",
    )
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
            gpus = sum(p.share_milli * len(p.gpus) for p in held) / GPU_MILLI
            table.add_row(
                escape(job.name),
                escape(job.queue),
                str(job.priority),
                f"{len(held)}/{job.replicas}",
                amount(gpus, 3),
                escape(places(held)),
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
        elif shape.share_memory_mib:
            what = f"{amount(shape.share_memory_mib / 1024)} GiB of GPU"
        else:
            what = f"{amount(shape.cpu_milli / 1000)} CPU"
        parts.append(f"{role.replicas} x {what}")
    return " + ".join(parts)


def _tiers(terms: Sequence[ObjectiveTerm]) -> list[RenderableType]:
    """A row per step; steps that are 0, and proved so, are only counted."""
    table = new_table()
    for title in ("tier", "step"):
        table.add_column(title)
    for title in ("value", "bound", "gap"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    silent = 0
    for term in terms:
        name = term.name if term.level is None else f"{term.name} {term.level}"
        step = STEP_WORDS.get(term.step, term.step)
        if term.value == term.bound == 0:
            silent += 1
            continue
        unit, scale = UNIT_SCALES.get(term.unit, (term.unit, 1))
        table.add_row(
            name,
            step,
            amount(term.value / scale, 4),
            f"{'≤' if term.sense == 'max' else '≥'} {amount(term.bound / scale, 4)}",
            Text(percent(term.gap_ratio), style="green" if term.gap_ratio == 0 else "yellow"),
            unit,
        )
    found: list[RenderableType] = [table] if table.row_count else []
    if silent:
        steps = plural(silent, "further step is", "further steps are")
        found.append(Text(f"  {steps} 0, and proved to be", style="dim"))
    return found


def _stranded(result: SolveResult) -> list[RenderableType]:
    m = result.metrics
    causes = {cause: gpus for cause, gpus in m.stranded_by_cause.items() if gpus}
    text = f"  {amount(m.stranded_gpus)} of {amount(m.free_gpus)} free GPUs"
    if causes:
        text += f", by cause: {', '.join(f'{c} {amount(g)}' for c, g in causes.items())}"
    text += f"; fragmentation {amount(m.fragmentation_gpus)} GPUs"
    shapes = {shape: gpus for shape, gpus in m.stranded_by_shape.items() if gpus}
    if not shapes:
        return [Text(text)]
    table = new_table()
    table.add_column("for replicas of", overflow="fold")
    table.add_column("stranded GPUs", justify="right")
    for shape, gpus in shapes.items():
        table.add_row(escape(shape), amount(gpus))
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
