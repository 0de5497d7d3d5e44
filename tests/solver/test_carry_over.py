"""What of a former plan still stands."""

from solver.api import solve
from solver.carry_over import carried_over
from solver.options import ModelChoice, SolveOptions
from solver.solution import Plan
from solver.tiers import Ruler
from solver.verify import verify
from tests.scenario import Scenario, place


def cluster(*, held: int = 0) -> Scenario:
    story = Scenario(shuffle=False)
    for n in range(4):
        story.node(f"n{n}", gpus=4, cpu=32)
    if held:
        story.running("new", "n0", list(range(held)))
    return story


def test_a_plan_stands_as_long_as_nothing_changes():
    problem = cluster().job("a", replicas=2, gpus=4).job("b", gpus=2).problem()
    plan = solve(problem).plan

    assert carried_over(problem, plan) == plan


def test_jobs_that_are_gone_and_jobs_whose_places_are_taken_are_left_out():
    problem = cluster(held=1).job("whole", gpus=4).job("pair", gpus=2).problem()
    former = [
        place("whole", "n0", [0, 1, 2, 3]),
        place("pair", "n1", [0, 1]),
        place("gone", "n2", [0]),
    ]

    assert set(carried_over(problem, Plan.of(former)).by_job) == {"pair"}


def test_half_a_gang_does_not_stand():
    problem = cluster(held=1).job("gang", replicas=2, gpus=4).problem()
    former = [place("gang", "n0", [0, 1, 2, 3]), place("gang", "n1", [0, 1, 2, 3], replica=1)]

    assert carried_over(problem, Plan.of(former)).placements == ()


def test_of_two_jobs_with_one_place_the_more_important_one_stands():
    problem = cluster().job("low", gpus=4).job("high", gpus=4, priority=9).problem()
    former = [place("low", "n0", [0, 1, 2, 3]), place("high", "n0", [0, 1, 2, 3])]

    assert set(carried_over(problem, Plan.of(former)).by_job) == {"high"}


def test_an_answer_is_never_worse_than_the_plan_it_begins_with():
    before = cluster().job("a", replicas=2, gpus=4).job("b", replicas=2, gpus=2).problem()
    after = cluster(held=1).job("b", replicas=2, gpus=2).job("c", replicas=3, gpus=4).problem()
    start = carried_over(after, solve(before).plan)
    ruler = Ruler(after)

    for model in ModelChoice:
        result = solve(after, SolveOptions(time_limit_s=5, model=model), start=start)
        assert not verify(after, result.plan)
        assert ruler.key(result.plan) >= ruler.key(start)
