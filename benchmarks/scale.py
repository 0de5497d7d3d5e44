"""Growth: how far from proved a plan is, after how long and in how much memory, size by size."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.registry import Benchmark, Row

SEED = 1
AGAIN = "again"
COLD_S = 8.0
MIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is promised of an instance, as a whole process.

    Parameters
    ----------
    gap, seconds
        Largest gap of the admission tier, and the time for it.
    all_gap, all_seconds
        The same for every default tier; None where nothing is promised.
    memory_mib
        Most memory.
    reserve_s
        What is left for check, metrics and reasons once the search is over.
    rivals
        Baselines that run beside it; ``direct`` is the model of named nodes in the same time.
    """

    instance: str
    gap: float
    seconds: float
    all_gap: float | None = None
    all_seconds: float | None = None
    memory_mib: int
    reserve_s: float = 1.0
    rivals: tuple[str, ...] = ()


EVERY = (
    *("first-fit", "best-fit", "worst-fit", "dominant-fit", "dot-product", "gpu-packing"),
    *("gpu-clustering", "fgd", "random", "topology-aware", "drf"),
)
GOALS = {
    "S": (Goal(instance="S", gap=0, seconds=2, all_gap=0, all_seconds=5,
               memory_mib=MIB, reserve_s=0.4, rivals=("direct", *EVERY)),),
    "M": (Goal(instance="M", gap=0, seconds=2, all_gap=0, all_seconds=5,
               memory_mib=MIB, reserve_s=0.4, rivals=("direct", *EVERY)),),
    "L": (
        Goal(instance="L", gap=0.001, seconds=10, all_gap=0.005, all_seconds=30,
             memory_mib=2 * MIB, reserve_s=1.5, rivals=("direct", *EVERY)),
        Goal(instance="L-racks", gap=0.005, seconds=30, all_gap=0.01, all_seconds=60,
             memory_mib=3 * MIB, reserve_s=2, rivals=("direct", "best-fit", "topology-aware")),
        Goal(instance="L-different", gap=0.01, seconds=120, all_gap=0.01, all_seconds=120,
             memory_mib=3 * MIB, reserve_s=3, rivals=("best-fit",)),
    ),
    "XL": (Goal(instance="XL", gap=0.005, seconds=90, all_gap=0.01, all_seconds=180,
                memory_mib=8 * MIB, reserve_s=12, rivals=("first-fit",)),),
    "XXL": (Goal(instance="XXL", gap=0.01, seconds=300, memory_mib=16 * MIB, reserve_s=90),),
}  # fmt: skip


def run_scale(size: str | None) -> Iterator[Row]:
    """All instances, or those of one size."""
    for name, goals in GOALS.items():
        if size in (None, name):
            for goal in goals:
                yield from _measure(goal)
    if size in (None, AGAIN):
        yield from _again()


def _again() -> Iterator[Row]:
    """Ten jobs leave and ten come: the last plan, a fraction of the time, the same gap."""
    from dataclasses import replace

    from benchmarks.gaps import admission_gap
    from benchmarks.instances import SIZES, half_occupied
    from solver.api import solve
    from solver.carry_over import carried_over
    from solver.options import SolveOptions

    problem = half_occupied(SIZES["L"], SEED)
    newcomers = tuple(
        replace(job, name=f"new-{job.name}")
        for job in half_occupied(SIZES["L"], SEED + 1).jobs[:10]
    )
    before = solve(problem, SolveOptions(time_limit_s=COLD_S))
    later = replace(problem, jobs=(*problem.jobs[10:], *newcomers))
    cold_s = time.monotonic()
    cold = solve(later, SolveOptions(time_limit_s=COLD_S))
    cold_s = time.monotonic() - cold_s
    warm_s = time.monotonic()
    start = carried_over(later, before.plan)
    warm = solve(later, SolveOptions(time_limit_s=COLD_S / 4), start=start)
    warm_s = time.monotonic() - warm_s
    cold_gap, warm_gap = (
        100 * admission_gap(later, found.objectives, found.metrics.admitted_gpus)
        for found in (cold, warm)
    )
    instance = f"L, seed {SEED}, ten go, ten come"
    kept = f"{len(start.by_job):,} of {len(before.plan.by_job):,} jobs stand"
    yield Row(instance=instance, measure="cold: solve", value=cold_s, unit="s")
    yield Row(instance=instance, measure="cold: admission gap", value=cold_gap, unit="%")
    yield Row(instance=instance, measure="from the last plan: solve", value=warm_s, unit="s",
              limit=cold_s / 2, note=kept)  # fmt: skip
    yield Row(instance=instance, measure="from the last plan: admission gap", value=warm_gap,
              unit="%")  # fmt: skip


