"""Preemption in numbers: how near the least cost, how soon, on full clusters."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contention import contended
from benchmarks.registry import Benchmark, Row
from solver.options import SolveOptions
from solver.result import SolveResult

SIZES = {"128": (128, 150, 30, 10.0), "1250": (1250, 1500, 300, 60.0)}
"""Nodes, running gangs, pending gangs, and seconds in which the plan has to be there."""

SEEDS = (1, 2, 3)
WITHIN = 0.01
"""Gap of the cost of the plan to the least cost proved."""


def run_preempt(size: str | None) -> Iterator[Row]:
    """All sizes, or one."""
    for name in SIZES:
        if size in (None, name):
            for seed in SEEDS:
                yield from _measured(name, seed)


def _measured(name: str, seed: int) -> Iterator[Row]:
    from solver.api import solve

    nodes, running, pending, limit_s = SIZES[name]
    problem = contended(nodes, running, pending, seed)
    result = solve(problem, SolveOptions(time_limit_s=limit_s, seed=seed, gap=WITHIN))
    instance = f"{nodes} nodes, seed {seed}"
    evicted = len(result.evictions)
    held = sum(len(replica.gpus) for job in problem.running for replica in job.replicas)
    yield Row(
        instance=instance,
        measure="whole solve",
        value=result.timing.total_s,
        unit="s",
        note=f"{len(problem.running)} running gangs on {held} GPUs, {pending} pending; "
        f"{result.metrics.admitted_jobs} start, {evicted} jobs stop, {len(result.moves)} moves, "
        f"{result.metrics.preemption_cost_gpu_s:,} GPU-s",
    )
    yield Row(
        instance=instance,
        measure=f"widest gap before cost, {limit_s:g} s",
        value=max(_gaps(result, ("guarantee", "priority", "fairness")), default=0.0),
        unit="ratio",
        limit=WITHIN,
        note=_open(result),
    )
    yield Row(
        instance=instance,
        measure=f"gap of the cost, {limit_s:g} s",
        value=next((t.gap_ratio for t in result.objectives if t.step == "cost"), 0.0),
        unit="ratio",
        limit=WITHIN,
    )


def _gaps(result: SolveResult, tiers: tuple[str, ...]) -> list[float]:
    return [t.gap_ratio for t in result.objectives if t.name in tiers and t.step != "oldest"]


def _open(result: SolveResult) -> str:
    names = [
        f"{t.name}{'' if t.level is None else f'[{t.level}]'}/{t.step} {t.gap_ratio:.2%}"
        for t in result.objectives
        if t.value != t.bound
    ]
    return f"open: {', '.join(names[:5])}" if names else "all proved"


PREEMPT = Benchmark(
    name="preempt",
    text="full clusters: who gives way, at what cost, and how near the least",
    sizes=tuple(SIZES),
    run=run_preempt,
)
