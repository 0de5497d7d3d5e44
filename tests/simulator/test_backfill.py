"""EASY and conservative backfill: who may overtake, and whom nobody may delay."""

from __future__ import annotations

import pytest

from tests.simulator.story import Story

BACKFILL = ["easy", "conservative"]


def four_nodes_and_a_stream() -> Story:
    """Case bf-01: four nodes become free one by one; one job wants them all, twelve want one."""
    story = Story()
    for n in range(1, 5):
        story.node(f"n{n}", gpus=8).standing(f"r{n}", f"n{n}", range(8), runs=10 * n)
    story.job("big", runs=60, replicas=4, gpus=8)
    for n in range(12):
        story.job(f"s{n}", at=5 * n, runs=15, gpus=8)
    return story


def head_waits_until_10(gpus: int = 3) -> Story:
    """Two of four GPUs are taken until 10; the head of the line wants more than the other two."""
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=2)
    return story.job("head", at=1, runs=10, gpus=gpus)


def head_waits_for_cpu_until_10() -> Story:
    """GPUs are plenty; 4 of 8 cores are taken until 10, and the head wants 6."""
    story = Story().node("n1", gpus=8, cpu=8).job("first", runs=10, gpus=1, cpu=4)
    return story.job("head", at=1, runs=10, gpus=1, cpu=6)


@pytest.mark.parametrize("placement", ["first-fit", "best-fit", "worst-fit", "fgd", "random"])
def test_short_jobs_use_the_nodes_until_the_wide_one_starts(placement: str):
    told = four_nodes_and_a_stream().under(f"easy+{placement}")

    # Freed: n1 at 10, n2 at 20, n3 at 30, n4 at 40. s0 runs 10-25 on n1, s1 20-35 on n2, s2 25-40
    # on n1; s3 could start at 30 at the earliest and would end at 45.
    assert told.starts("s0", "s1", "s2", "big") == {"s0": 10, "s1": 20, "s2": 25, "big": 40}
    assert told.end_s("big") == 100
    assert [told.start_s(f"s{n}") for n in range(3, 7)] == [100] * 4


def test_without_a_reservation_the_wide_one_waits_for_the_stream_to_dry_up():
    told = four_nodes_and_a_stream().under("fifo-skip+best-fit")

    assert told.start_s("big") == 75


@pytest.mark.parametrize("order", BACKFILL)
@pytest.mark.parametrize(("runs", "start"), [(8, 2), (8.001, 20)])
def test_who_has_ended_when_the_reservation_begins_may_overtake(
    order: str, runs: float, start: float
):
    story = head_waits_until_10(gpus=4).job("late", at=2, runs=runs, gpus=2)

    told = story.under(f"{order}+best-fit")

    assert told.start_s("head") == 10
    assert told.start_s("late") == start


@pytest.mark.parametrize("order", BACKFILL)
@pytest.mark.parametrize(("gpus", "start"), [(1, 2), (2, 20)])
def test_a_long_one_may_overtake_on_room_that_is_not_reserved(order: str, gpus: int, start: float):
    story = head_waits_until_10().job("late", at=2, runs=500, gpus=gpus)

    told = story.under(f"{order}+best-fit")

    assert told.start_s("head") == 10
    assert told.start_s("late") == start


@pytest.mark.parametrize("order", BACKFILL)
@pytest.mark.parametrize(
    ("cpu", "runs", "start"), [(2, 500, 2), (3, 500, 20), (3, 8, 2), (3, 9, 20)]
)
def test_cores_are_reserved_too(order: str, cpu: int, runs: float, start: float):
    story = head_waits_for_cpu_until_10().job("late", at=2, runs=runs, gpus=1, cpu=cpu)

    told = story.under(f"{order}+best-fit")

    assert told.start_s("head") == 10
    assert told.start_s("late") == start


@pytest.mark.parametrize("order", BACKFILL)
@pytest.mark.parametrize(("gpus", "start"), [(2, 2), (3, 20)])
@pytest.mark.parametrize("nested", [False, True])
def test_a_limit_counts_what_runs_at_the_time_not_all_that_ever_will(
    order: str, gpus: int, start: float, nested: bool
):
    # Of 6: 3 until 10 and 4 from then on, so 2 are left of it all the while.
    story = Story().node("n1", gpus=16).queue("all", limit=6)
    if nested:
        story.queue("a", parent="all").queue("b", parent="all")
    ours, other = ("a", "b") if nested else ("all", "all")
    story.job("first", runs=10, gpus=3, queue=ours)
    story.job("head", at=1, runs=10, gpus=4, queue=other)
    story.job("late", at=2, runs=500, gpus=gpus, queue=ours)

    told = story.under(f"{order}+best-fit")

    assert told.start_s("head") == 10
    assert told.start_s("late") == start


@pytest.mark.parametrize("order", BACKFILL)
def test_an_endless_job_may_overtake_on_room_that_is_not_reserved_only(order: str):
    story = head_waits_until_10().job("one", at=2, gpus=1).job("two", at=3, gpus=1)

    told = story.under(f"{order}+best-fit")

    assert told.starts("head", "one", "two") == {"head": 10, "one": 2, "two": 20}


@pytest.mark.parametrize("order", BACKFILL)
def test_two_long_ones_do_not_share_the_room_that_is_left_for_one(order: str):
    story = head_waits_until_10()
    story.job("one", at=2, runs=500, gpus=1).job("two", at=2, runs=500, gpus=1)

    told = story.under(f"{order}+best-fit")

    assert told.starts("head", "one", "two") == {"head": 10, "one": 2, "two": 20}


