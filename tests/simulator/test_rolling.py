"""The solver over a rolling horizon: it chooses, or it places what the order has chosen."""

from __future__ import annotations

import pytest

from simulator.audit import Audit
from simulator.run import simulate
from simulator.traces.synthetic import synthetic
from tests.simulator.story import Story

GREEDY = ["first-fit", "best-fit", "worst-fit", "dot-product", "topology-aware"]


def hungry_and_many() -> Story:
    """One job wants 12 cores with its GPU; the rest fit only where it is on the larger node."""
    story = Story().node("n16", gpus=8, cpu=16).node("n32", gpus=8, cpu=32)
    story.job("md", runs=10, gpus=1, cpu=12)
    for n in range(15):
        story.job(f"one-{n}", runs=10, gpus=1, cpu=2)
    return story


def split_or_not() -> Story:
    """Two jobs of 3 GPUs and two of 1 fill two nodes of 4, if the small ones are kept apart."""
    story = Story().node("n1", gpus=4).node("n2", gpus=4)
    for n in range(2):
        story.job(f"small-{n}", runs=10, gpus=1)
    for n in range(2):
        story.job(f"large-{n}", runs=10, gpus=3)
    return story


def test_the_solver_starts_together_what_greedy_placement_does_not():
    told = split_or_not().under("cp-sat")

    assert {job.start_ms for job in told.outcome.jobs} == {0}
    assert split_or_not().under("best-fit").start_s("large-1") == 10


def test_the_solver_starts_at_least_as_much_as_any_greedy_placement():
    told = hungry_and_many().under("cp-sat")

    # 15 * 2 + 12 cores of 48 are asked for; seven on n16 want 14, eight on n32 want 28.
    assert {job.start_ms for job in told.outcome.jobs} == {0}


@pytest.mark.parametrize("placement", GREEDY)
def test_the_solver_strands_no_more_than(placement: str):
    greedy = hungry_and_many().under(placement).summary

    assert hungry_and_many().under("cp-sat").summary.stranded_gpus_mean <= greedy.stranded_gpus_mean


@pytest.mark.parametrize("order", ["fifo-skip", "priority"])
def test_rounds_keep_their_distance(order: str):
    story = Story().node("n1", gpus=4)
    for n, at in enumerate((0, 10, 59, 60, 61)):
        story.job(f"j{n}", at=at, runs=500, gpus=1 if n < 3 else 0, cpu=1)

    told = story.under(f"{order}+cp-sat", every=60)

    assert [told.start_s(f"j{n}") for n in range(5)] == [0, 60, 60, 60, 120]


def test_without_a_distance_there_is_a_round_at_every_event():
    story = Story().node("n1", gpus=2).job("a", runs=500, gpus=1).job("b", at=10, runs=500, gpus=1)

    assert story.under("cp-sat").start_s("b") == 10


def test_waiting_for_a_round_leaves_no_time_behind():
    story = Story().node("n1", gpus=2).job("a", runs=5, gpus=1).job("b", at=1, runs=5, gpus=1)

    told = story.under("cp-sat", every=60)

    assert told.end_s("b") == told.summary.makespan_s == 65


@pytest.mark.parametrize("order", ["easy", "conservative"])
def test_placing_again_keeps_the_promise_to_the_head(order: str):
    story = Story()
    for n in range(1, 5):
        story.node(f"n{n}", gpus=8).standing(f"r{n}", f"n{n}", range(8), runs=10 * n)
    story.job("big", runs=60, replicas=4, gpus=8)
    for n in range(4):
        story.job(f"s{n}", at=5 * n, runs=15, gpus=8)

    told = story.under(f"{order}+cp-sat")

    assert told.starts("s0", "s1", "s2", "big") == {"s0": 10, "s1": 20, "s2": 25, "big": 40}


