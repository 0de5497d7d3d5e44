"""How jobs end, and what a run adds up to."""

from __future__ import annotations

import pytest

from tests.scenario import shape
from tests.simulator.story import EVERY_ORDER, GANG_ORDERS, Story

HOUR = 3600


# What never starts


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_what_never_fits_is_told_so_on_arrival_and_blocks_nobody(order: str):
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=2)
    story.job("huge", at=1, runs=1, gpus=5).job("next", at=2, runs=1, gpus=2)

    told = story.under(f"{order}+best-fit")

    assert told.state("huge") == "unschedulable"
    assert told.reason("huge").startswith("impossible")
    assert (told.start_s("huge"), told.end_s("huge")) == (None, 1)
    assert told.start_s("next") == 2


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"gpus": 1, "models": ["H100"]}, "model-mismatch"),
        ({"gpus": 1, "selector": {"zone": "b"}}, "label"),
        ({"gpus": 2, "link": "required"}, "no-nvlink-set"),
    ],
)
def test_the_reason_names_the_rule(request_: dict, reason: str):
    story = Story().node("n1", gpus=4, labels={"zone": "a"}).job("j", runs=1, **request_)

    assert story.under("fifo-strict").reason("j").startswith(reason)


def test_a_gang_of_replicas_that_fit_one_by_one_only_never_fits():
    story = Story().node("n1", gpus=3).node("n2", gpus=3).job("j", runs=1, replicas=3, gpus=2)

    assert story.under("fifo-skip").state("j") == "unschedulable"


def test_what_fits_the_empty_cluster_by_a_clever_choice_only_is_not_refused():
    story = Story().node("n1", gpus=2, cpu=8).node("n2", gpus=2, cpu=2)
    story.job("j", runs=5, replicas=2, gpus=2, cpu=2)

    assert story.under("fifo-skip+worst-fit").state("j") == "finished"


def test_more_than_the_limit_of_a_queue_never_fits():
    story = Story().queue("red", limit=2).queue("blue").node("n1", gpus=4)
    story.job("r", runs=1, gpus=3, queue="red").job("b", runs=1, gpus=3, queue="blue")

    told = story.under("fifo-strict")

    assert told.state("r") == "unschedulable"
    assert told.reason("r").startswith("queue-limit")
    assert told.start_s("b") == 0


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_queue_waits_at_its_limit_in_an_empty_cluster(order: str):
    story = Story().queue("red", limit=2).node("n1", gpus=8)
    story.job("r1", runs=10, gpus=2, queue="red").job("r2", at=1, runs=10, gpus=1, queue="red")

    assert story.under(f"{order}+best-fit").start_s("r2") == 10


def test_a_limit_holds_one_queue_only_where_others_may_pass():
    story = Story().queue("red", limit=2).queue("blue").node("n1", gpus=8)
    story.job("r1", runs=10, gpus=2, queue="red").job("r2", at=1, runs=10, gpus=1, queue="red")
    story.job("b", at=2, runs=1, gpus=1, queue="blue")

    assert story.under("fifo-skip").start_s("b") == 2


def test_who_waits_for_what_does_not_end_still_waits_in_the_end():
    story = Story().node("n1", gpus=1).job("endless", gpus=1).job("late", at=1, runs=1, gpus=1)
    story.job("huge", at=1, runs=1, gpus=2)

    told = story.under("fifo-skip")

    assert told.state("endless") == "running"
    assert told.state("late") == "waiting"
    assert "never comes" in told.reason("late")
    assert told.end_s("late") is None
    row = told.summary
    assert (row.unschedulable, row.waiting, row.running) == (1, 1, 1)
    assert [(left.job, left.state) for left in row.left] == [
        ("late", "waiting"),
        ("huge", "unschedulable"),
    ]


# Start groups


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_a_start_group_waits_for_its_last_member(order: str):
    story = Story().node("n1", gpus=4).job("a", runs=10, gpus=1, start_group="g")

    told = story.job("b", at=7, runs=5, gpus=2, start_group="g").under(f"{order}+best-fit")

    assert told.starts("a", "b") == {"a": 7, "b": 7}
    assert told.wait_s("a") == 7
    assert told.end_s("b") == 12


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_a_start_group_starts_whole_or_not_at_all(order: str):
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=2)
    story.job("a", at=1, runs=5, gpus=1, start_group="g")

    told = story.job("b", at=1, runs=5, gpus=2, start_group="g").under(f"{order}+best-fit")

    assert told.starts("a", "b") == {"a": 10, "b": 10}


def test_a_start_group_never_fits_where_its_members_do_not_fit_together():
    story = Story().node("n1", gpus=4).job("a", runs=5, gpus=3, start_group="g")

    told = story.job("b", at=1, runs=5, gpus=2, start_group="g").under("fifo-skip")

    assert {told.state(name) for name in "ab"} == {"unschedulable"}


