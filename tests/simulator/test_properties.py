"""What holds for every scenario, order and placement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.audit import Audit
from simulator.lives import State
from simulator.policies import ORDERS, SimulationOptions
from simulator.run import simulate
from simulator.scenario import Scenario
from solver.greedy import PLACEMENTS
from tests.simulator.strategies import scenarios

DRAWN = st.sampled_from(sorted(PLACEMENTS))


@pytest.mark.parametrize("order", sorted(ORDERS))
@given(scenario=scenarios(endless=True), placement=DRAWN, penalty=st.sampled_from([0.0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_every_decision_is_valid_and_nothing_is_lost(
    order: str, scenario: Scenario, placement: str, penalty: float
) -> None:
    audit = Audit(gangs=order != "per-pod")

    outcome = simulate(
        scenario,
        f"{order}+{placement}",
        options=SimulationOptions(penalty=penalty, deadlock_timeout_ms=7),
        observers=[audit],
    )

    assert len(outcome.jobs) == len(scenario.arrivals)
    for job in outcome.jobs:
        assert job.state is not State.WAITING
        assert (job.state is State.UNSCHEDULABLE) == (bool(job.reason) and job.end_ms is not None)
        if job.state is State.FINISHED:
            assert job.start_ms is not None
            assert job.end_ms is not None
            assert job.arrival_ms <= job.start_ms <= job.end_ms


@pytest.mark.parametrize("order", sorted(ORDERS))
@given(scenario=scenarios(endless=True), placement=DRAWN)
@settings(max_examples=10, deadline=None)
def test_the_same_run_again_is_the_same(order: str, scenario: Scenario, placement: str) -> None:
    first = simulate(scenario, f"{order}+{placement}", seed=3)

    again = simulate(scenario, f"{order}+{placement}", seed=3)

    assert again.jobs == first.jobs
    assert again.log == first.log
    assert again.series.stranded_milli == first.series.stranded_milli
