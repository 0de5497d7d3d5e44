"""Queue orders: who is next, whom a high priority stops, and what that costs."""

from __future__ import annotations

import pytest

from tests.simulator.story import EVERY_ORDER, Story


def blocked_line() -> Story:
    """A wide job that finds no room, and a narrow one behind it that does."""
    story = Story().node("n1", gpus=4)
    story.job("first", runs=10, gpus=3).job("wide", at=1, runs=5, gpus=4)
    return story.job("narrow", at=2, runs=1, gpus=1)


def one_gpu_taken_by(**low: object) -> Story:
    """A job on the only GPU."""
    return Story().node("n1", gpus=1).job("low", **{"gpus": 1, "restart": 5, **low})


@pytest.mark.parametrize("order", ["priority", "preempt"])
def test_room_left_over_by_what_was_stopped_is_offered_in_the_order_of_the_line(order: str):
    """first makes way with two GPUs for one; mid has waited for room and is before low."""
    story = Story().node("n1", gpus=2).job("first", runs=5, gpus=2, priority=1)
    story.job("mid", runs=1, gpus=1, priority=1)
    story.job("top", at=4, runs=20, gpus=1, priority=2).job("low", at=4, runs=20, gpus=1)

    told = story.under(f"{order}+best-fit")

    assert told.starts("top", "mid", "low") == {"top": 4, "mid": 4, "low": 5}
    assert told.summary.preemptions == 2  # first for top, low for first: nobody for nothing


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_who_arrives_when_another_ends_finds_its_room(order: str):
    story = Story().node("n1", gpus=1).job("a", runs=10, gpus=1).job("b", at=10, runs=1, gpus=1)

    told = story.under(f"{order}+best-fit")

    assert told.start_s("b") == 10
    assert told.end_s("b") == 11


def test_fifo_strict_keeps_everybody_behind_who_finds_no_room():
    told = blocked_line().under("fifo-strict+best-fit")

    assert told.starts("first", "wide", "narrow") == {"first": 0, "wide": 10, "narrow": 15}


def test_fifo_skip_lets_by_who_fits():
    told = blocked_line().under("fifo-skip+best-fit")

    assert told.starts("first", "wide", "narrow") == {"first": 0, "wide": 10, "narrow": 2}


def test_fifo_skip_lets_a_wide_job_starve_behind_a_stream_of_narrow_ones():
    story = Story().node("n1", gpus=2).job("first", runs=10, gpus=1).job("wide", at=1, gpus=2)
    for n in range(5):
        story.job(f"narrow-{n}", at=2 + 9 * n, runs=10, gpus=1)

    assert story.under("fifo-skip+best-fit").start_s("wide") == 48


def test_the_shortest_is_next():
    story = Story().node("n1", gpus=1).job("first", runs=10, gpus=1)
    story.job("long", at=1, runs=5, gpus=1).job("short", at=2, runs=2, gpus=1)

    told = story.under("sjf+best-fit")

    assert told.starts("short", "long") == {"short": 10, "long": 12}


def test_of_equally_short_ones_the_first_come_is_next():
    story = Story().node("n1", gpus=1).job("first", runs=10, gpus=1)
    story.job("zeta", at=1, runs=2, gpus=1).job("alpha", at=2, runs=2, gpus=1)

    assert story.under("sjf+best-fit").start_s("zeta") == 10


def test_what_does_not_end_comes_after_all_that_does():
    story = Story().node("n1", gpus=1).job("first", runs=10, gpus=1)
    story.job("endless", at=1, gpus=1).job("long", at=2, runs=500, gpus=1)

    assert story.under("sjf+best-fit").starts("long", "endless") == {"long": 10, "endless": 510}


def test_sjf_is_strict_nobody_overtakes_the_shortest():
    story = Story().node("n1", gpus=2).job("first", runs=10, gpus=1)
    story.job("wide", at=1, runs=1, gpus=2).job("narrow", at=2, runs=5, gpus=1)

    assert story.under("sjf+best-fit").starts("wide", "narrow") == {"wide": 10, "narrow": 11}


