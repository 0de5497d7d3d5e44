"""Queue orders: the place of a unit in the waiting line."""

from __future__ import annotations

from collections.abc import Callable

from simulator.scenario import Arrival, Scenario
from simulator.state import Unit
from simulator.waiting import Key

OrderKey = Callable[[Unit], Key]


def claim_of(scenario: Scenario) -> Callable[[Arrival], int]:
    """What comes first where services run beside training; lower is earlier.

    Training that may not be stopped, then the minimums of services, then training that may be
    stopped; the surplus of services comes after all of them. Without services all are equal.
    """
    services = any(arrival.job.kind == "inference" for arrival in scenario.everyone)

    def claim(arrival: Arrival) -> int:
        if not services:
            return 0
        if arrival.job.kind == "inference":
            return 1
        return 2 if arrival.preemptible else 0

    return claim


def first_come(scenario: Scenario) -> OrderKey:
    """First come, first served."""
    claim = claim_of(scenario)
    return lambda unit: (claim(unit.life.arrival), unit.life.order)


def shortest_first(scenario: Scenario) -> OrderKey:
    """The shortest run time first, then first come; what does not end comes last."""
    claim = claim_of(scenario)

    def key(unit: Unit) -> Key:
        duration_ms = unit.life.arrival.duration_ms
        return (
            claim(unit.life.arrival),
            float("inf") if duration_ms is None else duration_ms,
            unit.life.order,
        )

    return key


def highest_priority(scenario: Scenario) -> OrderKey:
    """The highest priority first, then first come."""
    claim = claim_of(scenario)
    return lambda unit: (-unit.life.arrival.job.priority, claim(unit.life.arrival), unit.life.order)
