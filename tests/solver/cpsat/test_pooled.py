"""Pools: every plan is a solution of the counted model, and what it decides is what is best."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from hypothesis import HealthCheck, assume, given, settings
from ortools.sat.python import cp_model

from solver.api import solve
from solver.cpsat.model import PlacementModel, StepExpressions
from solver.cpsat.pooled import PooledModel, applies, decides
from solver.options import ModelChoice, SolveOptions
from solver.preemption.candidates import candidates
from solver.preemption.lift import Lift, lift
from solver.problem import Problem
from solver.result import SolveStatus
from solver.solution import Plan
from solver.tiers import Ruler
from tests.brute_force import Enumeration, TooManyPlansError, best_values
from tests.scenario import Scenario
from tests.strategies import crowded_problems

OPTIONS = SolveOptions(time_limit_s=30.0, workers=1)


def anywhere(problem: Problem) -> Problem:
    """The problem without the rules that say where replicas have to be."""
    jobs = (replace(job, topology=None, spread=None) for job in problem.jobs)
    return replace(problem, jobs=tuple(jobs))


def lifted(problem: Problem) -> Lift:
    running = candidates(problem, Plan())
    assume(running)
    question = lift(problem, running)
    assume(applies(question.question))
    return question


def takes(model: StepExpressions, ruler: Ruler, plan: Plan) -> bool:
    """Whether a plan is a solution of the model, with at least what it is worth in every step."""
    for step in ruler.steps:
        if decides(step):
            model.keep(step, ruler.value(step, plan))
    model.variables.hint(plan)
    solver = cp_model.CpSolver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    solver.parameters.num_workers = 1
    return solver.solve(model.variables.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@settings(max_examples=4, suppress_health_check=list(HealthCheck), deadline=None)
@given(crowded_problems().map(anywhere))
def test_pools_lose_no_plan_that_the_model_of_named_nodes_takes(problem):
    question = lifted(problem)
    ruler = Ruler(question.question)
    movable = {job.name for job in question.jobs}
    try:
        plans = list(islice(Enumeration(problem, patience=1_500), 500))
    except TooManyPlansError:
        assume(False)
    plans = [plan for plan in plans if plan.displaced.keys() <= movable]
    for plan in plans[:: 1 + len(plans) // 4]:
        up = question.up(plan)
        if takes(PlacementModel(question.question, ruler, lambda: None), ruler, up):
            assert takes(PooledModel(question.question, ruler), ruler, up), plan


@settings(max_examples=4, suppress_health_check=list(HealthCheck), deadline=None)
@given(crowded_problems().map(anywhere))
def test_what_pools_decide_is_the_best_of_all_plans(problem):
    lifted(problem)
    try:
        best = best_values(problem, patience=1_500)
    except TooManyPlansError:
        assume(False)

    result = solve(problem, OPTIONS)

    assert result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    assert Ruler(problem).measure(result.plan) == best


def test_who_gives_the_reason_to_make_way_need_not_be_who_gains():
    """bee gains from its own queue's limit, where only ant's fair share is a reason for that."""
    story = Scenario().queue("red").queue("green", limit=1)
    story.node("n1", gpus=8).running("old", "n1", [0], queue="green")
    story.job("ant", gpus=1, queue="red", priority=10)
    story.job("bee", gpus=1, queue="green", priority=10)
    problem = replace(story.problem(), preempt_for=("fair_share",))

    result = solve(problem, OPTIONS)

    assert [eviction.job for eviction in result.evictions] == ["old"]
    assert Ruler(problem).measure(result.plan) == best_values(problem)


def test_a_gang_of_whole_nodes_needs_as_many_nodes_emptied():
    story = Scenario()
    for number in range(4):
        story.node(f"n{number}", gpus=8)
        story.running(f"small-{number}", f"n{number}", [number])
    problem = story.job("big", gpus=8, replicas=2, priority=1).problem()

    result = solve(problem, OPTIONS)

    assert result.status is SolveStatus.OPTIMAL
    assert len(result.evictions) == 2


def test_what_cpu_keeps_out_of_the_pool_is_decided_on_named_nodes():
    """GPUs are free in the pool for both replicas, but one of the nodes has no CPU for them."""
    story = Scenario().node("n1", gpus=8, cpu=8).node("n2", gpus=8, cpu=100)
    story.running("small", "n1", [0]).running("other", "n2", [0])
    problem = story.job("big", gpus=4, cpu=40, replicas=2, priority=1).problem()

    result = solve(problem, OPTIONS)

    assert result.status is SolveStatus.OPTIMAL
    assert [eviction.job for eviction in result.evictions] == ["other"]
    assert {placement.node for placement in result.plan.placements} == {"n2"}


@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(crowded_problems().map(anywhere))
def test_the_aggregated_path_decides_who_gives_way_in_pools_too(problem):
    lifted(problem)

    named = solve(problem, replace(OPTIONS, model=ModelChoice.DIRECT))
    classes = solve(problem, replace(OPTIONS, model=ModelChoice.AGGREGATED))

    assume(named.status is SolveStatus.OPTIMAL)
    for mine, other in zip(classes.objectives, named.objectives, strict=True):
        sign = 1 if mine.sense == "max" else -1
        assert sign * mine.bound >= sign * other.value, (mine, other)
        assert sign * mine.value <= sign * other.value, (mine, other)
        if mine.value != other.value:
            break