def test_a_shorter_job_that_comes_later_takes_the_lead_of_the_line():
    story = Story().node("n1", gpus=2).job("first", runs=10, gpus=1)
    story.job("wide", at=1, runs=4, gpus=2).job("narrow", at=2, runs=3, gpus=1)

    assert story.under("sjf+best-fit").starts("narrow", "wide") == {"narrow": 2, "wide": 10}


@pytest.mark.parametrize("order", ["fifo-strict", "sjf", "easy"])
def test_queues_with_machines_of_their_own_have_lines_of_their_own(order: str):
    story = Story(lines="queue").queue("red").queue("blue")
    for color in ("red", "blue"):
        story.node(color, gpus=2, labels={"of": color})
    red, blue = {"of": "red"}, {"of": "blue"}
    story.job("r1", runs=10, gpus=1, queue="red", selector=red)
    story.job("r2", at=1, runs=1, gpus=2, queue="red", selector=red)
    story.job("r3", at=2, runs=20, gpus=1, queue="red", selector=red)
    story.job("b1", at=3, runs=30, gpus=1, queue="blue", selector=blue)

    told = story.under(f"{order}+best-fit")

    assert told.starts("r2", "r3", "b1") == {"r2": 10, "r3": 11, "b1": 3}


def test_in_one_line_the_head_of_one_queue_keeps_the_other_queue_waiting():
    story = Story().queue("red").queue("blue").node("n1", gpus=2)
    story.job("r1", runs=10, gpus=1, queue="red").job("r2", at=1, runs=1, gpus=2, queue="red")
    story.job("b1", at=3, runs=30, gpus=1, queue="blue")

    assert story.under("fifo-strict+best-fit").start_s("b1") == 11


# Priority


def test_the_highest_priority_is_next_then_who_came_first():
    story = Story().node("n1", gpus=1).job("first", runs=10, gpus=1, preemptible=False)
    story.job("low", at=1, runs=10, gpus=1).job("old", at=2, runs=10, gpus=1, priority=5)
    story.job("new", at=3, runs=10, gpus=1, priority=5)

    told = story.under("priority+best-fit")

    assert told.starts("old", "new", "low") == {"old": 10, "new": 20, "low": 30}


def test_a_higher_priority_stops_a_lower_one_which_goes_on_afterwards():
    story = one_gpu_taken_by(runs=100, checkpoint=10)

    told = story.job("high", at=37, runs=10, gpus=1, priority=1).under("priority+best-fit")

    assert told.starts("low", "high") == {"low": 0, "high": 37}
    assert told.times_s("evict", "low") == [37]
    assert told.times_s("start", "low") == [0, 47]
    assert told.summary.preemptions == told.of("low").preemptions == 1


@pytest.mark.parametrize(
    ("low", "high"),
    [({"priority": 1}, {"priority": 1}), ({"preemptible": False}, {"priority": 9})],
    ids=["the same priority", "work that may not be stopped"],
)
def test_nobody_is_stopped_for(low: dict, high: dict):
    story = one_gpu_taken_by(runs=100, **low).job("high", at=37, runs=10, gpus=1, **high)

    told = story.under("priority+best-fit")

    assert told.start_s("high") == 100
    assert told.summary.preemptions == 0


@pytest.mark.parametrize(
    "order", ["fifo-strict", "fifo-skip", "sjf", "drf", "easy", "conservative"]
)
def test_other_orders_stop_nobody(order: str):
    story = one_gpu_taken_by(runs=100).job("high", at=37, runs=10, gpus=1, priority=9)

    assert story.under(f"{order}+best-fit").start_s("high") == 100


def test_nobody_is_stopped_where_that_is_no_use():
    story = Story().node("n1", gpus=2).job("low", runs=100, gpus=1)
    story.job("fixed", runs=100, gpus=1, preemptible=False)

    told = story.job("high", at=1, runs=1, gpus=2, priority=9).under("priority+best-fit")

    assert told.summary.preemptions == 0
    assert told.start_s("high") == 100


