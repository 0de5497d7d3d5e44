"""Answers as plain dicts for programs: versioned, in a stable order, integers kept integers.

A schema name changes only when a key changes its meaning or goes; keys may be added.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from solver.comparison import first_gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from report.simulation_view import SimulationRow
    from solver.result import (
        Evicted,
        Moved,
        ObjectiveTerm,
        Pending,
        QueueReport,
        SolveResult,
    )
    from solver.solution import Placement

SOLVE_SCHEMA = "unstrand/solve/v1"
COMPARE_SCHEMA = "unstrand/compare/v1"
SIMULATE_SCHEMA = "unstrand/simulate/v1"

ONLY_STEPS = {"gpus", "cost", "jobs"}
"""Steps that are the only one of their tier: its name says it all."""

DIGITS = 12
"""Digits kept of a fraction: enough for any gap above 0 to stay above 0, without float noise."""


def number(value: float) -> int | float | None:
    """The value as JSON has it: whole numbers as integers, no infinity and no NaN.

    Examples
    --------
    >>> number(12.0), number(0.1 + 0.2), number(float("inf"))
    (12, 0.3, None)
    """
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    rounded = value if value.is_integer() else float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def maybe(value: float | None) -> int | float | None:
    """`number`, or null where there is none."""
    return None if value is None else number(value)


def numbers(table: Mapping[str, float]) -> dict[str, int | float | None]:
    """`number` of every value."""
    return {key: number(value) for key, value in table.items()}


def solve_report(result: SolveResult) -> dict[str, Any]:
    """The answer of ``solve`` (schema ``unstrand/solve/v1``).

    `placements` has new starts only. `value` and `bound` are in the `unit` beside them;
    amounts of queues are in milli-GPU, milli-CPU and MiB.
    """
    return {
        "schema": SOLVE_SCHEMA,
        "status": result.status.value,
        "policy": result.policy,
        "model": result.model,
        "objectives": [_objective(term) for term in result.objectives],
        "placements": [placement_report(placement) for placement in result.plan.placements],
        "pending": [_pending(waiting) for waiting in result.pending],
        "evictions": [_eviction(evicted) for evicted in result.evictions],
        "moves": [_move(moved) for moved in result.moves],
        "queues": [_queue(queue) for queue in result.queues],
        "metrics": _metrics(result),
        "timing": {
            "build_s": number(result.timing.build_s),
            "solve_s": number(result.timing.solve_s),
            "verify_s": number(result.timing.verify_s),
            "total_s": number(result.timing.total_s),
        },
        "notes": list(result.notes),
    }


def plan_report(result: SolveResult, spec_text: str) -> dict[str, Any]:
    """A saved plan: ``solve``'s answer together with the text of the spec it answers."""
    return {**solve_report(result), "spec": spec_text}


def compare_report(results: Iterable[SolveResult]) -> dict[str, Any]:
    """The answer of ``compare`` (schema ``unstrand/compare/v1``): one row per policy."""
    return {"schema": COMPARE_SCHEMA, "rows": [compare_row(result) for result in results]}


def compare_row(result: SolveResult) -> dict[str, Any]:
    """One policy's row.

    `gap_ratio` is that of the first step, in order, that is not proved optimal (0 if all are),
    and `gap_step` its name.
    """
    metrics = result.metrics
    gap = first_gap(result)
    return {
        "policy": result.policy,
        "status": result.status.value,
        "admitted_jobs": metrics.admitted_jobs,
        "admitted_gpus": number(metrics.admitted_gpus),
        "stranded_gpus": number(metrics.stranded_gpus),
        "stranded_by_shape": numbers(metrics.stranded_by_shape),
        "fragmentation_gpus": number(metrics.fragmentation_gpus),
        "worst_dominant_share": number(metrics.worst_dominant_share),
        "preemption_cost_gpu_s": metrics.preemption_cost_gpu_s,
        "topology_cost": number(metrics.topology_cost),
        "total_s": number(result.timing.total_s),
        "gap_ratio": 0 if gap is None else number(gap.gap_ratio),
        "gap_step": None if gap is None else step_name(gap),
    }


def simulate_report(rows: Iterable[SimulationRow], notes: Iterable[str] = ()) -> dict[str, Any]:
    """The answer of ``simulate`` (schema ``unstrand/simulate/v1``): one row per run."""
    return {
        "schema": SIMULATE_SCHEMA,
        "rows": [simulate_row(row) for row in rows],
        "notes": list(notes),
    }


