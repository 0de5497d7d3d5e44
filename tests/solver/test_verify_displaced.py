"""The judge of what gives way: each rule broken once, by a plan written by hand."""

from __future__ import annotations

import pytest

from solver.solution import Eviction, Move, Placement, Plan
from solver.verify import Rule, verify
from solver.workload import Preemption
from tests.scenario import Scenario

START = Placement("urgent", "urgent", 0, "n1", (0, 1))


def story(**facts: object) -> Scenario:
    """Two nodes of two GPUs; the first is held by `old`, and `urgent` wants it."""
    cluster = Scenario(shuffle=False).node("n1", gpus=2).node("n2", gpus=2)
    places = [("n1", [0]), ("n1", [1])]
    return cluster.running("old", places, **facts).job("urgent", gpus=2, priority=1)


def broken(cluster: Scenario, plan: Plan) -> list[Rule]:
    return [violation.rule for violation in verify(cluster.problem(), plan)]


def test_a_whole_gang_may_go_for_more_urgent_work():
    assert broken(story(), Plan.of([START], [Eviction("old", (0, 1))])) == []


def test_what_starts_without_anybody_going_holds_too_much():
    assert broken(story(), Plan.of([START])) == [Rule.HELD, Rule.HELD]


def test_half_a_gang_cannot_go():
    found = broken(story(), Plan.of([START], [Eviction("old", (0,))]))

    assert found == [Rule.DISPLACED, Rule.HELD]


@pytest.mark.parametrize(
    ("eviction", "said"),
    [
        (Eviction("nobody", (0,)), 'job "nobody": no such replica runs'),
        (Eviction("old", (0, 1, 2)), 'replica 2 of job "old": no such replica runs'),
    ],
)
def test_only_what_runs_can_go(eviction, said):
    found = verify(story().problem(), Plan.of([], [eviction]))

    assert said in " ".join(map(str, found))


def test_a_replica_goes_or_moves_once():
    movable = story(preemption=Preemption(movable=True), min_replicas=0)
    plan = Plan.of([START], [Eviction("old", (0, 1))], [Move("old", 0, "n2", (0,))])

    assert Rule.DISPLACED in broken(movable, plan)


def test_work_that_may_not_be_stopped_is_not():
    cluster = story(preemption=Preemption(allowed=False))

    assert broken(cluster, Plan.of([START], [Eviction("old", (0, 1))])) == [Rule.DISPLACED]


def test_only_what_is_movable_moves_and_only_to_a_free_place():
    moves = [Move("old", 0, "n2", (0,)), Move("old", 1, "n2", (1,))]
    onto_itself = [Move("old", 0, "n2", (0,)), Move("old", 1, "n2", (0,))]
    movable = Preemption(movable=True)

    assert broken(story(), Plan.of([START], [], moves)) == [Rule.DISPLACED, Rule.DISPLACED]
    assert broken(story(preemption=movable), Plan.of([START], [], moves)) == []
    assert broken(story(preemption=movable), Plan.of([START], [], onto_itself)) == [Rule.HELD]


def test_a_move_goes_to_a_node_that_exists_and_is_open():
    cluster = Scenario(shuffle=False).node("n1", gpus=2).node("n2", gpus=2, cordoned=True)
    cluster.running("old", "n1", [0], preemption=Preemption(movable=True))
    cluster.job("urgent", gpus=2, priority=1)

    assert broken(cluster, Plan.of([START], [], [Move("old", 0, "n2", (0,))])) == [Rule.NODE]
    assert Rule.NODE in broken(cluster, Plan.of([START], [], [Move("old", 0, "nowhere", (0,))]))


def test_nobody_goes_for_nothing_or_for_work_that_is_no_more_urgent():
    equal = story(priority=1)

    assert broken(story(), Plan.of([], [Eviction("old", (0, 1))])) == [Rule.GIVING_WAY]
    assert broken(equal, Plan.of([START], [Eviction("old", (0, 1))])) == [Rule.GIVING_WAY]
    listed = story().preempt_for("guarantee")
    assert broken(listed, Plan.of([START], [Eviction("old", (0, 1))])) == [Rule.GIVING_WAY]


@pytest.mark.parametrize(("quota", "rules"), [(2, []), (1, [Rule.GIVING_WAY])])
def test_a_guarantee_is_claimed_within_the_quota_with_the_whole_gang(quota, rules):
    cluster = Scenario(shuffle=False).node("n1", gpus=2)
    cluster.queue("has").queue("wants", quota=quota)
    cluster.running("old", "n1", [0, 1], queue="has", priority=9)
    cluster.job("urgent", gpus=2, queue="wants")

    assert broken(cluster, Plan.of([START], [Eviction("old", (0,))])) == rules


@pytest.mark.parametrize(("left", "rules"), [(2, []), (1, [Rule.GIVING_WAY])])
def test_a_share_is_taken_only_down_to_what_the_taker_gets(left, rules):
    cluster = Scenario(shuffle=False).node("n1", gpus=2 + left).preempt_for("fair_share")
    cluster.queue("has").queue("wants")
    cluster.running("old", "n1", [0, 1], queue="has")
    cluster.running("rest", "n1", range(2, 2 + left), queue="has")
    cluster.job("urgent", gpus=2, queue="wants")

    assert broken(cluster, Plan.of([START], [Eviction("old", (0,))])) == rules
