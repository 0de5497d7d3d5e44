"""Why each waiting job waits: one reason, one line, and the numbers behind it."""

from __future__ import annotations

from solver.aftermath import settled
from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.reasons.amounts import amounts
from solver.reasons.desk import Desk
from solver.reasons.impossible import impossible
from solver.reasons.queue_rules import beyond_claim, fair_share, queue_limit
from solver.reasons.start_group import partner
from solver.reasons.turn import left_over, rank, waiting_part
from solver.reasons.verdict import Verdict, main_shape, number
from solver.reasons.where import never, nowhere, where
from solver.result import FactValue, Pending
from solver.solution import Plan
from solver.workload import Job


def pending(problem: Problem, plan: Plan, asked: str | None = None) -> tuple[Pending, ...]:
    """Reasons of all jobs that do not start, and of independent replicas that are left over.

    What the plan evicts is gone, and what it moves is in its new place.

    Parameters
    ----------
    asked
        What the plan was asked for, where that is not to start all that can: jobs that would have
        room are then told that they were left out.
    """
    gave_way = tuple(sorted(plan.displaced))
    problem, plan = settled(problem, plan)
    waiting = [job for job in problem.jobs if left_over(job, plan)]
    if not waiting:
        return ()
    desk = Desk(problem, plan, gave_way)
    # In the order of their turns, so that what they find at theirs only ever gets less.
    in_turn = sorted(waiting, key=lambda job: rank(problem, job))
    answers = {job.name: _explain(desk, job, asked) for job in in_turn}
    return tuple(answers[job.name] for job in waiting)


def _verdict(desk: Desk, job: Job, asked: str | None) -> Verdict:
    """The first of these that is true."""
    return (
        impossible(desk, job)
        or queue_limit(desk, job)
        or where(desk, job, lambda: desk.after)
        or partner(desk, job)
        or _left_out(desk, job, asked)
        or beyond_claim(desk, job)
        or where(desk, job, lambda: desk.at_turn(job))
        or never(desk, job)
        or nowhere(desk, job)
        or fair_share(desk, job)
        or amounts(desk, job)
    )


def _left_out(desk: Desk, job: Job, asked: str | None) -> Verdict | None:
    """There is room, but the plan was not asked to start it."""
    if asked is None or not desk.room(desk.after, job).fits:
        return None
    return Verdict("not-asked", f"there is room for it; {asked}", {})


def _explain(desk: Desk, job: Job, asked: str | None) -> Pending:
    waiting = waiting_part(job, desk.plan)
    verdict = _verdict(desk, waiting, asked)
    started = desk.plan.by_job.get(job.name, ())
    text = verdict.text
    if started:
        text = f"{len(started)} of {job.replicas} replicas start; the next one: {text}"
    held = sum(len(p.gpus) * p.share_milli for p in started)
    facts = {**_facts(desk, waiting), **verdict.facts, "holds": number(held / GPU_MILLI)}
    return Pending(job=job.name, reason=verdict.reason, text=text, facts=facts)


def _facts(desk: Desk, job: Job) -> dict[str, FactValue]:
    """What every reason says in numbers."""
    shape = main_shape(desk.problem, job)
    facts: dict[str, FactValue] = {
        "needs": number(desk.need(job, "gpu_milli") / GPU_MILLI),
        "free": number(desk.free(shape)),
        "best_node_free": desk.best_node(shape),
    }
    if shape.gpu_models:
        mine, others = desk.free_by_model(shape, desk.after)
        facts |= {"free_of_model": number(mine), "free_of_other_models": number(others)}
    return facts