# How it ends


def test_a_job_that_fails_by_itself_holds_its_gpus_until_then():
    story = Story().node("n1", gpus=1).job("a", runs=10, gpus=1, fails=True)

    told = story.job("b", at=1, runs=1, gpus=1).under("fifo-skip")

    assert told.state("a") == "failed"
    assert told.end_s("a") == told.start_s("b") == 10
    assert (told.summary.failed, told.summary.finished) == (1, 1)


def test_endless_jobs_run_on():
    told = Story().node("n1", gpus=2).job("endless", gpus=1).job("a", runs=5, gpus=1).under("easy")

    assert told.state("endless") == "running"
    assert told.end_s("endless") is None
    assert told.gpus_at(1000, "endless") == 1
    assert told.summary.running == 1
    assert told.summary.allocated_milli == 1000


def test_work_in_place_ends_in_its_time():
    story = Story().node("n1", gpus=2).standing("r", "n1", [1], runs=7)

    told = story.job("a", runs=1, gpus=2).under("fifo-strict")

    assert told.end_s("r") == told.start_s("a") == 7


def test_where_nobody_waits_who_finds_no_room_fails():
    story = Story(patient=False).node("n1", gpus=2).job("a", gpus=1).job("wide", at=1, gpus=2)

    told = story.job("b", at=2, gpus=1).under("best-fit")

    assert [told.state(name) for name in ("a", "wide", "b")] == ["running", "failed", "running"]
    assert told.reason("wide")
    assert told.summary.allocated_milli == 2000


# What it adds up to


def test_the_numbers_of_a_tiny_run():
    story = Story().node("n1", gpus=2, cpu=4).reference((shape(1, cpu=1), 1))
    story.job("a", at=100, runs=10, gpus=1, cpu=4).job("b", at=100, runs=10, gpus=1, cpu=1)
    story.job("c", at=105, runs=10, gpus=1, cpu=3)

    row = story.under("fifo-strict").summary

    # a runs 100-110 and leaves no core for the other GPU; b and c run 110-120.
    assert row.makespan_s == 20
    assert row.utilization_ratio == pytest.approx(30 / 40)
    assert (row.wait_mean_s, row.wait_p50_s, row.wait_p90_s) == (5, 5, 10)
    assert (row.wait_p99_s, row.wait_max_s) == (10, 10)
    assert row.jct_mean_s == pytest.approx((10 + 20 + 15) / 3)
    assert row.stranded_gpus_mean == pytest.approx(0.5)
    assert row.fragmentation_gpus_mean == pytest.approx(0.5)
    assert (row.finished, row.failed, row.unschedulable, row.running) == (3, 0, 0, 0)


def test_percentiles_are_values_of_the_run():
    story = Story().node("n1", gpus=1)
    for n in range(10):
        story.job(f"j{n}", runs=10, gpus=1)

    row = story.under("fifo-strict").summary

    # Waits are 0, 10, …, 90: the ceil(p / 100 * 10)-th smallest.
    assert (row.wait_p50_s, row.wait_p90_s, row.wait_p99_s) == (40, 80, 90)


def test_unschedulable_jobs_have_no_wait_and_no_completion_time():
    story = Story().node("n1", gpus=1).job("a", runs=10, gpus=1).job("huge", at=3, gpus=2)

    row = story.under("fifo-skip").summary

    assert (row.wait_mean_s, row.jct_mean_s, row.unschedulable) == (0, 10, 1)


def test_where_nothing_starts_or_ends_there_are_no_times():
    row = Story().node("n1", gpus=1).job("huge", runs=1, gpus=2).under("fifo-skip").summary
    endless = Story().node("n1", gpus=1).job("on", gpus=1).under("fifo-skip").summary

    assert (row.wait_mean_s, row.wait_p99_s, row.jct_mean_s) == (None, None, None)
    assert (endless.wait_mean_s, endless.jct_mean_s) == (0, None)


def test_starting_again_is_lost_of_what_runs_on_at_the_end_too():
    story = Story().node("n1", gpus=4).job("endless", gpus=2, checkpoint=10, restart=100)
    story.job("high", at=50, runs=50, gpus=3, priority=1).job("long", at=60, runs=1000, gpus=1)

    told = story.under("priority+best-fit")

    # Stopped at 50, a checkpoint; from 100 to 200 it starts again on 2 GPUs.
    assert told.lost_gpu_s("endless") == 200
    assert told.summary.lost_gpu_h == pytest.approx(200 / 3600)


