"""What holds for every scenario, order and placement."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from simulator.audit import Audit
from simulator.engine import Engine
from simulator.lives import State
from simulator.outcome import Outcome
from simulator.policies import ORDERS, SimulationOptions, parse_simulation_policy
from simulator.run import simulate
from simulator.scenario import Scenario
from simulator.schedulers.conservative import ConservativeScheduler
from simulator.schedulers.easy import EasyScheduler
from simulator.schedulers.rolling import Rolling
from simulator.state import Cluster
from solver.greedy import PLACEMENTS
from solver.options import SolveOptions
from tests.simulator.strategies import crowded, scenarios

DRAWN = st.sampled_from(sorted(PLACEMENTS))


@pytest.mark.parametrize("order", sorted(ORDERS))
@given(
    scenario=st.one_of(scenarios(endless=True), crowded()),
    placement=DRAWN,
    penalty=st.sampled_from([0.0, 0.5]),
)
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

    everyone_is_accounted_for(scenario, outcome)


QUICK = Rolling(options=SolveOptions(time_limit_s=10, deterministic_limit=0.05, workers=1))
"""Rounds that leave more to the greedy placement than they usually do."""

SOLVED = (Phase.explicit, Phase.reuse, Phase.generate)
"""No shrinking: each smaller example would be many solves."""


@pytest.mark.parametrize("order", sorted(ORDERS))
@given(scenario=st.one_of(scenarios(endless=True), crowded()), every_ms=st.sampled_from([0, 0, 7]))
@settings(max_examples=4, deadline=None, phases=SOLVED)
def test_the_solver_decides_nothing_wrong_in_any_order(
    order: str, scenario: Scenario, every_ms: int
) -> None:
    options = SimulationOptions(deadlock_timeout_ms=7, rolling=replace(QUICK, every_ms=every_ms))
    audit = Audit(gangs=order != "per-pod")

    outcome = simulate(scenario, f"{order}+cp-sat", options=options, observers=[audit])

    everyone_is_accounted_for(scenario, outcome)


def everyone_is_accounted_for(scenario: Scenario, outcome: Outcome) -> None:
    """Every job is there once, and what became of it has times or a reason."""
    assert len(outcome.jobs) == len(scenario.arrivals)
    for job in outcome.jobs:
        assert (job.state is State.UNSCHEDULABLE) == (bool(job.reason) and job.end_ms is not None)
        if job.state is State.WAITING:
            assert job.reason
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


class Promises:
    """An observer that remembers every reservation, and who has one when it starts."""

    def __init__(self, scheduler_of: list[object]) -> None:
        self._scheduler_of = scheduler_of
        self.promised_ms: dict[str, int] = {}

    def begin(self, cluster: Cluster) -> None:
        pass

    def before(self, cluster: Cluster) -> None:
        pass

    def after(self, cluster: Cluster, touched: set[int]) -> None:
        (scheduler,) = self._scheduler_of
        if isinstance(scheduler, EasyScheduler):
            known = [r for r in scheduler.reserved.values() if r is not None]
            made = [(r.unit.life.name, r.at_ms) for r in known]
        else:
            assert isinstance(scheduler, ConservativeScheduler)
            made = [(name, planned.start_ms) for name, planned in scheduler.planned.items()]
        for name, at_ms in made:
            self.promised_ms[name] = min(at_ms, self.promised_ms.get(name, at_ms))


@pytest.mark.parametrize("order", ["easy", "conservative"])
@given(scenario=crowded(), placement=DRAWN, penalty=st.sampled_from([0.0, 0.5]))
@settings(max_examples=200, deadline=None)
def test_backfill_never_delays_who_has_a_reservation(
    order: str, scenario: Scenario, placement: str, penalty: float
) -> None:
    policy = parse_simulation_policy(f"{order}+{placement}")
    options = SimulationOptions(penalty=penalty)
    cluster = policy.cluster(scenario, 1, options)
    scheduler = policy.scheduler(cluster, options)
    promises = Promises([scheduler])
    engine = Engine(cluster, scheduler, [promises, Audit()])

    while engine.step():
        pass

    for name, at_ms in promises.promised_ms.items():
        start_ms = cluster.by_name[name].first_start_ms
        assert start_ms is not None
        assert start_ms <= at_ms
