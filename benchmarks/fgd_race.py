"""``run fgd-race``: bid prices against the published policies on the openb experiment.

Published orders of pods and nodes, arrivals only. Every run is replayed by `solver.verify` and by
books of the benchmark's own: no rule broken, and no pod turned away that fitted. Sizes: ``short``
(default, seed 42), ``tuned`` (the workloads and seeds that parameters were chosen on), ``full``
(every workload and seed), ``cheap`` (few futures, default), ``lives`` (departures at a steady
load), ``wrong`` (prices of another workload), ``drift`` (a workload that changes).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from statistics import mean
from time import perf_counter

import numpy as np

from benchmarks.drift import STEADY_LOAD, drift_rows, living, mean_life_s
from benchmarks.openb import CAPACITY_MILLI, OPENB, WORKERS, _curves, workloads
from benchmarks.registry import Benchmark, Row
from simulator.levels import levels
from simulator.policies import placement_of
from simulator.run import simulate
from simulator.scenario import Scenario
from simulator.sources import TraceSource
from simulator.state import Cluster
from simulator.traces.openb import read_openb
from solver.cluster import GPU_MILLI
from solver.solution import Placement, Plan
from solver.verify import verify

LEVEL = 100
TUNED = ("default", "gpushare60", "cpu250")
TUNED_SEEDS = (42, 43, 44)
TARGET_PCT = 96.0
CHEAP_TARGET_PCT = 95.8

CEILING: Mapping[str, float] = {
    "default": 96.34, "cpu050": 96.33, "cpu100": 96.33, "cpu250": 96.33,
    "gpushare40": 94.91, "gpushare60": 92.47, "gpushare100": 88.28,
    "gpuspec10": 96.34, "gpuspec20": 96.34, "gpuspec33": 96.34,
    "multigpu20": 96.83, "multigpu30": 97.23, "multigpu50": 97.99,
}  # fmt: skip
"""Estimate of what a policy that never refuses can reach; models are ignored in it."""

STEADY_SEEDS = range(42, 47)


@dataclass(frozen=True, slots=True)
class Race:
    """What one run came to."""

    allocated_pct: float
    faults: int
    refused_though_it_fitted: int
    setup_s: float
    decision_ms: float


class Seats:
    """Watches a run, and knows in the end who sits where."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None

    def begin(self, cluster: Cluster) -> None:
        """Remember the cluster."""
        self.cluster = cluster

    def before(self, cluster: Cluster) -> None:
        """Nothing to see."""

    def after(self, cluster: Cluster, touched: set[int]) -> None:
        """Nothing to see."""

    def placements(self, name: str) -> Sequence[Placement]:
        """Seats of a job that runs; none where it does not."""
        assert self.cluster is not None
        running = name in self.cluster.by_name
        return self.cluster.draft.placements(name) if running else ()


def race(workload: str, policy: str, seed: int) -> Race:
    """One run, checked."""
    scenario = TraceSource("openb", str(OPENB), workload).scenario(seed)
    began = perf_counter()
    placement_of(scenario, policy, seed)
    setup_s = perf_counter() - began
    seats = Seats()
    outcome = simulate(scenario, policy, seed, observers=[seats])
    curve = levels(outcome, CAPACITY_MILLI, [LEVEL])
    faults, refused = replay(scenario, seats)
    run_ms = 1000 * outcome.summary.run_s / len(scenario.arrivals)
    return Race(curve[LEVEL].allocated_pct, faults, refused, setup_s, run_ms)