def simulate_row(row: SimulationRow) -> dict[str, Any]:
    """One run: a trace, a policy, a seed. What the numbers mean: `simulator.metrics`."""
    run = row.summary
    return {
        "trace": row.trace,
        "policy": run.policy,
        "seed": run.seed,
        "finished": run.finished,
        "failed": run.failed,
        "unschedulable": run.unschedulable,
        "waiting": run.waiting,
        "running": run.running,
        "left": [
            {"job": left.job, "state": left.state.value, "reason": left.reason} for left in run.left
        ],
        "utilization_ratio": number(run.utilization_ratio),
        "goodput_ratio": number(run.goodput_ratio),
        "wait_mean_s": maybe(run.wait_mean_s),
        "wait_p50_s": maybe(run.wait_p50_s),
        "wait_p90_s": maybe(run.wait_p90_s),
        "wait_p99_s": maybe(run.wait_p99_s),
        "wait_max_s": maybe(run.wait_max_s),
        "jct_mean_s": maybe(run.jct_mean_s),
        "stranded_gpus_mean": number(run.stranded_gpus_mean),
        "fragmentation_gpus_mean": number(run.fragmentation_gpus_mean),
        "deadlocks": run.deadlocks,
        "preemptions": run.preemptions,
        "lost_gpu_h": number(run.lost_gpu_h),
        "allocated_milli": run.allocated_milli,
        "fragmentation_milli": number(run.fragmentation_milli),
        "jain": number(run.jain),
        "share_gap_mean": number(run.share_gap_mean),
        "share_gap_max": number(run.share_gap_max),
        "finish_rho_max": maybe(run.finish_rho_max),
        "finish_rho_mean": maybe(run.finish_rho_mean),
        "makespan_s": number(run.makespan_s),
        "events": run.events,
        "run_s": number(run.run_s),
    }


def step_name(term: ObjectiveTerm) -> str:
    """Tier, priority level and step of an objective, as far as they say anything.

    Examples
    --------
    >>> from solver.result import ObjectiveTerm
    >>> step_name(
    ...     ObjectiveTerm(
    ...         name="priority",
    ...         level=10,
    ...         step="started",
    ...         sense="max",
    ...         unit="milli-GPU",
    ...         value=0,
    ...         bound=0,
    ...     )
    ... )
    'priority 10 started'
    """
    tier = term.name if term.level is None else f"{term.name} {term.level}"
    return tier if term.step in ONLY_STEPS else f"{tier} {term.step}"


def to_json(report: Mapping[str, Any]) -> str:
    """The report as indented JSON with a final newline."""
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _objective(term: ObjectiveTerm) -> dict[str, Any]:
    return {
        "name": term.name,
        "level": term.level,
        "step": term.step,
        "sense": term.sense,
        "unit": term.unit,
        "value": number(term.value),
        "bound": number(term.bound),
        "gap_ratio": number(term.gap_ratio),
    }


def _eviction(evicted: Evicted) -> dict[str, Any]:
    return {
        "job": evicted.job,
        "replicas": list(evicted.replicas),
        "cost_gpu_s": evicted.cost_gpu_s,
    }


def _move(moved: Moved) -> dict[str, Any]:
    return {
        "job": moved.job,
        "replica": moved.replica,
        "from": {"node": moved.from_node, "gpus": list(moved.from_gpus)},
        "to": {"node": moved.to_node, "gpus": list(moved.to_gpus)},
        "cost_gpu_s": moved.cost_gpu_s,
    }


def placement_report(placement: Placement) -> dict[str, Any]:
    """One replica and its place."""
    return {
        "job": placement.job,
        "role": placement.role,
        "replica": placement.replica,
        "node": placement.node,
        "gpus": list(placement.gpus),
        "instances": [
            {"gpu": placed.gpu, "profile": placed.instance.profile, "start": placed.instance.start}
            for placed in placement.instances
        ],
        "share_milli": placement.share_milli,
    }


def _pending(waiting: Pending) -> dict[str, Any]:
    return {
        "job": waiting.job,
        "reason": waiting.reason,
        "text": waiting.text,
        "facts": dict(waiting.facts),
    }


def _queue(queue: QueueReport) -> dict[str, Any]:
    return {
        "name": queue.name,
        "quota": dict(queue.quota),
        "demand": dict(queue.demand),
        "used": dict(queue.used),
        "entitled": dict(queue.entitled),
        "dominant_share": number(queue.dominant_share),
        "borrowed_from": dict(queue.borrowed_from),
        **_past(queue),
    }


def _past(queue: QueueReport) -> dict[str, Any]:
    """Past use and what it makes of the weight, where either says anything."""
    if not queue.past_gpu_s and queue.weight_now == round(queue.weight_now):
        return {}
    return {
        "past_gpu_h": number(queue.past_gpu_s / 3600),
        "weight_now": number(queue.weight_now),
    }


def _metrics(result: SolveResult) -> dict[str, Any]:
    m = result.metrics
    return {
        "admitted_jobs": m.admitted_jobs,
        "admitted_gpus": number(m.admitted_gpus),
        "pending_jobs": m.pending_jobs,
        "pending_gpus": number(m.pending_gpus),
        "free_gpus": number(m.free_gpus),
        "stranded_gpus": number(m.stranded_gpus),
        "stranded_by_shape": numbers(m.stranded_by_shape),
        "stranded_by_cause": numbers(m.stranded_by_cause),
        "fragmentation_gpus": number(m.fragmentation_gpus),
        "utilization_ratio": number(m.utilization_ratio),
        "worst_dominant_share": number(m.worst_dominant_share),
        "topology_cost": number(m.topology_cost),
        "topology_cost_by_step": numbers(m.topology_cost_by_step),
        "preemption_cost_gpu_s": m.preemption_cost_gpu_s,
    }
