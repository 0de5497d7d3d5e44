"""What queues are entitled to, level by level of their tree."""

from __future__ import annotations

from hypothesis import given

from solver.fair_share import demand, entitlements
from tests.scenario import Scenario
from tests.strategies import small_problems


def gpus(story: Scenario) -> dict[str, float]:
    table = entitlements(story.problem())
    return {name: amounts["gpu_milli"] / 1000 for name, amounts in table.items()}


def test_quotas_come_first_and_the_surplus_goes_by_priority_and_weight():
    story = Scenario().node("n1", gpus=5)
    story.queue("A", quota=1, priority=2, demand=1)
    story.queue("B", quota=1, priority=1, weight=2, demand=3)
    story.queue("C", quota=0, priority=1, demand=2)

    assert gpus(story) == {"A": 1, "B": 3, "C": 1}


def test_a_parent_divides_what_it_gets_among_those_below_it():
    story = Scenario().node("n1", gpus=12)
    story.queue("science", weight=2).queue("web", demand=12)
    story.queue("physics", parent="science", weight=3, demand=9)
    story.queue("biology", parent="science", demand=9)

    assert gpus(story) == {"science": 8, "web": 4, "physics": 6, "biology": 2}


def test_what_one_child_does_not_want_goes_to_its_sibling_before_it_leaves_the_family():
    story = Scenario().node("n1", gpus=12)
    story.queue("science").queue("web", demand=12)
    story.queue("physics", parent="science", demand=1).queue("biology", parent="science", demand=9)

    assert gpus(story) == {"science": 6, "web": 6, "physics": 1, "biology": 5}


def test_quotas_below_are_the_quota_of_a_parent_that_says_none():
    story = Scenario().node("n1", gpus=8)
    story.queue("science").queue("web", demand=8, weight=9)
    story.queue("physics", parent="science", quota=4, demand=5)

    assert gpus(story) == {"science": 4, "web": 4, "physics": 4}


def test_a_limit_of_a_parent_holds_for_all_below_it():
    story = Scenario().node("n1", gpus=8)
    story.queue("science", limit=3).queue("web", demand=2)
    story.queue("physics", parent="science", demand=5)

    assert gpus(story) == {"science": 3, "web": 2, "physics": 3}


def test_a_limit_of_a_parent_holds_where_the_cluster_itself_has_none():
    """CPU of nodes that do not say how much they have."""
    story = Scenario().node("n1", gpus=8).queue("science", cpu_limit=4)
    story.queue("physics", parent="science")
    story.job("p", queue="physics", replicas=2, gpus=1, cpu=3)

    table = entitlements(story.problem())

    assert {name: of["cpu_milli"] for name, of in table.items()} == {
        "science": 4000,
        "physics": 4000,
    }


def test_the_work_of_a_parent_itself_competes_with_those_below_it():
    story = Scenario().node("n1", gpus=6).queue("science").queue("physics", parent="science")
    story.job("own", replicas=6, gpus=1, queue="science", gang=False)
    story.job("below", replicas=6, gpus=1, queue="physics", gang=False)

    assert gpus(story) == {"science": 6, "physics": 3}


@given(small_problems())
def test_nobody_gets_more_than_there_is_or_than_is_wanted_below_it(problem):
    table = entitlements(problem)
    wanted = demand(problem)

    for resource, capacity in problem.capacity.items():
        top = sum(table[q.name][resource] for q in problem.queues if q.parent is None)
        assert capacity is None or top <= capacity
        for queue in problem.queues:
            below = [q.name for q in problem.queues if q.parent == queue.name]
            assert sum(table[name][resource] for name in below) <= table[queue.name][resource]
            if not below:
                unit = 1000 if resource == "gpu_milli" else 1
                most = -(-wanted[queue.name][resource] // unit) * unit
                assert table[queue.name][resource] <= most