@pytest.mark.parametrize("order", BACKFILL)
def test_who_waited_already_overtakes_as_soon_as_room_is_made(order: str):
    story = Story().node("n1", gpus=4).job("short", runs=5, gpus=1).job("long", runs=10, gpus=3)
    story.job("head", at=1, runs=10, gpus=4).job("late", at=2, runs=5, gpus=1)

    assert story.under(f"{order}+best-fit").starts("late", "head") == {"late": 5, "head": 10}


@pytest.mark.parametrize("order", BACKFILL)
def test_a_reservation_waits_for_as_many_ends_as_it_takes(order: str):
    story = Story().node("n1", gpus=3)
    for n, runs in enumerate((10, 20, 30)):
        story.job(f"r{n}", runs=runs, gpus=1)
    story.job("head", at=1, runs=10, gpus=2)
    story.job("nine", at=10, runs=10, gpus=1).job("ten", at=10, runs=10.001, gpus=1)

    told = story.under(f"{order}+best-fit")

    assert told.starts("head", "nine") == {"head": 20, "nine": 10}
    assert told.start_s("ten") >= 20


@pytest.mark.parametrize("order", BACKFILL)
def test_whoever_is_first_but_never_fits_holds_nobody_up(order: str):
    story = Story().node("n1", gpus=2).job("endless", gpus=1).job("head", at=1, runs=1, gpus=2)

    told = story.job("late", at=2, runs=500, gpus=1).under(f"{order}+best-fit")

    assert told.start_s("late") == 2
    assert told.state("head") == "waiting"


@pytest.mark.parametrize("order", BACKFILL)
def test_a_gang_split_over_islands_is_expected_to_run_longer(order: str):
    pairs = {(0, 1): "NV12", (2, 3): "NV12"}
    story = Story().node("n1", gpus=4, links=pairs)
    story.standing("a", "n1", [0], runs=10).standing("b", "n1", [2], runs=10)
    story.job("head", at=1, runs=10, gpus=4).job("late", at=2, runs=6, gpus=2)

    told = story.under(f"{order}+best-fit", penalty=1)

    # On GPUs 1 and 3 it would run for 12 s, and the head starts at 10.
    assert told.start_s("head") == 10
    assert told.start_s("late") >= 20


def test_a_reserved_place_that_is_not_split_is_expected_to_be_free_in_time():
    pairs = {(0, 1): "NV12", (2, 3): "NV12"}
    story = Story().node("n1", gpus=4, links=pairs).job("first", runs=10, gpus=4)
    story.job("head", at=1, runs=10, gpus=4).job("late", at=2, runs=10, gpus=4)

    told = story.under("conservative+best-fit", penalty=1)

    # Four GPUs cannot be in fewer islands, so the head runs from 10 to 20.
    assert told.starts("head", "late") == {"head": 10, "late": 20}


def second_in_line_and_a_long_one() -> Story:
    """The long job takes nothing from the head, but the second in line wants the whole node."""
    story = head_waits_until_10().job("second", at=2, runs=10, gpus=4)
    return story.job("long", at=3, runs=100, gpus=1)


def test_easy_protects_the_first_in_line_only():
    told = second_in_line_and_a_long_one().under("easy+best-fit")

    assert told.starts("head", "long", "second") == {"head": 10, "long": 3, "second": 103}


def test_conservative_protects_the_second_in_line_too():
    told = second_in_line_and_a_long_one().under("conservative+best-fit")

    assert told.starts("head", "second", "long") == {"head": 10, "second": 20, "long": 30}


@pytest.mark.parametrize(("runs", "start"), [(17, 3), (17.001, 30)])
def test_conservative_lets_by_who_has_ended_before_the_second_in_line(runs: float, start: float):
    story = head_waits_until_10().job("second", at=2, runs=10, gpus=4)

    told = story.job("late", at=3, runs=runs, gpus=1).under("conservative+best-fit")

    assert told.starts("head", "second", "late") == {"head": 10, "second": 20, "late": start}


def test_conservative_finds_a_hole_between_two_reservations():
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=4)
    story.job("wide", at=1, runs=10, gpus=3)
    story.job("endless-later", at=2, runs=100, gpus=4)

    told = story.job("fits", at=3, runs=10, gpus=1).under("conservative+best-fit")

    assert told.starts("wide", "fits", "endless-later") == {
        "wide": 10,
        "fits": 10,
        "endless-later": 20,
    }


def test_every_reserved_start_is_audited():
    story = Story().node("n1", gpus=1).job("a", runs=10, gpus=1).job("b", at=1, runs=10, gpus=1)

    told = story.under("conservative+best-fit")

    assert told.audit.decisions == len(["a", "b"])


def test_a_start_on_arrival_is_audited_where_nobody_waits():
    story = Story(patient=False).node("n1", gpus=1).job("a", runs=10, gpus=1)

    assert story.under("best-fit").audit.decisions == 1


@pytest.mark.parametrize("placement", ["first-fit", "best-fit", "worst-fit", "fgd", "bid-price"])
@pytest.mark.parametrize("order", BACKFILL)
def test_an_elastic_job_grows_beside_a_reservation_on_gpus_that_nobody_holds(
    order: str, placement: str
):
    story = Story().node("n1", gpus=8).job("first", runs=10, gpus=4)
    story.job("head", at=1, runs=10, gpus=5)
    story.job("grows", at=2, runs=30, replicas=4, min=1, gpus=1)

    told = story.under(f"{order}+{placement}")

    # Five of the eight are reserved, up to 20: three are left to it, each of them once.
    assert told.start_s("head") == 10
    assert [told.gpus_at(time_s, "grows") for time_s in (2, 9, 20)] == [3, 3, 4]
