"""Queue orders: the place of a unit in the waiting line."""

from __future__ import annotations

from collections.abc import Callable

from simulator.scenario import Scenario
from simulator.state import Unit
from simulator.waiting import Key

OrderKey = Callable[[Unit], Key]


def claim(unit: Unit) -> int:
    """Where services run beside training: who may not be stopped, then their floors, then the rest.

    Non-preemptible training comes first, then the minimums of services, then preemptible training;
    the surplus of services comes after all of them.
    """
    arrival = unit.life.arrival
    if arrival.job.kind == "inference":
        return 1
    return 2 if arrival.preemptible else 0


def claims(scenario: Scenario) -> OrderKey:
    """The claim of a unit, where there is any service; otherwise all have the same."""
    services = any(arrival.job.kind == "inference" for arrival in scenario.everyone)
    return lambda unit: (claim(unit) if services else 0,)


def first_come(scenario: Scenario) -> OrderKey:
    """First come, first served."""
    first = claims(scenario)
    return lambda unit: (*first(unit), unit.life.order)


def shortest_first(scenario: Scenario) -> OrderKey:
    """The shortest run time first, then first come; what does not end comes last."""
    first = claims(scenario)

    def key(unit: Unit) -> Key:
        duration_ms = unit.life.arrival.duration_ms
        return (*first(unit), float("inf") if duration_ms is None else duration_ms, unit.life.order)

    return key


def highest_priority(scenario: Scenario) -> OrderKey:
    """The highest priority first, then first come."""
    first = claims(scenario)
    return lambda unit: (-unit.life.arrival.job.priority, *first(unit), unit.life.order)