def test_the_lowest_priority_is_stopped_first():
    story = Story().node("n1", gpus=2)
    story.job("middle", runs=100, gpus=1, priority=1).job("low", runs=100, gpus=1)

    told = story.job("high", at=1, runs=1, gpus=1, priority=2).under("priority+best-fit")

    assert told.of("low").preemptions == 1
    assert told.of("middle").preemptions == 0


def test_who_need_not_go_stays_even_with_the_lowest_priority():
    story = Story().node("wide", gpus=2).node("narrow", gpus=1)
    story.job("middle", runs=100, gpus=2, priority=1).job("low", runs=100, gpus=1)

    told = story.job("high", at=1, runs=1, gpus=2, priority=2).under("priority+best-fit")

    assert told.start_s("high") == 1
    assert told.of("middle").preemptions == 1
    assert told.of("low").preemptions == 0


@pytest.mark.parametrize("placement", ["first-fit", "best-fit", "worst-fit", "topology-aware"])
def test_no_victim_could_have_stayed(placement: str):
    story = Story().node("n1", gpus=8)
    for n, gpus in enumerate((1, 1, 2, 3)):
        story.job(f"low-{n}", at=n, runs=100, gpus=gpus)

    told = story.job("high", at=10, runs=1, gpus=4, priority=1).under(f"priority+{placement}")

    stopped = [n for n in range(4) if told.of(f"low-{n}").preemptions]
    freed = sum((1, 1, 2, 3)[n] for n in stopped)
    assert told.start_s("high") == 10
    assert 1 + freed >= 4
    assert all(1 + freed - (1, 1, 2, 3)[n] < 4 for n in stopped)


def test_among_equals_who_loses_least_is_stopped():
    story = Story().node("n1", gpus=2).job("saved", runs=100, gpus=1, checkpoint=10, restart=5)
    story.job("unsaved", at=5, runs=100, gpus=1, restart=5)

    told = story.job("high", at=21, runs=1, gpus=1, priority=1).under("priority+best-fit")

    assert told.of("saved").preemptions == 1  # 1 s of work is lost; 16 s would be of the other
    assert told.of("unsaved").preemptions == 0


def test_a_victim_that_fits_elsewhere_goes_on_there_at_once():
    story = Story().node("wide", gpus=2).node("narrow", gpus=1)
    story.standing("low", "wide", [0], runs=100, restart=5)

    told = story.job("high", at=10, runs=50, gpus=2, priority=1).under("priority+best-fit")

    assert told.start_s("high") == 10
    assert told.times_s("start", "low") == [0, 10]


def test_a_victim_that_fits_elsewhere_goes_on_although_nothing_more_happens():
    story = Story().node("wide", gpus=2).node("narrow", gpus=1)
    story.standing("low", "wide", [0])

    told = story.job("high", at=10, gpus=2, priority=1).under("priority+best-fit")

    assert told.state("low") == "running"


def test_work_that_may_not_be_stopped_goes_before_work_that_may_beside_services():
    story = Story().node("n1", gpus=3)
    story.job("web", gpus=1, kind="inference").job("soft", runs=100, gpus=2)
    story.job("waits", at=1, runs=10, gpus=2)
    story.job("fixed", at=2, runs=10, gpus=2, preemptible=False)

    told = story.under("priority+best-fit")

    assert told.start_s("fixed") == 2
    assert told.times_s("evict", "soft") == [2]


def test_services_are_never_stopped():
    story = Story().node("n1", gpus=1).job("web", gpus=1, kind="inference")

    told = story.job("high", at=1, runs=1, gpus=1, priority=9).under("priority+best-fit")

    assert told.state("web") == "running"
    assert told.state("high") == "waiting"


# What being stopped costs


@pytest.mark.parametrize(
    ("checkpoint", "end_s", "lost_s"),
    [
        (None, 152, 42),  # all 37 s again, 5 s to start
        (10, 122, 12),  # what came after second 30 again
        (37, 115, 5),  # it has just been saved
        (0.5, 115, 5),
        (0.7, 115.6, 5.6),  # the last one was after 36.4 s
        (38, 152, 42),
    ],
)
def test_what_came_after_the_last_checkpoint_is_done_again_after_the_restart(
    checkpoint: float | None, end_s: float, lost_s: float
):
    story = one_gpu_taken_by(runs=100, checkpoint=checkpoint)

    told = story.job("high", at=37, runs=10, gpus=1, priority=1).under("priority+best-fit")

    assert told.end_s("low") == end_s
    assert told.lost_gpu_s("low") == lost_s
    assert told.summary.lost_gpu_h == lost_s / 3600


