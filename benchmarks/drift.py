"""Pods with lives of their own on the openb nodes, and a workload that changes on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from statistics import mean

import numpy as np

from benchmarks.openb import CAPACITY_MILLI, OPENB
from benchmarks.registry import Row
from simulator.policies import SimulationOptions
from simulator.run import simulate
from simulator.scenario import Arrival, Scenario
from simulator.sources import TraceSource
from solver.cluster import GPU_MILLI

STEADY_LOAD = 0.95

FIRST_S = 4_000
"""Seconds for which the first list comes; one pod comes every second."""

SECOND_PODS = 12_000
SETTLED_S = 2_000
"""Seconds after the change that are not looked at: what came before it still runs."""

WINDOW_MS = 3_000_000
SEEDS = (42, 43)
LISTS = (("default", "multigpu50"), ("gpushare100", "default"))
OLD, NEW, FRESH = "prices of the first list", "prices of the second", "made anew by a window"


def mean_life_s(scenario: Scenario) -> float:
    """Seconds that a pod has to live on average, one a second, for the load to be steady."""
    n_gpus = sum(node.n_gpus for node in scenario.nodes)
    asked = [a.job.roles[0].shape for a in scenario.arrivals]
    return STEADY_LOAD * n_gpus / mean(s.gpus + s.share_milli / GPU_MILLI for s in asked)


def living(
    pods: Sequence[tuple[Arrival, float]], first: int, random: Random
) -> tuple[Arrival, ...]:
    """Pods with exponential lives of these means, one a second; the first ones are there at 0."""
    return tuple(
        replace(
            a,
            job=replace(a.job, name=f"{n}-{a.job.name}"),
            arrival_ms=1000 * max(0, n - first),
            duration_ms=max(1, round(1000 * random.expovariate(1 / life_s))),
        )
        for n, (a, life_s) in enumerate(pods)
    )


def drifting(first: str, second: str, seed: int) -> tuple[Scenario, Scenario]:
    """Pods of one list and then of another, and the other list as it is."""
    base = TraceSource("openb", str(OPENB), first).scenario(seed)
    other = TraceSource("openb", str(OPENB), second).scenario(seed)
    there = round(mean_life_s(base))
    pods = [
        (list_.arrivals[n % len(list_.arrivals)], mean_life_s(list_))
        for list_, many in ((base, there + FIRST_S), (other, SECOND_PODS))
        for n in range(many)
    ]
    arrivals = living(pods, there, Random(seed))
    return replace(base, name="openb, drifting", arrivals=arrivals, demand=base.offered), other


def _after(first: str, second: str, seed: int, policy: str, prices: str) -> tuple[float, int]:
    """Mean allocated percent once the second list has settled, and its pods that were dropped."""
    scenario, other = drifting(first, second, seed)
    if prices == NEW:
        scenario = replace(scenario, demand=other.offered, target=other.target)
    window_ms = WINDOW_MS if prices == FRESH else None
    outcome = simulate(scenario, policy, seed, options=SimulationOptions(price_window_ms=window_ms))
    times = np.minimum(np.array(outcome.series.time_ms), scenario.arrivals[-1].arrival_ms)
    held, spans = np.array(outcome.series.held_milli[:-1]), np.diff(times)
    late = times[:-1] >= 1000 * (FIRST_S + SETTLED_S)
    allocated = float((held * spans)[late].sum() / spans[late].sum())
    dropped = sum(job.start_ms is None and job.arrival_ms >= 1000 * FIRST_S for job in outcome.jobs)
    return 100 * allocated / CAPACITY_MILLI, dropped


def drift_rows() -> Iterator[Row]:
    """What prices are worth after the workload has changed: old, made anew, and of the new one."""
    for first, second in LISTS:
        for policy, prices in (
            ("fgd", OLD), ("bid-price", OLD), ("bid-price", FRESH), ("bid-price", NEW)
        ):  # fmt: skip
            found = [_after(first, second, seed, policy, prices) for seed in SEEDS]
            yield Row(
                instance=f"{first}, then {second}; {policy}",
                measure="allocated",
                value=mean(allocated for allocated, _ in found),
                unit="%",
                note=f"{prices}; pods dropped by seed: "
                + ", ".join(str(dropped) for _, dropped in found),
            )
