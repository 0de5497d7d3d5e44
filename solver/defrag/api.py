"""defragment(problem): the one call for commands, simulator and benchmarks."""

from __future__ import annotations

import time

from solver.defrag.answer import Defragmentation, DefragmentationError, Point
from solver.defrag.curve import fewest_stranded, stranding_curve
from solver.defrag.opening import cheapest_start
from solver.defrag.ordering import schedule
from solver.defrag.question import for_job, for_space
from solver.defrag.replay import replay
from solver.interrupts import held
from solver.options import SolveOptions
from solver.preemption.cost import plan_cost_gpu_s
from solver.problem import Problem
from solver.progress import ProgressListener
from solver.solution import Plan
from solver.state import states_after
from solver.stranding import StrandingMeter, stranded_scale
from solver.verify import verify


def defragment(
    problem: Problem,
    *,
    target: str | None = None,
    budget_gpu_s: int | None = None,
    options: SolveOptions | None = None,
    progress: ProgressListener | None = None,
) -> Defragmentation:
    """What to move (and, for a job, to stop) at the least cost, with the steps in order.

    Parameters
    ----------
    problem
        The state now: what runs, where, and what waits.
    target
        A pending job that is to start; what moves and stops costs as little as possible. None
        asks for the fewest stranded GPUs, by moves alone.
    budget_gpu_s
        Most that moves and evictions may cost together; None is no limit, and without a target
        asks for the whole curve of cost against stranded GPUs.
    progress
        Told the best value and bound so far. Ctrl-C ends the search, and what it has is the
        answer.

    Returns
    -------
    Defragmentation
        Plans that `verify` found no fault in, each with steps that `replay` found no fault in.

    Raises
    ------
    DefragmentationError
        A plan or its steps broke a rule: our bug.
    """
    options = options or SolveOptions()
    began = time.monotonic()
    ends_at_s = began + options.time_limit_s
    meter = StrandingMeter(problem)
    excluded, complete, exhausted = False, True, True
    notes: tuple[str, ...] = ()
    found: list[tuple[Plan, int, int | None]]
    if target is not None:
        question = for_job(problem, target)
        opened = cheapest_start(question, options, ends_at_s, progress)
        excluded, notes = opened.excluded, opened.notes
        found = [] if opened.plan is None else [(opened.plan, opened.cost_bound_gpu_s, None)]
        if found and budget_gpu_s is not None:
            excluded = opened.cost_bound_gpu_s > budget_gpu_s
            if plan_cost_gpu_s(question, found[0][0]) > budget_gpu_s:
                found = []
    else:
        question = for_space(problem)
        if budget_gpu_s is None:
            offers = stranding_curve(question, options, ends_at_s, progress)
        else:
            offers = fewest_stranded(question, budget_gpu_s, options, ends_at_s, progress)
        found = [(p.plan, p.cost_bound_gpu_s, p.stranded_bound_milli) for p in offers.points]
        complete, exhausted = offers.complete, offers.proved
        if offers.interrupted:
            notes = ("interrupted: the best plans so far",)
    with held(drop=True):
        points = tuple(_checked(question, meter, *each) for each in found)
    return Defragmentation(
        question=question,
        target=target,
        budget_gpu_s=budget_gpu_s,
        points=points,
        present_stranded_milli=meter.weighted_milli(states_after(question, Plan())),
        scale=stranded_scale(problem),
        excluded=excluded,
        complete=complete,
        exhausted=exhausted,
        total_s=time.monotonic() - began,
        notes=notes,
    )


def _checked(
    question: Problem,
    meter: StrandingMeter,
    plan: Plan,
    cost_bound_gpu_s: int,
    stranded_bound_milli: int | None,
) -> Point:
    """The point of a plan, once the plan and the order of its steps have been judged."""
    if violations := verify(question, plan):
        raise DefragmentationError([violation.text for violation in violations])
    steps = schedule(question, plan)
    if faults := replay(question, plan, steps.actions):
        raise DefragmentationError(faults)
    stranded = meter.weighted_milli(states_after(question, plan))
    bound = stranded if stranded_bound_milli is None else stranded_bound_milli
    return Point(
        plan=plan,
        schedule=steps,
        cost_gpu_s=plan_cost_gpu_s(question, plan),
        cost_bound_gpu_s=cost_bound_gpu_s,
        stranded_milli=stranded,
        stranded_bound_milli=bound,
    )
