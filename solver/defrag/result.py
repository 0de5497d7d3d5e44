"""The best plan of a defragmentation as a `SolveResult`, like that of any other solve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from solver.defrag.answer import Defragmentation, Point
from solver.figures import measure_cluster, report_evictions, report_moves, report_queues
from solver.problem import Problem
from solver.reasons import pending
from solver.result import ObjectiveTerm, Pending, SolveResult, SolveStatus, Timing
from solver.solution import Plan
from solver.tiers import Ruler


def as_result(problem: Problem, answer: Defragmentation, notes: Iterable[str] = ()) -> SolveResult:
    """The plan to carry out, with what it means for all that waits.

    Raises
    ------
    ValueError
        There is no plan.
    """
    best = answer.best
    if best is None:
        raise ValueError("a defragmentation without a plan has no result")
    whole = replace(problem, defragment=True)
    ruler = Ruler(whole)
    said = [*notes, *answer.notes]
    others = len(problem.pending) - len(answer.question.pending)
    if answer.target is not None and others:
        said.append(f"only {answer.target} was asked for: what else waits is left out of it")
    if answer.target is None and problem.pending:
        again = ": solve again once the moves are made" if best.plan.moves else ""
        said.append(f"nothing starts by itself{again}")
    return SolveResult(
        status=SolveStatus.OPTIMAL if answer.proved else SolveStatus.FEASIBLE,
        policy="cp-sat",
        model="direct",
        plan=best.plan,
        objectives=_terms(answer, best),
        pending=_pending(whole, answer.target, best.plan),
        queues=report_queues(whole, best.plan),
        metrics=measure_cluster(whole, best.plan, ruler),
        timing=Timing(total_s=answer.total_s),
        notes=tuple(dict.fromkeys(said)),
        evictions=report_evictions(whole, best.plan),
        moves=report_moves(whole, best.plan),
    )


def _pending(problem: Problem, target: str | None, plan: Plan) -> tuple[Pending, ...]:
    """Why jobs wait once the steps are done."""
    alone = "moves alone were asked for, so nothing starts"
    return pending(problem, plan, alone if target is None else f"only {target} was asked for")


def _terms(answer: Defragmentation, best: Point) -> tuple[ObjectiveTerm, ...]:
    cost = ObjectiveTerm(
        name="preemption_cost",
        level=None,
        step="cost",
        sense="min",
        unit="GPU-s",
        value=best.schedule.cost_gpu_s,
        bound=best.cost_bound_gpu_s,
    )
    if answer.target is not None:
        return (cost,)
    stranded = ObjectiveTerm(
        name="stranded",
        level=None,
        step="gpus",
        sense="min",
        unit="GPUs",
        value=best.stranded_milli / answer.scale,
        bound=best.stranded_bound_milli / answer.scale,
    )
    return (stranded, cost)
