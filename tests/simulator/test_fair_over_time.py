"""Fair shares over time: the tree, past use, reclaim, preemption with a price, the measures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.outcome import Outcome
from simulator.policies import SimulationOptions
from simulator.run import simulate
from simulator.scenario import Scenario
from simulator.schedulers.rolling import Rolling
from solver.options import SolveOptions
from tests.simulator.story import Story, Told
from tests.simulator.strategies import crowded


def order_of_starts(told: Told) -> list[str]:
    return [entry.job for entry in told.outcome.log if entry.what == "start"]


def log_of(told: Told, what: str) -> list[str]:
    return [entry.job for entry in told.outcome.log if entry.what == what]


# The tree and the past


def test_drf_takes_departments_in_turn_however_many_queues_they_have():
    story = Story().node("n", gpus=1).queue("science").queue("web")
    story.queue("physics", parent="science").queue("biology", parent="science")
    story.job("p", queue="physics", runs=1, gpus=1).job("w", queue="web", runs=1, gpus=1)
    story.job("b", queue="biology", runs=1, gpus=1)

    flat = Story().node("n", gpus=2).queue("web").queue("physics").queue("biology")
    for name in ("physics", "biology", "web"):
        for number in range(2):
            flat.job(f"{name}{number}", queue=name, runs=1, gpus=1)

    # Science is named first; then both have nothing again.
    assert order_of_starts(story.under("drf"))[0] == "p"
    assert set(order_of_starts(flat.under("drf"))[:2]) == {"web0", "physics0"}


def test_a_department_with_two_queues_gets_no_more_than_one_with_one():
    story = Story().node("n", gpus=4).queue("science").queue("web")
    story.queue("physics", parent="science").queue("biology", parent="science")
    for name in ("physics", "biology", "web"):
        for number in range(4):
            story.job(f"{name}{number}", queue=name, runs=9, gpus=1)

    first = order_of_starts(story.under("drf"))[:4]

    assert sorted(name[:3] for name in first) == ["bio", "phy", "web", "web"]


def hog_and_newcomer() -> Story:
    """One GPU. The hog's jobs come first; whoever is next has an equal share of nothing."""
    story = Story().node("n", gpus=1).queue("hog").queue("new")
    for number in range(4):
        story.job(f"h{number}", queue="hog", runs=10, gpus=1)
    for number in range(2):
        story.job(f"n{number}", at=1, queue="new", runs=10, gpus=1)
    return story


def test_without_a_half_life_only_the_present_counts():
    assert order_of_starts(hog_and_newcomer().under("drf"))[:3] == ["h0", "h1", "h2"]


def test_who_has_used_less_is_next_once_the_past_counts():
    story = hog_and_newcomer().node("m", gpus=1).half_life(1000)

    told = story.under("drf")

    # From second 10 on nobody holds anything, and the newcomer weighs four times as much.
    assert order_of_starts(told)[:4] == ["h0", "h1", "n0", "h2"]


def test_past_use_of_the_spec_is_where_it_begins():
    def first_two(past_gpu_s: float) -> list[str]:
        story = Story().node("n", gpus=6).half_life(3600)
        story.queue("a", past_gpu_s=past_gpu_s).queue("b")
        for number in range(6):
            story.job(f"a{number}", queue="a", runs=5, gpus=1)
            story.job(f"b{number}", queue="b", runs=5, gpus=1)
        return sorted(name[0] for name in order_of_starts(story.under("drf"))[:6])

    assert first_two(0) == ["a"] * 3 + ["b"] * 3
    assert first_two(3600) == ["a"] * 1 + ["b"] * 5


# Quota reclaim


def borrowed() -> Story:
    """Two of four GPUs are guaranteed to the owner; the borrower holds all of them."""
    story = Story().node("n", gpus=4).queue("owner", quota=2).queue("guest", quota=2)
    for number in range(4):
        story.job(f"g{number}", queue="guest", runs=100, gpus=1, restart=0)
    return story


def test_who_is_under_its_guarantee_takes_it_back_and_no_more():
    story = borrowed()
    for number in range(4):
        story.job(f"o{number}", at=10, queue="owner", runs=20, gpus=1)

    told = story.under("reclaim")

    assert told.start_s("o0") == told.start_s("o1") == 10
    # The youngest of those that have lost alike go, and come back when there is room.
    assert log_of(told, "evict") == ["g3", "g2"]
    assert told.start_s("o2") > 10
    assert told.summary.preemptions == 2
    assert told.lost_gpu_s("g3") == 10


def test_nobody_is_stopped_for_what_goes_beyond_the_quota():
    story = borrowed().job("wide", at=10, queue="owner", replicas=3, runs=5, gpus=1)

    assert log_of(story.under("reclaim"), "evict") == []


def test_who_holds_no_more_than_its_quota_is_left_alone():
    story = Story().node("n", gpus=4).queue("owner", quota=4).queue("guest", quota=4)
    for number in range(4):
        story.job(f"g{number}", queue="guest", runs=100, gpus=1)
    story.job("o", at=10, queue="owner", runs=20, gpus=1)

    assert log_of(story.under("reclaim"), "evict") == []


def test_work_that_may_not_be_stopped_is_left_alone():
    story = Story().node("n", gpus=1).queue("owner", quota=1).queue("guest")
    story.job("g", queue="guest", runs=100, gpus=1, preemptible=False)
    story.job("o", at=10, queue="owner", runs=20, gpus=1)

    assert log_of(story.under("reclaim"), "evict") == []


