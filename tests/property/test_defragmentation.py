"""Defragmentation against every plan there is, and every step against the judge."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

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
from solver.workload import Preemption
from tests.brute_force import Enumeration, TooManyPlansError
from tests.scenario import Scenario

OPTIONS = SolveOptions(time_limit_s=20, workers=1)
PATIENCE = 4_000


@st.composite
def scattered(draw: Any) -> Problem:
    """Two or three nodes of three or four GPUs, work on each, and a job that fits on none."""
    story = Scenario(shuffle=False)
    free: dict[str, list[int]] = {}
    for place in range(draw(st.integers(2, 3))):
        free[f"n{place}"] = list(range(draw(st.sampled_from([3, 4, 4]))))
        story.node(f"n{place}", gpus=len(free[f"n{place}"]), cpu=draw(st.sampled_from([None, 4])))
    hosts = sorted(free) + draw(st.lists(st.sampled_from(sorted(free)), max_size=1))
    for number, node in enumerate(hosts):
        size = min(len(free[node]), draw(st.sampled_from([1, 1, 2])))
        if not size:
            continue
        taken = draw(st.permutations(free[node]))[:size]
        free[node] = [gpu for gpu in free[node] if gpu not in taken]
        story.running(
            f"run-{number}",
            node,
            sorted(taken),
            cpu=draw(st.sampled_from([0, 0, 1])),
            priority=draw(st.sampled_from([0, 10])),
            preemption=Preemption(
                allowed=draw(st.booleans()),
                movable=draw(st.sampled_from([True, True, False])),
                checkpoint_age_s=draw(st.sampled_from([0, 30, 100])),
                cost_gpu_s=draw(st.sampled_from([None, None, 7])),
            ),
        )
    most = max(len(gpus) for gpus in free.values())
    gpus = draw(st.integers(min(4, most + 1), 4))
    return story.job("big", gpus=gpus, priority=5).problem()


@settings(max_examples=50, deadline=None)
@given(scattered())
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


@settings(max_examples=50, deadline=None)
@given(scattered())
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
