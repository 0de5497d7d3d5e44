"""Services beside training: floors, surplus and load; and training that grows and shrinks."""

from __future__ import annotations

import pytest

from simulator.load import Looks
from tests.simulator.story import EVERY_ORDER, GANG_ORDERS, Story, Told

HOUR = 3600
SERVICE = {"kind": "inference", "gpus": 1}


def service_and_training() -> Story:
    """A service that would like the whole machine, and training that comes and goes."""
    story = Story().node("n1", gpus=8).job("web", replicas=8, min=2, **SERVICE)
    return story.job("train", at=10, runs=20, gpus=4)


def daily_service() -> Story:
    """From 2 replicas at 02:00 to 10 at 14:00; something small runs all day."""
    story = Story().node("n1", gpus=11).job("clock", runs=30 * HOUR, gpus=1)
    return story.job("web", replicas=10, min=2, peak=14 * HOUR, **SERVICE)


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_fixed_training_then_floors_then_training_then_surplus(order: str):
    story = Story().node("n1", gpus=8)
    story.job("t1", runs=100, replicas=4, gpus=1, preemptible=False)
    story.job("i", replicas=4, min=2, **SERVICE).job("t2", replicas=2, gpus=1)

    told = story.under(f"{order}+best-fit")

    # Case inf-02.
    assert [told.gpus_at(0, job) for job in ("t1", "i", "t2")] == [4, 2, 2]
    assert [told.gpus_at(100, job) for job in ("t1", "i", "t2")] == [0, 4, 2]
    assert told.times_s("start", "i") == [0]
    assert told.times_s("evict", "t2") == []


@pytest.mark.parametrize("order", ["fifo-strict", "fifo-skip", "sjf", "drf", "easy"])
def test_the_floor_of_a_service_comes_before_training_that_came_first(order: str):
    story = Story().node("n1", gpus=2).job("r", runs=10, gpus=2)
    story.job("train", at=1, runs=5, gpus=1).job("web", at=2, runs=5, replicas=2, **SERVICE)

    told = story.under(f"{order}+best-fit")

    assert told.gpus_at(10, "web") == 2


def test_by_priority_a_floor_stops_training_that_may_be_stopped():
    story = Story().node("n1", gpus=2).job("soft", runs=10, gpus=2)

    told = story.job("web", at=2, runs=5, replicas=2, **SERVICE).under("priority+best-fit")

    assert told.start_s("web") == 2
    assert told.times_s("start", "soft") == [0, 7]


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_surplus_gives_way_to_training_and_comes_back(order: str):
    told = service_and_training().under(f"{order}+best-fit")

    assert told.start_s("train") == 10
    assert [told.gpus_at(t, "web") for t in (0, 9, 10, 29, 30)] == [8, 8, 4, 4, 8]
    assert told.summary.preemptions == 0


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_a_service_keeps_its_floor(order: str):
    story = Story().node("n1", gpus=8).job("web", runs=50, replicas=8, min=2, **SERVICE)

    told = story.job("train", at=10, runs=20, gpus=7).under(f"{order}+best-fit")

    assert told.gpus_at(49, "web") >= 2
    assert told.start_s("train") == 50


def test_as_little_surplus_is_taken_as_it_takes():
    story = Story().node("n1", gpus=4, labels={"of": "1"}).node("n2", gpus=4, labels={"of": "2"})
    story.job("older", replicas=4, min=1, selector={"of": "1"}, **SERVICE)
    story.job("younger", replicas=4, min=1, selector={"of": "2"}, **SERVICE)

    told = story.job("train", at=10, runs=5, gpus=2, selector={"of": "1"}).under("fifo-skip")

    assert told.start_s("train") == 10
    assert told.times_s("shrink", "older") == [10, 10]
    assert told.times_s("shrink", "younger") == []


def test_surplus_of_the_youngest_goes_first():
    story = Story().node("n1", gpus=8)
    story.job("older", replicas=4, min=1, **SERVICE).job(
        "younger", at=1, replicas=4, min=1, **SERVICE
    )

    told = story.job("train", at=10, runs=5, gpus=2).under("fifo-skip")

    assert told.gpus_at(10, "older") == 4
    assert told.gpus_at(10, "younger") == 2


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_service_follows_its_load(order: str):
    told = daily_service().under(f"{order}+best-fit")

    assert [told.gpus_at(hour * HOUR, "web") for hour in (2, 8, 14, 20, 26)] == [2, 6, 10, 6, 2]


def test_a_service_looks_at_its_load_every_step_only():
    story = Story().node("n1", gpus=11).job("clock", runs=30 * HOUR, gpus=1)
    story.job("web", replicas=10, min=2, peak=14 * HOUR, step=6 * HOUR, **SERVICE)

    told = story.under("fifo-skip")

    times = {*told.times_s("grow", "web"), *told.times_s("shrink", "web")}
    assert times <= {0, 6 * HOUR, 12 * HOUR, 18 * HOUR, 24 * HOUR, 30 * HOUR}
    assert told.gpus_at(11 * HOUR, "web") == told.gpus_at(6 * HOUR, "web")