def test_a_guarantee_is_taken_back_where_the_branches_part():
    """Science is within its guarantee as a whole, so physics takes from web, not from biology."""
    story = Story().node("n", gpus=4).queue("science", quota=3).queue("web", quota=1)
    story.queue("physics", parent="science", quota=2).queue("biology", parent="science", quota=1)
    story.job("b", queue="biology", runs=100, gpus=1)
    for number in range(3):
        story.job(f"w{number}", queue="web", runs=100, gpus=1)
    story.job("p", at=10, queue="physics", replicas=2, runs=20, gpus=1)

    told = story.under("reclaim")

    assert told.start_s("p") == 10
    assert sorted(log_of(told, "evict")) == ["w1", "w2"]


# Preemption with a price


def urgent() -> Story:
    """Both have run for a minute; only the cheap one has saved its work."""
    story = Story().node("n", gpus=2)
    story.job("dear", runs=1000, gpus=1, restart=0)
    story.job("cheap", runs=1000, gpus=1, checkpoint=10, restart=0)
    return story.job("urgent", at=60, runs=10, gpus=1, priority=9)


@pytest.mark.parametrize("policy", ["preempt", "preempt+cp-sat"])
def test_who_loses_least_is_stopped(policy: str):
    told = urgent().under(policy)

    assert log_of(told, "evict") == ["cheap"]
    assert told.start_s("urgent") == 60
    assert told.summary.lost_gpu_h == 0


def test_equals_are_not_stopped_for_each_other():
    story = Story().node("n", gpus=1).job("first", runs=50, gpus=1)
    story.job("second", at=5, runs=50, gpus=1)

    assert log_of(story.under("preempt"), "evict") == []


# Nothing goes back and forth


def with_quotas(scenario: Scenario, quotas: list[int]) -> Scenario:
    """The jobs dealt out to queues that are guaranteed so many GPUs."""
    queues = tuple(
        replace(scenario.queues[0], name=f"q{n}", quota={"gpu_milli": 1000 * quota})
        for n, quota in enumerate(quotas)
    )
    arrivals = tuple(
        replace(a, job=replace(a.job, queue=f"q{n % len(quotas)}", priority=n % 3), restart_ms=1)
        for n, a in enumerate(scenario.arrivals)
    )
    return replace(scenario, queues=queues, arrivals=arrivals)


def ping_pong(outcome: Outcome) -> list[tuple[str, int]]:
    """Jobs that start and are stopped at the same moment."""
    started: set[tuple[str, int]] = set()
    found = []
    for entry in outcome.log:
        if entry.what == "start":
            started.add((entry.job, entry.time_ms))
        if entry.what == "evict" and (entry.job, entry.time_ms) in started:
            found.append((entry.job, entry.time_ms))
    return found


QUOTAS = st.lists(st.sampled_from([0, 1, 2, 4]), min_size=2, max_size=3)


@pytest.mark.parametrize("policy", ["reclaim", "preempt"])
@given(scenario=crowded(), quotas=QUOTAS, half_life_ms=st.sampled_from([None, 10]))
@settings(max_examples=25, deadline=None)
def test_runs_end_without_ping_pong_and_can_be_repeated(
    policy: str, scenario: Scenario, quotas: list[int], half_life_ms: int | None
):
    scenario = replace(with_quotas(scenario, quotas), half_life_ms=half_life_ms)

    outcome, again = (simulate(scenario, policy) for _ in range(2))

    assert ping_pong(outcome) == []
    assert outcome.log == again.log
    assert outcome.jobs == again.jobs
    assert all(job.state != "waiting" for job in outcome.jobs)


def test_the_solvers_evictions_can_be_repeated_too():
    options = SimulationOptions(
        rolling=Rolling(options=SolveOptions(deterministic_limit=0.2, workers=1))
    )
    story = borrowed()
    for number in range(3):
        story.job(f"o{number}", at=10, queue="owner", runs=20, gpus=1, priority=1)

    one, two = (simulate(story.scenario(), "preempt+cp-sat", 1, options) for _ in range(2))

    assert one.log == two.log
    assert ping_pong(one) == []
    # The owner's two; the third would take the guest below its own guarantee.
    assert one.summary.preemptions == 2


# The measures


def test_the_gap_is_what_the_worst_off_queue_lacks():
    story = Story().node("n", gpus=4).queue("a").queue("b")
    story.job("hog", queue="a", replicas=4, runs=10, gpus=1)
    story.job("late", at=5, queue="b", replicas=4, runs=5, gpus=1)

    row = story.under("fifo-skip").summary

    # From 5 to 10 b is entitled to two of four and has none; 15 s in all.
    assert row.share_gap_max == 0.5
    assert row.share_gap_mean == pytest.approx(0.5 * 5 / 15)


def test_one_queue_has_no_gap():
    story = Story().node("n", gpus=1).job("a", runs=1, gpus=1)

    assert story.under("drf").summary.share_gap_max == 0


def test_rho_of_a_job_that_had_the_cluster_to_itself_is_1():
    row = Story().node("n", gpus=2).job("a", runs=10, gpus=2).under("drf").summary

    assert (row.finish_rho_max, row.finish_rho_mean) == (1, 1)


def test_rho_compares_with_a_part_of_the_cluster():
    story = Story().node("n", gpus=2)
    story.job("a", runs=10, gpus=2).job("b", runs=10, gpus=2)

    row = story.under("drf").summary

    # a: 10 s beside b: on half of it, 20 s. b: 20 s, n = 1.5 on average: on two thirds, 15 s.
    assert row.finish_rho_max == pytest.approx(20 / 15)
    assert row.finish_rho_mean == pytest.approx((10 / 20 + 20 / 15) / 2)
