"""The aggregated path on small problems: its plans keep every rule, its bounds hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from solver.aggregate.engine import improve
from solver.aggregate.guided import Guide
from solver.cpsat import lexicographic
from solver.options import SolveOptions
from solver.solution import Plan
from solver.tiers import Ruler
from solver.verify import verify
from tests.brute_force import TooManyPlansError, best_values
from tests.strategies import small_problems, tiny_problems

OPTIONS = SolveOptions(time_limit_s=20, deterministic_limit=0.2, workers=1)


def check_bounds(ruler: Ruler, plan: Plan, bounds: tuple[int, ...], best: tuple[int, ...]) -> None:
    """As far as the plan has the best values, what is best next is within the bound."""
    values = ruler.measure(plan)
    for step, value, bound, optimum in zip(ruler.steps, values, bounds, best, strict=True):
        assert not step.better(value, bound), f"{step}: a plan is beyond its bound"
        assert not step.better(optimum, bound), f"{step}: the best plan is beyond the bound"
        if value != optimum:
            assert step.better(optimum, value), f"{step}: better than the best"
            return


@settings(max_examples=150)
@given(tiny_problems())
def test_bounds_hold_for_the_best_of_all_plans(problem):
    problem = replace(problem, preempt_for=())  # the packed model leaves running work alone
    ruler = Ruler(problem)
    try:
        best = best_values(problem)
    except TooManyPlansError:
        return

    improved = improve(problem, ruler, Plan(), OPTIONS)

    assert not verify(problem, improved.plan)
    check_bounds(ruler, improved.plan, improved.bounds, best)


@settings(max_examples=150)
@given(small_problems())
def test_a_packing_keeps_every_rule(problem):
    guide = Guide(Ruler(problem), float("inf"), seed=1)

    guide.by_size()

    assert guide.best is not None
    assert not verify(problem, guide.best.plan())


@pytest.mark.slow
@settings(max_examples=300)
@given(small_problems())
def test_both_ways_agree(problem):
    ruler = Ruler(problem)
    options = SolveOptions(time_limit_s=60, workers=8)
    direct = lexicographic.improve(problem, ruler, Plan(), options)
    best = ruler.measure(direct.plan)
    if best != direct.bounds:
        return

    improved = improve(problem, ruler, Plan(), OPTIONS)

    assert not verify(problem, improved.plan)
    check_bounds(ruler, improved.plan, improved.bounds, best)
