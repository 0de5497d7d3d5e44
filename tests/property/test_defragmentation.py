"""Defragmentation against every plan there is, and every step against the judge."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, event, given, settings

from solver.defrag.api import defragment
from solver.defrag.question import for_job, for_space
from solver.defrag.replay import replay
from solver.options import SolveOptions
from solver.preemption.cost import plan_cost_gpu_s
from solver.problem import Problem
from solver.state import states_after
from solver.stranding import StrandingMeter
from solver.tiers import must_runs
from solver.verify import verify
from solver.workload import RunningJob
from tests.brute_force import Enumeration, TooManyPlansError
from tests.strategies import crowded_problems

OPTIONS = SolveOptions(time_limit_s=20, workers=1)
PATIENCE = 4_000


def loosened(problem: Problem) -> Problem:
    """More of what runs may move than in the strategies."""
    return replace(problem, running=tuple(map(_loosened, problem.running)))


def _loosened(job: RunningJob) -> RunningJob:
    movable = job.preemption.movable or job.preemption.allowed
    return replace(job, preemption=replace(job.preemption, movable=movable))


@settings(max_examples=25, deadline=None)
@given(crowded_problems().map(loosened))
def test_a_job_starts_at_the_least_cost_of_all_plans(problem: Problem):
    target = problem.jobs[0].name
    question = for_job(problem, target)
    job = question.job_by_name[target]
    try:
        plans = [p for p in Enumeration(question, PATIENCE) if must_runs(job, p)]
    except TooManyPlansError:
        assume(False)

    answer = defragment(problem, target=target, options=OPTIONS)

    event(f"plans: {bool(plans)}, at a cost: {bool(answer.best and answer.best.cost_gpu_s)}")
    assert answer.excluded == (not plans)
    if plans:
        assert answer.best is not None
        assert answer.best.cost_gpu_s == min(plan_cost_gpu_s(question, plan) for plan in plans)
        assert answer.best.cost_bound_gpu_s == answer.best.cost_gpu_s
        assert replay(question, answer.best.plan, answer.best.schedule.actions) == []


@settings(max_examples=25, deadline=None)
@given(crowded_problems().map(loosened))
def test_the_curve_is_that_of_all_plans(problem: Problem):
    question = for_space(problem)
    meter = StrandingMeter(question)
    try:
        plans = list(Enumeration(question, PATIENCE))
    except TooManyPlansError:
        assume(False)
    offers = {
        (plan_cost_gpu_s(question, p), meter.weighted_milli(states_after(question, p)))
        for p in plans
    }
    best: list[tuple[int, int]] = []
    for cost, stranded in sorted(offers):
        if not best or stranded < best[-1][1]:
            best.append((cost, stranded))

    answer = defragment(problem, options=OPTIONS)

    # The curve begins with what is there now; a point that costs nothing may be better still.
    begin = (0, answer.present_stranded_milli)
    expected = best if best[0] == begin else [begin, *best]
    event(f"points: {len(expected)}")
    assert [(p.cost_gpu_s, p.stranded_milli) for p in answer.points] == expected
    for point in answer.points:
        assert verify(question, point.plan) == []
        assert replay(question, point.plan, point.schedule.actions) == []
