"""The cheapest moves and evictions by which a job starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from solver.cpsat.lexicographic import improve
from solver.defrag.question import lifted
from solver.options import SolveOptions
from solver.preemption.cost import plan_cost_gpu_s
from solver.preemption.one_by_one import make_way
from solver.problem import Problem
from solver.progress import ProgressListener
from solver.solution import Plan
from solver.tiers import Ruler, must_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A plan in which the job starts, if one was found; `excluded`: it is proved there is none."""

    plan: Plan | None
    cost_bound_gpu_s: int
    excluded: bool
    notes: tuple[str, ...]


def cheapest_start(
    question: Problem,
    options: SolveOptions,
    ends_at_s: float,
    listener: ProgressListener | None = None,
) -> Opening:
    """The plan of least cost, ties by fewer GPUs, then fewer replicas.

    Steps: the job starts; then cost, GPUs and replicas given up are made small. The search begins
    with the victims that `solver.preemption.one_by_one` finds by rule.
    """
    above = lifted(question)
    ruler = Ruler(above.question)
    below = Ruler(question)
    began = time.monotonic()
    first = make_way(question, below, Plan(), lambda: time.monotonic() > (began + ends_at_s) / 2)
    left = replace(options, time_limit_s=max(0.05, ends_at_s - time.monotonic()))
    improved = improve(above.question, ruler, above.up(first), left, listener=listener)
    bounds = dict(zip(((s.kind, s.detail) for s in ruler.steps), improved.bounds, strict=True))
    plan = above.down(improved.plan)
    runs = all(must_runs(job, plan) for job in question.jobs if job.must)
    wanted = sum(job.must for job in question.jobs)
    return Opening(
        plan=plan if runs else None,
        cost_bound_gpu_s=_bound(bounds["preemption_cost", "cost"], plan_cost_gpu_s(question, plan)),
        excluded=not runs and bounds["must", ""] < wanted,
        notes=improved.notes,
    )


def _bound(bound: int, value: int) -> int:
    return min(bound, value)
