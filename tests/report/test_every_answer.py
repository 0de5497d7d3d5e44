"""Whatever is solved can be shown: no answer ends in an internal error of its table."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from report.explain_view import explain_view
from report.plan_view import solve_view
from solver.api import solve
from solver.explain.answer import explain
from solver.options import SolveOptions
from tests.report.test_console import written
from tests.strategies import tiny_problems

OPTIONS = SolveOptions(time_limit_s=10, workers=1)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(tiny_problems())
def test_every_plan_and_every_explanation_has_a_table(problem):
    result = solve(problem, OPTIONS)

    assert written(solve_view(problem, result))
    for waiting in result.pending[:1]:
        told = explain(problem, result.plan, waiting.job, OPTIONS)
        assert waiting.job in written(explain_view(told))
