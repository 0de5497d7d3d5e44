"""Defragmentation in numbers: what our plans cost beside those of two baselines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.defrag_baselines import as_question, consolidated, cost_gpu_s, one_by_one
from benchmarks.fragmented import fragmented
from benchmarks.registry import Benchmark, Row
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import Plan
from solver.verify import verify

SEEDS = {"100": 100, "300": 300, "1000": 1000}
TIME_S = 5.0
"""Longest search for one state."""

BASELINES = {"consolidation": consolidated, "one by one": one_by_one}


@dataclass
class _Count:
    """What was seen so far; costs are pairs (ours, the baseline's) where both have a plan."""

    blocked: int = 0
    solved: int = 0
    proved: int = 0
    excluded: int = 0
    slowest_s: float = 0.0
    missed: int = 0
    pairs: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {name: [] for name in BASELINES}
    )
    faults: int = 0


def run_defrag(size: str | None) -> Iterator[Row]:
    """One number of seeds; all of them unless said."""
    name = size or "1000"
    count = _Count()
    began = time.monotonic()
    for seed in range(SEEDS[name]):
        _look_at(fragmented(seed), count)
    total_s = time.monotonic() - began
    yield from _rows(f"{name} seeds, 16-64 nodes", count, total_s)


def _look_at(problem: Problem, count: _Count) -> None:
    from solver.defrag.answer import DefragmentationError
    from solver.defrag.api import defragment

    question = as_question(problem)
    plans: dict[str, Plan | None] = {name: make(problem) for name, make in BASELINES.items()}
    for plan in plans.values():
        if plan is not None:
            count.faults += bool(verify(question, plan))
    began = time.monotonic()
    try:
        answer = defragment(
            problem, target="blocked", options=SolveOptions(time_limit_s=TIME_S, workers=1)
        )
    except DefragmentationError:  # of a plan or a step
        count.faults += 1
        return
    count.slowest_s = max(count.slowest_s, time.monotonic() - began)
    count.excluded += answer.excluded
    if answer.best is None:
        count.missed += any(plan is not None for plan in plans.values())
        return
    ours = answer.best.schedule.cost_gpu_s
    count.solved += 1
    count.proved += answer.best.proved
    count.blocked += ours > 0
    for name, plan in plans.items():
        if plan is not None:
            count.pairs[name].append((ours, cost_gpu_s(problem, plan)))


def _rows(instance: str, count: _Count, total_s: float) -> Iterator[Row]:
    yield Row(
        instance=instance,
        measure="solved",
        value=count.solved,
        unit="states",
        note=f"{count.proved} at proved least cost, {count.blocked} of them not for free; "
        f"{count.excluded} proved impossible",
    )
    yield Row(
        instance=instance,
        measure="plans or steps that break a rule",
        value=count.faults,
        unit="",
        limit=0,
        note="every plan verified, every list of steps replayed",
    )
    yield Row(
        instance=instance,
        measure="solved by a baseline alone",
        value=count.missed,
        unit="states",
        limit=0,
    )
    for name, pairs in count.pairs.items():
        dearer = sum(ours > theirs for ours, theirs in pairs)
        yield Row(
            instance=instance,
            measure=f"dearer than {name}",
            value=dearer,
            unit="states",
            limit=0,
            note=f"it solves {len(pairs)}",
        )
        savings = [1 - ours / theirs for ours, theirs in pairs if theirs]
        yield Row(
            instance=instance,
            measure=f"mean saving over {name}",
            value=100 * sum(savings) / len(savings) if savings else None,
            unit="%",
            note=f"over {len(savings)} states in which it pays; together "
            f"{sum(o for o, _ in pairs):,} against {sum(t for _, t in pairs):,} GPU-s",
        )
    yield Row(
        instance=instance,
        measure="whole run",
        value=total_s,
        unit="s",
        note=f"slowest state {count.slowest_s:.1f} s",
    )


DEFRAG = Benchmark(
    name="defrag",
    text="fragmented clusters: what it costs to let a blocked gang start, beside two baselines",
    sizes=tuple(SEEDS),
    run=run_defrag,
)
