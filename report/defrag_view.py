"""A defragmentation: the curve and the steps in order, as tables and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from report.console import new_table
from report.json_report import number, solve_report
from report.text import amount, plural, seconds
from solver.defrag.steps import StepKind

if TYPE_CHECKING:
    from rich.table import Table

    from solver.defrag.answer import Defragmentation, Point
    from solver.defrag.steps import Action, Cycle, Place
    from solver.result import SolveResult


def defrag_report(answer: Defragmentation, result: SolveResult) -> dict[str, Any]:
    """The answer of ``solve`` for the plan to carry out, with `defrag`: its steps and the curve."""
    assert answer.best is not None
    return {
        **solve_report(result),
        "defrag": {
            "for": answer.target,
            "budget_gpu_s": answer.budget_gpu_s,
            "stranded_gpus_before": number(answer.present_stranded_milli / answer.scale),
            "steps": _steps(answer.best),
            "cycles": _cycles(answer.best),
            "curve": [_point(answer, point) for point in answer.points],
            "curve_complete": answer.complete,
        },
    }


def _point(answer: Defragmentation, point: Point) -> dict[str, Any]:
    return {
        "cost_gpu_s": point.schedule.cost_gpu_s,
        "cost_bound_gpu_s": point.cost_bound_gpu_s,
        "stranded_gpus": number(point.stranded_milli / answer.scale),
        "stranded_bound_gpus": number(point.stranded_bound_milli / answer.scale),
        "proved": point.proved,
        "moves": len(point.plan.moves),
        "evictions": len(point.plan.evictions),
        "steps": _steps(point),
    }


def _steps(point: Point) -> list[dict[str, Any]]:
    return [
        {
            "step": place,
            "kind": action.kind.value,
            "jobs": list(action.jobs),
            "replicas": list(action.replicas),
            "from": _place(action.origin),
            "to": _place(action.target),
            "cost_gpu_s": action.cost_gpu_s,
        }
        for place, action in enumerate(point.schedule.actions, start=1)
    ]


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"node": place.node, "gpus": list(place.gpus), "share_milli": place.share_milli}


def _cycles(point: Point) -> list[dict[str, Any]]:
    return [
        {
            "jobs": list(cycle.jobs),
            "job": cycle.job,
            "replica": cycle.replica,
            "broken_by": cycle.broken_by.value,
            "possible_by_moves": cycle.broken_by is StepKind.PARK,
            "cost_gpu_s": cycle.cost_gpu_s,
        }
        for cycle in point.schedule.cycles
    ]


def defrag_view(answer: Defragmentation, result: SolveResult) -> RenderableType:
    """What is gained at which price, and the steps in order."""
    best = answer.best
    assert best is not None
    sections: list[RenderableType] = [_headline(answer, best, result)]
    if answer.target is None:
        sections += [_heading("Cost against stranded"), _curve(answer)]
        if not answer.complete:
            sections.append(Text("not all of it is proved in the time: points may be missing"))
    if best.schedule.actions:
        sections += [_heading("Steps, in order"), _steps_table(best)]
        sections += [Text(_in_words(cycle)) for cycle in best.schedule.cycles]
    waiting = [w for w in result.pending if w.job not in best.plan.by_job]
    if waiting:
        sections.append(_heading("Waits"))
        sections += [Text(f"{w.job}: {w.reason}: {w.text}") for w in waiting]
    sections += [Text(f"note: {note}", style="dim") for note in result.notes]
    return Group(*sections)


def _headline(answer: Defragmentation, best: Point, result: SolveResult) -> Text:
    proof = ("optimal", "bold green") if answer.proved else ("feasible", "bold yellow")
    before, after = answer.present_stranded_milli, best.stranded_milli
    bound = "" if best.proved else f" (at least {amount(best.cost_bound_gpu_s)})"
    parts = []
    if best.plan.moves:
        parts.append(plural(len(best.plan.moves), "replica moves", "replicas move"))
    if best.plan.evictions:
        stopping = len(best.plan.evictions)
        parts.append(plural(stopping, "running job gives way", "running jobs give way"))
    what = " and ".join(parts) or "nothing moves"
    return Text.assemble(
        (answer.question.name, "bold"),
        ": ",
        proof,
        f" defragmentation, checked step by step, in {seconds(result.timing.total_s)}\n",
        f"{answer.target} starts: " if answer.target else "",
        f"{what}, at a cost of {amount(best.schedule.cost_gpu_s)} GPU-seconds{bound}\n",
        f"stranded GPUs: {amount(before / answer.scale)} before, {amount(after / answer.scale)} "
        "after",
    )


def _curve(answer: Defragmentation) -> Table:
    table = new_table()
    for title in ("cost GPU-s", "stranded GPUs", "at least", "moves"):
        table.add_column(title, justify="right")
    table.add_column("proof")
    for point in answer.points:
        table.add_row(
            amount(point.schedule.cost_gpu_s),
            amount(point.stranded_milli / answer.scale),
            amount(point.stranded_bound_milli / answer.scale),
            str(len(point.plan.moves)),
            "proved" if point.proved else f"cost at least {amount(point.cost_bound_gpu_s)}",
        )
    return table


def _steps_table(point: Point) -> Table:
    table = new_table()
    table.add_column("step", justify="right")
    for title in ("what", "job", "from", "to"):
        table.add_column(title, overflow="fold")
    table.add_column("cost GPU-s", justify="right")
    for number_, action in enumerate(point.schedule.actions, start=1):
        target = _where(action.target)
        if action.kind is StepKind.START:
            nodes = {p.node for job in action.jobs for p in point.plan.by_job[job]}
            target = ", ".join(sorted(nodes))
        table.add_row(
            str(number_),
            action.kind.value,
            escape(_who(action)),
            escape(_where(action.origin)),
            escape(target),
            amount(action.cost_gpu_s),
        )
    return table


def _who(action: Action) -> str:
    numbers = ", ".join(map(str, action.replicas))
    return ", ".join(action.jobs) + (f" [{numbers}]" if numbers else "")


def _where(place: Place | None) -> str:
    if place is None:
        return ""
    gpus = ",".join(map(str, place.gpus))
    return f"{place.node} gpu {gpus}" if gpus else place.node


def _in_words(cycle: Cycle) -> str:
    jobs = " and ".join(cycle.jobs) if len(cycle.jobs) > 1 else f"replicas of {cycle.jobs[0]}"
    if cycle.broken_by is StepKind.PARK:
        return (
            f"{jobs} wait for each other's places: {cycle.job} goes through free space, for "
            f"{amount(cycle.cost_gpu_s)} GPU-seconds more"
        )
    return (
        f"{jobs} wait for each other's places and nowhere is free space: moves alone are "
        f"impossible; {cycle.job} stops at its checkpoint until its new place is free"
    )


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")