def test_lost_work_is_exact_to_the_millisecond():
    story = one_gpu_taken_by(runs=10.001, checkpoint=0.333, restart=0.007)

    told = story.job("high", at=1.234, runs=0.111, gpus=1, priority=1).under("priority+best-fit")

    assert told.lost_gpu_s("low") == 0.235 + 0.007  # 3 checkpoints of 0.333 s are 0.999 s
    assert told.end_s("low") == 1.345 + 0.007 + (10.001 - 0.999)


def test_every_gpu_of_a_gang_loses():
    story = Story().node("n1", gpus=4).job("low", runs=100, replicas=2, gpus=2, restart=5)

    told = story.job("high", at=10, runs=1, gpus=4, priority=1).under("priority+best-fit")

    assert told.lost_gpu_s("low") == 4 * 15


def test_work_in_place_counts_from_its_last_checkpoint_before_time_0():
    story = Story().node("n1", gpus=1)
    story.standing("low", "n1", [0], runs=100, age=20, restart=5)

    told = story.job("high", at=10, runs=1, gpus=1, priority=1).under("priority+best-fit")

    assert told.lost_gpu_s("low") == 20 + 10 + 5
    assert told.end_s("low") == 11 + 5 + 20 + 100


def stopped_twice(second_s: float, checkpoint: float | None) -> Story:
    """Stopped after 25 s of work, again at a later time; it restarts in 5 s, at 30."""
    story = one_gpu_taken_by(runs=100, checkpoint=checkpoint)
    story.job("high-0", at=25, runs=5, gpus=1, priority=1)
    return story.job("high-1", at=second_s, runs=5, gpus=1, priority=1)


@pytest.mark.parametrize("checkpoint", [None, 10])
@pytest.mark.parametrize("second_s", [33, 35, 38, 47, 61])
def test_what_a_job_holds_is_its_work_and_what_it_lost(second_s: float, checkpoint: float | None):
    told = stopped_twice(second_s, checkpoint).under("priority+best-fit")

    assert told.of("low").preemptions == 2
    assert told.held_gpu_s("low") == 100 + told.lost_gpu_s("low")


def test_stopped_while_it_restarts_a_job_loses_no_work():
    told = stopped_twice(33, 10).under("priority+best-fit")

    # 20 of 100 s are saved; it starts a third time at 38.
    assert told.end_s("low") == 38 + 5 + 80


def test_a_second_stop_keeps_whole_checkpoints_and_no_parts_of_one():
    told = stopped_twice(47, 10).under("priority+best-fit")

    # It ran 17 s from 30: 5 s to start, 12 s of work. Its checkpoint is 10 s after its start, or
    # after it had worked again for 10 s; so 5 or 10 s of work were kept.
    assert told.end_s("low") in (52 + 5 + 75, 52 + 5 + 70)


def test_elastic_work_loses_what_it_did_at_the_size_it_had():
    story = Story().node("n1", gpus=4).standing("r", "n1", [0, 1], runs=40, preemptible=False)
    story.job("low", runs=100, replicas=4, min=2, gpus=1, restart=5)

    told = story.job("high", at=50, runs=10, gpus=4, priority=1).under("priority+best-fit")

    # 2 GPUs for 40 s and 4 for 10 s; 5 s to start again.
    assert told.lost_gpu_s("low") == 2 * 40 + 4 * 10 + 4 * 5
    assert told.held_gpu_s("low") == 400 + told.lost_gpu_s("low")


