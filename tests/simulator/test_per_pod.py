"""Pods placed one by one: gangs that hold GPUs while each waits for what another holds."""

from __future__ import annotations

import pytest

from tests.simulator.story import GANG_ORDERS, Story

WAITS = 100
"""Seconds that a deadlock lasts in these stories."""


def two_gangs(**between: object) -> Story:
    """Two gangs of three on four GPUs."""
    story = Story().node("n1", gpus=4)
    story.job("a", runs=10, replicas=3, gpus=1)
    return story.job("b", runs=10, replicas=3, gpus=1, **between)


def test_two_gangs_take_what_they_get_and_wait_for_each_other():
    told = two_gangs().under("per-pod+best-fit", timeout=WAITS)

    assert told.gpus_at(0, "a") == told.gpus_at(99, "a") == 2
    assert told.gpus_at(0, "b") == told.gpus_at(99, "b") == 2
    assert told.summary.deadlocks == 1


def test_a_deadlock_is_broken_after_the_timeout_by_the_youngest():
    told = two_gangs(at=1).under("per-pod+best-fit", timeout=WAITS)

    # a had all three at once; then b has one and waits for the end of a.
    assert told.summary.deadlocks == 0
    assert told.starts("a", "b") == {"a": 0, "b": 10}

    told = two_gangs().under("per-pod+best-fit", timeout=WAITS)

    assert told.starts("a", "b") == {"a": 100, "b": 110}
    assert told.times_s("drop", "b") == [100]
    assert told.times_s("drop", "a") == []


def test_the_victim_stands_back_until_a_job_has_ended():
    told = two_gangs().under("per-pod+best-fit", timeout=WAITS)

    # There is one GPU beside a, and b does not take it.
    assert told.gpus_at(105, "a") == 3
    assert told.gpus_at(105, "b") == 0
    assert told.gpus_at(110, "b") == 3


def test_others_may_use_what_the_victim_let_go_of():
    story = two_gangs().job("c", at=50, runs=5, gpus=1)

    assert story.under("per-pod+best-fit", timeout=WAITS).start_s("c") == 100


def test_a_job_that_holds_pods_and_waits_is_not_busy():
    told = two_gangs().under("per-pod+best-fit", timeout=WAITS)

    assert told.summary.makespan_s == 120
    assert told.summary.utilization_ratio == pytest.approx((3 * 10 + 3 * 10) / (4 * 120))


def test_the_series_tells_held_from_busy():
    series = two_gangs().under("per-pod+best-fit", timeout=WAITS).outcome.series

    assert (series.held_milli[0], series.busy_milli[0]) == (4000, 0)


def test_three_gangs_let_go_one_after_the_other():
    story = Story().node("n1", gpus=6)
    for name in "abc":
        story.job(name, runs=10, replicas=5, gpus=1)

    told = story.under("per-pod+best-fit", timeout=WAITS)

    # c lets go at 100, and a and b take one each; b lets go at 200, and a runs 200-210. Then b
    # and c take three each: a second deadlock, which c breaks at 310.
    assert told.times_s("drop", "c") == [100, 310]
    assert told.times_s("drop", "b") == [200]
    assert told.starts("a", "b", "c") == {"a": 200, "b": 310, "c": 320}
    assert told.summary.deadlocks == 2


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_who_starts_gangs_whole_has_no_deadlock(order: str):
    told = two_gangs().under(f"{order}+best-fit", timeout=WAITS)

    assert told.summary.deadlocks == 0
    assert told.starts("a", "b") == {"a": 0, "b": 10}
    assert told.summary.utilization_ratio == pytest.approx(60 / 80)


def test_it_is_no_deadlock_while_running_work_will_free_enough():
    story = Story().node("n1", gpus=6).standing("r", "n1", [4, 5], runs=30)
    for name in "ab":
        story.job(name, runs=10, replicas=3, gpus=1)

    told = story.under("per-pod+best-fit", timeout=WAITS)

    assert told.gpus_at(0, "a") == told.gpus_at(0, "b") == 2
    assert told.starts("a", "b") == {"a": 30, "b": 30}
    assert told.summary.deadlocks == 0


def test_running_work_that_does_not_end_frees_nothing():
    story = Story().node("n1", gpus=6).standing("r", "n1", [4, 5])
    for name in "ab":
        story.job(name, runs=10, replicas=3, gpus=1)

    told = story.under("per-pod+best-fit", timeout=WAITS)

    assert told.summary.deadlocks == 1
    assert told.starts("a", "b") == {"a": 100, "b": 110}


def test_one_gang_alone_that_waits_for_a_running_job_is_no_deadlock():
    story = Story().node("n1", gpus=4).job("r", runs=500, gpus=2)

    told = story.job("a", at=1, runs=10, replicas=3, gpus=1).under(
        "per-pod+best-fit", timeout=WAITS
    )

    assert told.gpus_at(1, "a") == 2
    assert told.start_s("a") == 500
    assert told.summary.deadlocks == 0


def test_cores_can_be_what_gangs_wait_for():
    story = Story().node("n1", gpus=8, cpu=4)
    for name in "ab":
        story.job(name, runs=10, replicas=3, gpus=1, cpu=1)

    told = story.under("per-pod+best-fit", timeout=WAITS)

    assert told.summary.deadlocks == 1
    assert told.starts("a", "b") == {"a": 100, "b": 110}


def test_members_of_a_start_group_wait_each_for_itself():
    story = Story().node("n1", gpus=2).job("r", runs=10, gpus=1)
    story.job("a", runs=5, gpus=1, start_group="g").job("b", at=1, runs=5, gpus=1, start_group="g")

    told = story.under("per-pod+best-fit")

    assert told.start_s("a") < told.start_s("b")


def test_a_deadlock_that_ends_with_the_run_leaves_no_time_behind():
    """The next look at a deadlock that is over is no event of the workload."""
    told = two_gangs().under("per-pod+best-fit", timeout=1000)

    assert told.end_s("b") == 1020
    assert told.summary.makespan_s == 1020