def _measure(goal: Goal) -> Iterator[Row]:
    instance = f"{goal.instance}, seed {SEED}"
    found, took_s = solved(goal.instance, goal.seconds, goal.reserve_s, "--admission-only")
    yield from _admission(instance, goal, found, took_s)
    if goal.all_gap is not None and goal.all_seconds is not None:
        found, took_s = solved(goal.instance, goal.all_seconds, goal.reserve_s)
        gaps = {"admission": found["admission_gap"], **found["cost_gaps"]}
        widest = max(gaps, key=lambda name: gaps[name])
        open_terms = [
            f"{name}{'' if level is None else f' {level}'} {step} {value:g} of {bound:g}"
            for name, level, step, value, bound in found["terms"]
            if value != bound
        ]
        yield Row(instance=instance, measure="all tiers: whole process", value=took_s, unit="s",
                  limit=goal.all_seconds, note=f"peak {found['peak_mib']:.0f} MiB")  # fmt: skip
        note = f"{widest}; open: {', '.join(open_terms)}" if gaps[widest] else ""
        yield Row(instance=instance, measure="all tiers: widest gap", value=100 * gaps[widest],
                  unit="%", limit=100 * goal.all_gap, note=note)  # fmt: skip
        for name, gap in gaps.items():
            yield Row(instance=instance, measure=f"gap of {name}", value=100 * gap, unit="%")
    for rival in goal.rivals:
        yield from _rival(instance, goal, rival, found)


def _admission(instance: str, goal: Goal, found: dict[str, Any], took_s: float) -> Iterator[Row]:
    note = f"{found['model']} model, {found['admitted_gpus']:,.0f} GPUs admitted"
    yield Row(instance=instance, measure="admission: gap", value=100 * found["admission_gap"],
              unit="%", limit=100 * goal.gap, note=note)  # fmt: skip
    yield Row(instance=instance, measure="admission: whole process", value=took_s, unit="s",
              limit=goal.seconds)  # fmt: skip
    yield Row(instance=instance, measure="admission: peak memory", value=found["peak_mib"],
              unit="MiB", limit=goal.memory_mib)  # fmt: skip
    if found["first_plan_s"] is not None:
        limit = 2.0 if goal.instance in ("L", "L-racks", "L-different") else None
        yield Row(instance=instance, measure="first checked plan", value=found["first_plan_s"],
                  unit="s", limit=limit)  # fmt: skip
    for phase, value in found["timing"].items():
        yield Row(instance=instance, measure=f"admission: {phase}", value=value, unit="s")


def _rival(instance: str, goal: Goal, rival: str, ours: dict[str, Any]) -> Iterator[Row]:
    """Another way on the same instance; its admission against our bounds."""
    seconds = goal.all_seconds or goal.seconds
    how = ("--model", "direct") if rival == "direct" else ("--policy", rival)
    found, took_s = solved(goal.instance, seconds, goal.reserve_s, *how)
    bounds = {(n, level, s): b for n, level, s, _, b in ours["terms"]}
    values = {(n, level, s): v for n, level, s, v, _ in ours["terms"]}
    theirs = [((n, level, s), v) for n, level, s, v, _ in found["terms"]]
    # Only up to the first step in which the plans differ do our bounds speak of the other one.
    short = 0.0
    for key, value in theirs:
        if key[2] == "started":
            short = (bounds[key] - value) / 1000
            if value != values[key]:
                break
    yield Row(instance=instance, measure=f"{rival}: GPUs short where it first differs",
              value=short, unit="GPUs",
              note=f"{took_s:.1f} s; {found['admitted_gpus']:,.0f} GPUs admitted in all, "
                   f"ours {ours['admitted_gpus']:,.0f}")  # fmt: skip


def solved(size: str, seconds: float, reserve_s: float, *how: str) -> tuple[dict[str, Any], float]:
    """The figures of one solve in a process of its own, and how long the process took."""
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.worker", "--size", size, "--seed", str(SEED)),
            *("--seconds", str(seconds), "--reserve", str(reserve_s), *how),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout), time.monotonic() - began


SCALE = Benchmark(
    name="scale",
    text="generated clusters of 16 to 125,000 nodes: gap, time and memory of whole processes",
    sizes=(*GOALS, AGAIN),
    run=run_scale,
)
