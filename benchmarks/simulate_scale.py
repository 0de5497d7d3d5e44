"""``run simulate-scale``: time and memory of long simulations, and Ray against one process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from math import log
from pathlib import Path

from benchmarks.registry import Benchmark, Row
from simulator.outcome import Summary

ROOT = Path(__file__).resolve().parents[1]
NODES = 1250
POLICY = "fifo-skip+best-fit"
LARGEST = 100_000
SIZES = (10_000, 30_000, LARGEST)
QUEUED = "load=1.2,sigma=1"
"""More than the cluster can do, in jobs of more equal length: a queue stands most of the time, and
every end of a job is looked at by many that wait. No figure is named for it; it is printed."""
GROWTH_SLACK = 1.15
"""n log n is judged by two runs, each with some noise."""

ONE_RUN = """
import json, resource, sys, time
from simulator.run import simulate
from simulator.traces.synthetic import synthetic

scenario = synthetic(sys.argv[1])
began = time.monotonic()
summary = simulate(scenario, sys.argv[2]).summary
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"run_s": time.monotonic() - began, "peak_mib": peak, "events": summary.events,
                  "wait_mean_s": summary.wait_mean_s, "utilization": summary.utilization_ratio}))
"""


def run(size: str | None) -> Iterator[Row]:
    """Measure one size, or all."""
    if size in (None, "jobs"):
        yield from _jobs()
    if size in (None, "ray"):
        yield from _ray()


def _jobs() -> Iterator[Row]:
    times: dict[int, float] = {}
    recipes = [(jobs, f"jobs={jobs},nodes={NODES},load=0.95") for jobs in SIZES]
    recipes.append((LARGEST, f"jobs={LARGEST},nodes={NODES},{QUEUED}"))
    for jobs, recipe in recipes:
        command = [sys.executable, "-c", ONE_RUN, recipe, POLICY]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        queued = recipe.endswith(QUEUED)
        if not queued:
            times[jobs] = told["run_s"]
        largest = jobs == LARGEST and not queued
        instance = f"{jobs:,} jobs" + (", queue" if queued else "")
        note = f"{told['events']:,} events, {told['events'] / told['run_s']:,.0f} a second, "
        note += f"{100 * told['utilization']:.1f} % in use, mean wait {told['wait_mean_s']:.0f} s"
        yield Row(
            instance=instance,
            measure=f"{POLICY}, {NODES:,} nodes",
            value=told["run_s"],
            unit="s",
            limit=60 if largest else None,
            note=note,
        )
        yield Row(
            instance=instance,
            measure="peak memory",
            value=told["peak_mib"],
            unit="MiB",
            limit=2048 if largest else None,
        )
    small, large = SIZES[0], SIZES[-1]
    n_log_n = (large * log(large)) / (small * log(small))
    yield Row(
        instance=f"{small:,} to {large:,}",
        measure="growth of time over n log n",
        value=times[large] / times[small] / n_log_n,
        unit="times",
        limit=GROWTH_SLACK,
        note=f"{times[small]:.2f} s to {times[large]:.2f} s; n log n grows {n_log_n:.1f} times",
    )


def _ray() -> Iterator[Row]:
    from simulator.policies import SimulationOptions
    from simulator.sources import TraceSource
    from simulator.sweep import Cell, Sweep, run_here
    from simulator.sweep_ray import run_ray

    instance, measure = "48 runs of 4,000 jobs", "2 Ray workers against 1 process"
    if find_spec("ray") is None:
        yield Row(instance=instance, measure=measure, value=None, unit="", note="no Ray")
        return
    cells = tuple(
        Cell(TraceSource("synthetic", "jobs=4000,nodes=64,load=0.9"), policy, seed)
        for policy in ("fifo-skip+best-fit", "fifo-strict+fgd", "easy+first-fit")
        for seed in range(1, 17)
    )
    sweep = Sweep(cells=cells, options=SimulationOptions())
    began = time.monotonic()
    here = {result.cell: result.summary for result in run_here(sweep)}
    alone_s = time.monotonic() - began
    began = time.monotonic()
    there = {}
    first_s = None
    for result in run_ray(sweep, None, 2):
        first_s = first_s or time.monotonic() - began
        there[result.cell] = result.summary
    ray_s = time.monotonic() - began
    same = all(_without_time(here[c]) == _without_time(there[c]) for c in cells)
    yield Row(
        instance=instance,
        measure=measure,
        value=ray_s / alone_s,
        unit="of its time",
        limit=1 / 1.6,
        note=f"{alone_s / ray_s:.2f} times as fast (at least 1.6 is asked): {alone_s:.1f} s and "
        f"{ray_s:.1f} s with the start of Ray, "
        f"the first run after {first_s:.1f} s; rows {'the same' if same else 'DIFFER'}",
    )


def _without_time(summary: Summary) -> Summary:
    return replace(summary, run_s=0.0)


SIMULATE_SCALE = Benchmark(
    name="simulate-scale",
    text="100,000 jobs on 1,250 nodes; growth from 10,000; Ray against one process",
    sizes=("jobs", "ray"),
    run=run,
)