def replay(scenario: Scenario, seats: Seats) -> tuple[int, int]:
    """Faults that `verify` finds in all seats together, and pods refused though they fitted.

    Nothing ever leaves, so what keeps the rules in the end has kept them all the time.
    """
    placements = [p for a in scenario.arrivals for p in seats.placements(a.job.name)]
    started = {p.job for p in placements}
    jobs = tuple(a.job for a in scenario.arrivals if a.job.name in started)
    problem = replace(scenario.problem, jobs=jobs, objectives=("priority",))
    faults = len(verify(problem, Plan.of(placements)))
    number = {node.name: n for n, node in enumerate(scenario.nodes)}
    cpu = np.array([node.cpu_milli or 0 for node in scenario.nodes])
    memory = np.array([node.memory_mib or 0 for node in scenario.nodes])
    most = max(node.n_gpus for node in scenario.nodes)
    gpu = np.array(
        [[GPU_MILLI] * node.n_gpus + [0] * (most - node.n_gpus) for node in scenario.nodes]
    )
    model = np.array([(*node.topology.gpu_models, "")[0] for node in scenario.nodes])
    refused = 0
    for arrival in scenario.arrivals:
        shape = arrival.job.roles[0].shape
        found = seats.placements(arrival.job.name)
        for p in found:
            n = number[p.node]
            cpu[n] -= shape.cpu_milli
            memory[n] -= shape.memory_mib
            gpu[n, list(p.gpus)] -= shape.share_milli or GPU_MILLI
        if not found:
            room = (cpu >= shape.cpu_milli) & (memory >= shape.memory_mib)
            if shape.wants_gpu:
                devices = (gpu >= (shape.share_milli or GPU_MILLI)).sum(axis=1)
                room &= devices >= max(1, shape.gpus)
            if shape.gpu_models:
                room &= np.isin(model, shape.gpu_models)
            refused += bool(room.any())
    return faults, refused


def run(size: str | None) -> Iterator[Row]:
    """Measure one size, or all."""
    if not OPENB.is_dir():
        yield Row(instance="openb", measure="everything", value=None, unit="", note="no trace")
        return
    if size in (None, "short"):
        yield from _against({"default": (42,)}, "bid-price", None)
    if size == "tuned":
        yield from _against(dict.fromkeys(TUNED, TUNED_SEEDS), "bid-price", None)
    if size in (None, "full"):
        every = {w: tuple(sorted(read_openb(OPENB, w).orders)) for w in workloads()}
        yield from _against(every, "bid-price", TARGET_PCT)
    if size in (None, "cheap"):
        yield from _against({"default": tuple(range(42, 52))}, "bid-price-cheap", CHEAP_TARGET_PCT)
    if size in (None, "lives"):
        yield from _lives()
    if size in (None, "wrong"):
        yield from _wrong()
    if size in (None, "drift"):
        yield from drift_rows()


def _against(runs: Mapping[str, Sequence[int]], policy: str, target: float | None) -> Iterator[Row]:
    published = _curves("published_alloc_pct.csv.gz")
    pairs = [(workload, policy, seed) for workload, seeds in runs.items() for seed in seeds]
    done: dict[tuple[str, str, int], Race] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        results = pool.map(race, *zip(*pairs, strict=True), chunksize=3)
        for key, result in zip(pairs, results, strict=True):
            done[key] = result
            workload, _, seed = key
            if seed == runs[workload][-1]:
                mine = {s: done[workload, policy, s] for s in runs[workload]}
                yield from _rows(workload, policy, mine, published, target)


def _rows(
    workload: str,
    policy: str,
    mine: Mapping[int, Race],
    published: Mapping[tuple[str, str, int], Mapping[int, float]],
    target: float | None,
) -> Iterator[Row]:
    fgd = {seed: published[workload, "FGD", seed][LEVEL] for seed in mine}
    ours, theirs = mean(r.allocated_pct for r in mine.values()), mean(fgd.values())
    instance = f"{workload} {policy}"
    ceiling = CEILING.get(workload, float("nan"))
    yield Row(
        instance=instance,
        measure="points below the ceiling",
        value=ceiling - ours,
        unit="points",
        limit=ceiling - target if target and workload == "default" else None,
        note=f"FGD {theirs:.2f}, ours {ours:.2f}, ceiling {ceiling:.2f}, "
        f"difference {ours - theirs:+.2f}; {len(mine)} seeds",
    )
    margins = {seed: r.allocated_pct - fgd[seed] for seed, r in mine.items()}
    yield Row(
        instance=instance,
        measure="seeds below FGD",
        value=sum(margin < 0 for margin in margins.values()),
        unit="seeds",
        limit=0,
        note=f"least margin {min(margins.values()):+.2f}",
    )
    yield Row(
        instance=instance,
        measure="faults, pods refused that fitted",
        value=sum(r.faults + r.refused_though_it_fitted for r in mine.values()),
        unit="",
        limit=0,
        note=f"{len(mine)} runs replayed",
    )
    yield Row(
        instance=instance,
        measure="set-up",
        value=max(r.setup_s for r in mine.values()),
        unit="s",
        limit=10.0 if policy.endswith("cheap") else 60.0,
    )
    yield Row(
        instance=instance,
        measure="a decision, mean",
        value=mean(r.decision_ms for r in mine.values()),
        unit="ms",
        limit=0.3,
        note="the whole run, with all else that the simulator does",
    )