def test_goodput_counts_no_work_that_was_lost():
    story = Story().node("n1", gpus=1).job("low", runs=100, gpus=1, restart=5)

    told = story.job("high", at=40, runs=10, gpus=1, priority=1).under("priority")

    # 40 s are lost and 5 s of starting again; 100 + 10 of 155 s are of use.
    assert told.summary.utilization_ratio == pytest.approx(1)
    assert told.summary.goodput_ratio == pytest.approx(110 / 155)


def test_failed_jobs_have_a_completion_time():
    row = Story().node("n1", gpus=1).job("a", runs=10, gpus=1, fails=True).under("easy").summary

    assert row.jct_mean_s == 10


def test_a_preempted_job_waited_until_its_first_start():
    story = Story().node("n1", gpus=1).job("low", runs=100, gpus=1)

    told = story.job("high", at=5, runs=10, gpus=1, priority=1).under("priority")

    assert told.wait_s("low") == 0
    assert told.summary.wait_max_s == 0


def test_an_end_that_was_put_forward_leaves_no_time_behind():
    story = Story().node("n1", gpus=4).standing("r", "n1", [0, 1], runs=10)

    told = story.job("train", runs=100, replicas=4, min=2, gpus=1).under("fifo-skip")

    # With two replicas it would end at 200, with four from 10 on at 105.
    assert told.end_s("train") == 105
    assert told.summary.makespan_s == 105
    assert told.summary.utilization_ratio == pytest.approx((2 * 10 + 400) / (4 * 105))


def test_who_waits_in_vain_is_told_so_when_the_last_thing_has_happened():
    story = Story().node("n1", gpus=4).standing("r", "n1", [0, 1], runs=10)
    story.job("train", runs=100, replicas=3, min=1, gpus=1)
    story.job("endless", at=20, gpus=1).job("late", at=30, runs=1, gpus=4)

    told = story.under("fifo-skip")

    assert told.state("late") == "waiting"
    assert told.end_s("train") == told.summary.makespan_s


def test_time_begins_with_the_first_arrival_not_with_a_look_at_the_load():
    story = Story().node("n1", gpus=1)
    story.job("web", at=HOUR, runs=HOUR, gpus=1, kind="inference", peak=0)

    row = story.under("fifo-skip").summary

    assert row.makespan_s == HOUR
    assert row.utilization_ratio == 1


def test_work_in_place_counts_from_time_0():
    story = Story().node("n1", gpus=2).standing("r", "n1", [0], runs=30)

    row = story.job("a", at=10, runs=20, gpus=1).under("fifo-skip").summary

    assert row.makespan_s == 30
    assert row.utilization_ratio == pytest.approx((30 + 20) / (2 * 30))


# Fairness


def two_queues_want_two_gpus() -> Story:
    """Each has two jobs, all come at once, red's first."""
    story = Story().queue("red").queue("blue").node("n1", gpus=2)
    for color in ("red", "blue"):
        for n in range(2):
            story.job(f"{color}-{n}", runs=10, gpus=1, queue=color)
    return story


def test_sharing_alike_has_a_jain_index_of_1():
    assert two_queues_want_two_gpus().under("drf").summary.jain == 1


def test_one_queue_after_the_other_has_a_lower_jain_index():
    row = two_queues_want_two_gpus().under("fifo-skip").summary

    # For 10 s each is entitled to one GPU: red is given it, blue nothing. Then blue alone wants
    # and has two. Red: 10 of 10, blue 20 of 30; (1 + 2/3)^2 / (2 * (1 + 4/9)).
    assert row.jain == pytest.approx(25 / 26)


def test_a_queue_at_its_own_limit_is_not_treated_unfairly():
    story = Story().queue("red", limit=2).queue("blue").node("n1", gpus=8)
    for n in range(2):
        story.job(f"red-{n}", runs=10, gpus=2, queue="red")

    told = story.job("b", runs=20, gpus=2, queue="blue").under("fifo-skip")

    # Nobody is entitled to more than the limit of the queue.
    assert told.start_s("red-1") == 10
    assert told.summary.jain == 1


def test_pods_that_a_job_holds_are_not_what_it_waits_for():
    story = Story().queue("red", weight=7).queue("blue").node("n1", gpus=8)
    story.job("b", runs=10, gpus=4, queue="blue")
    story.job("r", at=0, runs=10, replicas=6, gpus=1, queue="red")

    told = story.under("per-pod")

    # Until 10 red wants six, holds four of them and is entitled to six; blue holds four and is
    # entitled to two. From 10 to 20 red has all six.
    red, blue = (4 * 10 + 6 * 10) / (6 * 20), 1.0
    assert told.start_s("r") == 10
    assert told.summary.jain == pytest.approx((red + blue) ** 2 / (2 * (red**2 + blue**2)))
