"""Steps of a load at which nothing can change are passed over, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from report.json_report import simulate_row
from report.simulation_view import SimulationRow
from simulator.load import Looks, next_change_ms
from simulator.run import simulate
from simulator.scenario import DAY_MS, MS, DailyLoad, Scenario
from tests.simulator.story import GANG_ORDERS, Story

HOUR = 3600
HOUR_MS = HOUR * MS
MINUTE_MS = 60 * MS

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""No shrinking: each example is two runs over days."""


def every_step_ms(looks: Looks, patience_ms: int, *, settled: bool) -> int:
    """What would be looked at if no step were passed over."""
    return looks.first_ms()


@given(
    peak_ms=st.integers(0, DAY_MS),
    step_ms=st.sampled_from([MINUTE_MS, 7 * MINUTE_MS, 3_333_333, 6 * HOUR_MS, 11 * HOUR_MS]),
    floor=st.integers(0, 3),
    more=st.integers(0, 12),
    now_ms=st.integers(0, 5 * DAY_MS),
)
@settings(deadline=None)
def test_the_next_change_is_the_one_that_looking_at_every_step_finds(
    peak_ms: int, step_ms: int, floor: int, more: int, now_ms: int
) -> None:
    load = DailyLoad(peak_ms=peak_ms, step_ms=step_ms)
    wanted = load.replicas(floor, floor + more, now_ms)
    steps = range(now_ms // step_ms + 1, (now_ms + 12 * DAY_MS) // step_ms)
    changed = (n for n in steps if load.replicas(floor, floor + more, n * step_ms) != wanted)
    first = next(changed, None)

    found_ms = next_change_ms(load, floor, floor + more, now_ms)

    assert found_ms == (None if first is None else first * step_ms)


@pytest.mark.parametrize("step_ms", [1, DAY_MS, 3 * DAY_MS, DAY_MS - 1, 0])
def test_odd_steps_are_searched_in_no_time(step_ms: int) -> None:
    load = DailyLoad(step_ms=step_ms)

    found_ms = next_change_ms(load, 1, 3, 14 * HOUR_MS)

    assert found_ms is None or found_ms > 14 * HOUR_MS


@st.composite
def days(draw: Any) -> Scenario:
    """A few days of services with a load among training that comes and goes."""
    story = Story().node("n1", gpus=8).node("n2", gpus=draw(st.sampled_from([2, 4])))
    step = draw(st.sampled_from([1800, 2520, 3 * HOUR]))
    for n in range(draw(st.integers(1, 3))):
        least = draw(st.integers(0, 2))
        story.job(
            f"service-{n}",
            at=draw(st.integers(0, 30)) * 1234,
            runs=draw(st.sampled_from([None, 50 * HOUR, 70_001])),
            replicas=max(1, least + draw(st.integers(0, 6))),
            min=least,
            gpus=1,
            kind="inference",
            peak=draw(st.integers(0, 23)) * HOUR,
            step=step,
        )
    for n in range(draw(st.integers(1, 8))):
        story.job(
            f"train-{n}",
            at=draw(st.integers(0, 100)) * 1357,
            runs=draw(st.integers(1, 60)) * 997,
            replicas=draw(st.integers(1, 3)),
            min=1,
            gpus=draw(st.integers(1, 8)),
            preemptible=draw(st.booleans()),
            priority=draw(st.integers(0, 1)),
        )
    if draw(st.booleans()):
        story.standing("old", "n1", [0], runs=9 * HOUR)
    return story.scenario()


@pytest.mark.parametrize("order", [*GANG_ORDERS, "per-pod"])
@given(scenario=days())
@settings(max_examples=6, deadline=None, phases=UNSHRUNK)
def test_passing_over_steps_changes_nothing(order: str, scenario: Scenario) -> None:
    policy = f"{order}+best-fit"
    passed = simulate(scenario, policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Looks, "next_ms", every_step_ms)
        looked = simulate(scenario, policy)

    assert passed.log == looked.log
    assert passed.jobs == looked.jobs
    own = {"events": 0, "run_s": 0}
    rows = [simulate_row(SimulationRow("", run.summary)) | own for run in (passed, looked)]
    assert rows[0] == rows[1]
    assert passed.summary.events <= looked.summary.events


def test_a_service_for_centuries_is_looked_at_only_when_it_changes():
    story = Story().node("n1", gpus=4)
    story.job("web", runs=4 * 365 * 24 * HOUR, replicas=2, min=2, kind="inference", gpus=1,
              peak=0, step=60)  # fmt: skip
    story.job("clock", runs=4 * 365 * 24 * HOUR, gpus=1)

    told = story.under("fifo-skip")

    assert told.summary.finished == 2
    assert told.summary.events == 4


def test_each_service_looks_at_its_own_steps():
    story = Story().node("n1", gpus=11).job("clock", runs=30 * HOUR, gpus=1)
    story.job("slow", replicas=4, min=2, peak=14 * HOUR, step=6 * HOUR, kind="inference", gpus=1)
    # Two that never change, and look often.
    for n in range(2):
        story.job(f"quick-{n}", peak=14 * HOUR, step=60, kind="inference", gpus=1)

    told = story.under("fifo-skip")

    times = {*told.times_s("grow", "slow"), *told.times_s("shrink", "slow")}
    assert times <= {6 * HOUR * n for n in range(6)}