def _steady(seed: int) -> Scenario:
    """Pods of the default list with lives of their own, so that 95 % are asked for all the time.

    One comes every second. Lives are exponential, and so is what is left of them at any time: those
    that are there at time 0 are as many as a life lasts seconds, with such lives too.
    """
    base = TraceSource("openb", str(OPENB), "default").scenario(seed)
    life_s = mean_life_s(base)
    first = round(life_s)
    pods = (base.arrivals * (2 + first // len(base.arrivals)))[: first + len(base.arrivals)]
    arrivals = living([(pod, life_s) for pod in pods], first, Random(seed))
    return replace(base, name="openb default, steady", arrivals=arrivals, demand=base.offered)


def _life(policy: str, seed: int) -> tuple[float, int]:
    """Mean allocated percent while pods come, and failed pods."""
    scenario = _steady(seed)
    outcome = simulate(scenario, policy, seed)
    last_ms = scenario.arrivals[-1].arrival_ms
    times = np.minimum(np.array(outcome.series.time_ms), last_ms)
    held = np.array(outcome.series.held_milli[:-1])
    held_milli_ms = float((held * np.diff(times)).sum())
    failed = outcome.summary.failed + outcome.summary.unschedulable
    return 100 * held_milli_ms / last_ms / CAPACITY_MILLI, failed


def _lives() -> Iterator[Row]:
    for policy in ("best-fit", "fgd", "bid-price"):
        results = [_life(policy, seed) for seed in STEADY_SEEDS]
        yield Row(
            instance=f"steady {STEADY_LOAD:.0%} {policy}",
            measure="allocated",
            value=mean(a for a, _ in results),
            unit="%",
            note="failed pods by seed: " + ", ".join(str(f) for _, f in results),
        )


def _wrong() -> Iterator[Row]:
    published = _curves("published_alloc_pct.csv.gz")
    for prices, arrivals in (("multigpu50", "default"), ("gpushare100", "default"),
                             ("default", "gpushare60"), ("default", "cpu250")):  # fmt: skip
        margins = []
        for seed in TUNED_SEEDS:
            scenario = TraceSource("openb", str(OPENB), arrivals).scenario(seed)
            other = TraceSource("openb", str(OPENB), prices).scenario(seed)
            scenario = replace(scenario, demand=other.offered, target=other.target)
            curve = levels(simulate(scenario, "bid-price", seed), CAPACITY_MILLI, [LEVEL])
            margins.append(curve[LEVEL].allocated_pct - published[arrivals, "FGD", seed][LEVEL])
        yield Row(
            instance=f"{arrivals}, prices of {prices}",
            measure="points below FGD",
            value=-mean(margins),
            unit="points",
            limit=0.0,
            note="FGD knows the right workload; by seed "
            + ", ".join(f"{margin:+.2f}" for margin in margins),
        )


FGD_RACE = Benchmark(
    name="fgd-race",
    text="bid prices against the published policies, every run replayed by the checker",
    sizes=("short", "tuned", "full", "cheap", "lives", "wrong", "drift"),
    run=run,
)