def test_elastic_work_keeps_what_it_had_done_at_its_last_checkpoint():
    story = Story().node("n1", gpus=4).standing("r", "n1", [0, 1], runs=40, preemptible=False)
    story.job("low", runs=100, replicas=4, min=2, gpus=1, checkpoint=40, restart=5)

    told = story.job("high", at=50, runs=10, gpus=4, priority=1).under("priority+best-fit")

    # Until its checkpoint at 40 it had done 80 of 400; it goes on at 60.
    assert told.end_s("low") == 60 + 5 + (400 - 80) / 4


def test_starting_again_takes_its_time_whatever_the_size():
    story = Story().node("n1", gpus=4).job("low", runs=100, replicas=4, min=2, gpus=1, restart=10)
    story.job("high", at=5, runs=10, gpus=4, priority=1)
    story.job("fixed", at=6, runs=1000, gpus=2, priority=1, preemptible=False)

    told = story.under("priority+best-fit")

    # It starts again at 15 with two replicas, and works from 25.
    assert told.times_s("start", "low") == [0, 15]
    assert told.end_s("low") == 25 + 400 / 2


# Fair share


def test_drf_alternates_between_queues():
    story = Story().queue("red").queue("blue").node("n1", gpus=4)
    for color in ("red", "blue"):
        for n in range(4):
            story.job(f"{color}-{n}", runs=10, gpus=1, queue=color)

    told = story.under("drf+best-fit")

    for color in ("red", "blue"):
        assert [told.start_s(f"{color}-{n}") for n in range(4)] == [0, 0, 10, 10]


def test_drf_respects_weights():
    story = Story().queue("red", weight=3).queue("blue").node("n1", gpus=4)
    for color in ("blue", "red"):
        for n in range(4):
            story.job(f"{color}-{n}", runs=10, gpus=1, queue=color)

    told = story.under("drf+best-fit")

    assert [told.start_s(f"red-{n}") for n in range(4)] == [0, 0, 0, 10]
    assert [told.start_s(f"blue-{n}") for n in range(4)] == [0, 10, 10, 10]


def test_drf_serves_queues_of_weight_0_last():
    story = Story().queue("scavenger", weight=0).queue("red").node("n1", gpus=3)
    for n in range(2):
        story.job(f"scavenger-{n}", runs=10, gpus=1, queue="scavenger")
        story.job(f"red-{n}", runs=10, gpus=1, queue="red")

    told = story.under("drf+best-fit")

    assert told.starts("red-0", "red-1", "scavenger-0", "scavenger-1") == {
        "red-0": 0,
        "red-1": 0,
        "scavenger-0": 0,
        "scavenger-1": 10,
    }


def test_drf_looks_at_the_dominant_resource():
    story = Story().queue("red").queue("blue").node("n1", gpus=8, cpu=8)
    for n in range(2):
        story.job(f"red-{n}", runs=10, gpus=1, cpu=4, queue="red")
    for n in range(5):
        story.job(f"blue-{n}", runs=10, gpus=1, cpu=1, queue="blue")

    told = story.under("drf+best-fit")

    # One job of red is half of the CPUs, four of blue are the other half.
    assert [told.start_s(f"red-{n}") for n in range(2)] == [0, 10]
    assert [told.start_s(f"blue-{n}") for n in range(5)] == [0, 0, 0, 0, 10]


def test_drf_passes_over_who_does_not_fit():
    story = Story().queue("red").queue("blue").node("n1", gpus=2)
    story.job("running", runs=10, gpus=1, queue="blue")
    story.job("wide", at=1, runs=1, gpus=2, queue="red").job(
        "b", at=2, runs=1, gpus=1, queue="blue"
    )

    assert story.under("drf+best-fit").starts("wide", "b") == {"wide": 10, "b": 2}


def test_drf_counts_what_still_runs_from_before():
    story = Story().queue("red").queue("blue").node("n1", gpus=3)
    story.job("red-0", runs=30, gpus=2, queue="red").job("block", runs=10, gpus=1, queue="blue")
    story.job("red-1", at=1, runs=5, gpus=1, queue="red")
    story.job("blue-1", at=2, runs=5, gpus=1, queue="blue")

    assert story.under("drf+best-fit").starts("blue-1", "red-1") == {"blue-1": 10, "red-1": 15}