def test_placing_again_leaves_reserved_cores_alone():
    story = Story().node("n1", gpus=8, cpu=8).node("n2", gpus=8, cpu=3)
    story.job("first", runs=10, gpus=1, cpu=4).job("head", at=1, runs=10, gpus=1, cpu=8)
    story.job("late", at=2, runs=500, gpus=1, cpu=3)

    told = story.under("easy+cp-sat")

    assert told.starts("head", "late") == {"head": 10, "late": 2}


@pytest.mark.parametrize("order", ["fifo-strict", "sjf", "drf"])
def test_in_strict_and_fair_orders_the_solver_only_says_where(order: str):
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=3)
    story.job("wide", at=1, runs=1, gpus=4).job("narrow", at=2, runs=2, gpus=1)

    assert story.under(f"{order}+cp-sat").starts("wide", "narrow") == story.under(
        f"{order}+best-fit"
    ).starts("wide", "narrow")


def test_the_solver_does_not_trade_running_work_for_a_higher_rank():
    story = Story().node("n1", gpus=4).job("running", runs=100, gpus=3, preemptible=False)
    story.job("high", at=1, runs=10, gpus=2, priority=5).job("low", at=1, runs=10, gpus=1)

    told = story.under("priority+cp-sat")

    assert told.starts("low", "high") == {"low": 1, "high": 100}
    assert told.summary.preemptions == 0


def test_a_higher_rank_stops_lower_work_under_the_solver_too():
    story = Story().node("n1", gpus=4).job("running", runs=100, gpus=4, restart=5)
    story.job("high", at=1, runs=10, gpus=2, priority=5)

    told = story.under("priority+cp-sat")

    assert told.start_s("high") == 1
    assert told.times_s("evict", "running") == [1]


def test_services_have_their_floor_first_under_the_solver_too():
    story = Story().node("n1", gpus=8).job("t1", runs=100, gpus=4, preemptible=False)
    story.job("i", replicas=4, min=2, gpus=1, kind="inference").job("t2", replicas=2, gpus=1)

    told = story.under("cp-sat")

    assert [told.gpus_at(0, job) for job in ("t1", "i", "t2")] == [4, 2, 2]
    assert told.gpus_at(100, "i") == 4


def test_elastic_work_with_no_floor_starts_under_the_solver():
    story = Story().node("n1", gpus=4)

    told = story.job("e", runs=10, replicas=4, min=0, gpus=1).under("cp-sat")

    assert told.end_s("e") == 10


def test_the_same_run_again_is_the_same():
    first, again = (hungry_and_many().under("cp-sat").outcome for _ in range(2))

    assert again.jobs == first.jobs
    assert again.log == first.log


def test_the_solver_leaves_the_pods_of_a_gang_that_waits_where_they_are():
    story = Story().node("n1", gpus=4).node("n2", gpus=4)
    story.job("first", runs=20, gpus=2).job("gang", at=1, runs=10, replicas=2, gpus=3)
    story.job("small", at=2, runs=5, gpus=1).job("pair", at=3, runs=5, gpus=2)

    told = story.under("per-pod+cp-sat")

    assert told.gpus_at(2, "gang") == 3
    assert told.starts("small", "pair", "gang") == {"small": 2, "pair": 3, "gang": 20}


def test_pods_and_solver_together_break_no_rule():
    audit = Audit(gangs=False)

    outcome = simulate(synthetic("jobs=60,nodes=2", 1), "per-pod+cp-sat", observers=[audit])

    assert audit.decisions
    assert outcome.summary.finished == 60


def test_a_deadlock_that_is_over_by_itself_is_not_broken_under_the_solver():
    story = Story().node("n1", gpus=4).job("first", runs=10, gpus=1)
    story.job("a", at=1, runs=5, replicas=4, gpus=1).job("b", at=1, runs=5, replicas=3, gpus=1)

    told = story.under("per-pod+cp-sat", timeout=9)

    assert told.summary.deadlocks == story.under("per-pod+best-fit", timeout=9).summary.deadlocks
    assert {job.state.value for job in told.outcome.jobs} == {"finished"}
