from dataclasses import replace

from solver.comparison import first_gap, share_bounds
from solver.result import SolveStatus
from tests.report.answers import FIRST_FIT, OPTIMAL


def test_a_greedy_plan_as_good_as_the_proved_optimum_is_optimal_too():
    loose = tuple(replace(term, bound=10**6) for term in OPTIMAL.objectives[:1])
    lucky = replace(
        OPTIMAL,
        policy="best-fit",
        status=SolveStatus.FEASIBLE,
        objectives=(*loose, *OPTIMAL.objectives[1:]),
    )

    judged, _ = share_bounds([lucky, OPTIMAL])

    assert judged.policy == "best-fit"
    assert judged.status is SolveStatus.OPTIMAL
    assert first_gap(judged) is None


def test_bounds_reach_up_to_the_first_step_in_which_plans_differ():
    first, second, third = OPTIMAL.objectives
    worse = replace(
        OPTIMAL,
        status=SolveStatus.FEASIBLE,
        objectives=(
            replace(first, value=9_000, bound=40_000),
            second,
            replace(third, value=0.5, bound=0),
        ),
    )

    judged, _ = share_bounds([worse, OPTIMAL])

    assert [term.bound for term in judged.objectives] == [17_000, 0, 0]
    assert judged.status is SolveStatus.FEASIBLE
    gap = first_gap(judged)
    assert gap is not None
    assert gap.name == "guarantee"


def test_an_unproved_judge_makes_nobody_optimal():
    unproved = replace(OPTIMAL, status=SolveStatus.FEASIBLE)

    judged, _ = share_bounds([replace(unproved, policy="best-fit"), unproved])

    assert judged.status is SolveStatus.FEASIBLE


def test_the_plans_themselves_are_left_as_they_are():
    for before, after in zip([FIRST_FIT, OPTIMAL], share_bounds([FIRST_FIT, OPTIMAL]), strict=True):
        assert after.plan == before.plan
        assert [t.value for t in after.objectives] == [t.value for t in before.objectives]