def test_training_uses_what_a_service_does_not_want_at_night():
    story = daily_service().job("train", at=2 * HOUR, runs=HOUR, gpus=8)

    told = story.under("fifo-skip")

    assert told.start_s("train") == 2 * HOUR
    assert told.gpus_at(2 * HOUR, "web") == 2


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_training_that_waits_starts_when_the_load_falls(order: str):
    story = Story().node("n1", gpus=10)
    story.job("web", replicas=10, min=2, peak=14 * HOUR, **SERVICE)

    told = story.job("train", at=14 * HOUR, runs=HOUR, gpus=8).under(f"{order}+best-fit")

    # At 02:00 the service wants no more than two at the latest.
    assert told.start_s("train") is not None
    assert told.start_s("train") <= 26 * HOUR


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_service_that_ends_does_so_whatever_it_holds(order: str):
    story = Story().node("n1", gpus=1).job("web", runs=100, replicas=2, min=1, **SERVICE)

    told = story.under(f"{order}+best-fit")

    assert told.end_s("web") == 100
    assert told.state("web") == "finished"


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_elastic_training_is_faster_with_surplus(order: str):
    story = Story().node("n1", gpus=4).standing("r", "n1", [0, 1], runs=40)

    told = story.job("train", runs=100, replicas=4, min=2, gpus=1).under(f"{order}+best-fit")

    # 2 of 4 replicas for 40 s do 80 of 400; 4 do the other 320 in 80 s.
    assert [told.gpus_at(t, "train") for t in (0, 39, 40)] == [2, 2, 4]
    assert told.end_s("train") == 120


@pytest.mark.parametrize("order", GANG_ORDERS)
def test_elastic_training_is_slower_while_it_gives_up_surplus(order: str):
    story = Story().node("n1", gpus=4).job("elastic", runs=100, replicas=4, min=2, gpus=1)

    told = story.job("other", at=40, runs=20, gpus=2).under(f"{order}+best-fit")

    # 160 of 400 until 40, 40 until 60, and 200 in the last 50 s.
    assert told.starts("elastic", "other") == {"elastic": 0, "other": 40}
    assert told.end_s("elastic") == 110


def test_the_end_of_elastic_training_is_rounded_up_to_a_millisecond():
    story = Story().node("n1", gpus=2)

    told = story.job("train", runs=0.010, replicas=3, min=2, gpus=1).under("fifo-skip")

    assert told.end_s("train") == 0.015


@pytest.mark.parametrize("order", ["easy", "conservative"])
def test_who_overtakes_does_not_delay_a_head_that_waits_for_surplus_beside_an_end(order: str):
    story = Story().node("n1", gpus=8)
    story.standing("r1", "n1", [0, 1], runs=50).standing("r2", "n1", [2, 3], runs=100)
    story.job("web", replicas=6, min=2, **SERVICE)
    story.job("head", at=10, runs=10, gpus=6).job("late", at=20, runs=1000, gpus=2)

    told = story.under(f"{order}+best-fit")

    # With both ends and the surplus above two replicas there are six GPUs at 100.
    assert told.start_s("head") == 100


def test_a_floor_goes_before_a_reservation_of_training_which_is_made_again():
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=2)
    story.job("head", at=1, runs=10, gpus=3).job("late", at=3, runs=19, gpus=1)
    story.job("web", at=4, runs=18, replicas=1, **SERVICE)

    told = story.under("easy+best-fit")

    # Both free GPUs are taken until 22: one by the service, which comes before the head, and one
    # that was not reserved.
    assert told.starts("late", "web", "head") == {"late": 3, "web": 4, "head": 22}


@pytest.mark.parametrize("order", ["easy", "conservative"])
def test_surplus_is_not_handed_out_of_what_is_reserved(order: str):
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=2)
    story.job("head", at=1, runs=10, gpus=3).job("web", at=2, replicas=3, min=1, **SERVICE)

    told = story.under(f"{order}+best-fit")

    assert told.gpus_at(5, "web") >= 1
    assert told.start_s("head") == 10


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_looks_at_a_load_that_change_nothing_are_no_moments(
    order: str, monkeypatch: pytest.MonkeyPatch
):
    def told() -> Told:
        story = Story().node("n1", gpus=9).job("clock", runs=30 * HOUR, gpus=1)
        story.job("web", replicas=10, min=2, peak=14 * HOUR, step=120, **SERVICE)
        story.job("grows", at=HOUR, runs=9 * HOUR, replicas=3, min=1, gpus=1)
        story.job("train", at=20 * HOUR + 7, runs=3 * HOUR, gpus=3)
        return story.job("late", at=26 * HOUR, runs=HOUR, gpus=4).under(f"{order}+best-fit")

    skipping = told()

    def every_step(looks: Looks, patience_ms: int, *, settled: bool) -> int:
        return looks.first_ms()

    monkeypatch.setattr(Looks, "next_ms", every_step)
    every = told()
    assert skipping.outcome.jobs == every.outcome.jobs
    assert skipping.outcome.log == every.outcome.log
    numbers = ("utilization_ratio", "stranded_gpus_mean", "fragmentation_gpus_mean", "jain")
    for name in numbers:
        assert getattr(skipping.summary, name) == pytest.approx(
            getattr(every.summary, name), rel=1e-9
        )
    assert every.summary.events > 900
    if order in ("fifo-skip", "drf", "priority"):
        assert skipping.summary.events < 100
