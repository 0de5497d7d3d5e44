"""Move, or stop, running work at the least cost: the lifted question with only this job pending.

Work of a lower priority may be stopped; whatever is movable may be moved. That is more than the
plan itself may do, which moves only what it would otherwise have to stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from solver.aftermath import standing
from solver.cluster import GPU_MILLI
from solver.explain.fixes.change import Change, listed
from solver.explain.question import Case, places_for
from solver.options import SolveOptions
from solver.preemption.cost import plan_cost_gpu_s
from solver.preemption.lift import lift
from solver.solution import Plan
from solver.tiers import Ruler, must_runs
from solver.workload import Job, RunningJob

LARGEST = 150_000
"""Counts (of movable work by node) up to which the question is put."""

TIME_S = 2.0
"""Longest search for the least cost."""


def move(case: Case) -> Iterator[Change]:
    """The cheapest moves by which the job fits, where nothing has to stop."""
    yield from _displaced(case, stop=False)


def preempt(case: Case) -> Iterator[Change]:
    """The cheapest work to stop or to move so that the job fits; something stops."""
    yield from _displaced(case, stop=True)


def _displaced(case: Case, *, stop: bool) -> Iterator[Change]:
    running = _able(case, stop=stop)
    if not running or not any(j.preemption.allowed if stop else True for j in running):
        return
    names = {job.name for job in running}
    rest = tuple(job for job in case.claim.running if job.name not in names)
    if places_for(replace(case.claim, running=rest)) is None:
        return
    plan = _cheapest(case, running)
    if plan is None or bool(plan.evictions) != stop:
        return
    if plan.moves and case.plan.displaced:
        return  # what the plan makes room for is not free before it, so nobody can move there
    problem = replace(case.claim, running=(*rest, *running))
    cost = plan_cost_gpu_s(problem, plan)
    of = {job.name: job for job in running}
    touched = frozenset(plan.displaced)
    said = [
        *(f"stop {len(e.replicas)} of {e.job}" if len(e.replicas) < len(of[e.job].replicas)
          else f"stop {e.job}" for e in plan.evictions),
        *(
            f"move {m.job} from {of[m.job].replicas[m.replica].node} to {m.node}"
            for m in plan.moves
        ),
    ]  # fmt: skip
    displaced = Plan((), plan.evictions, plan.moves)
    yield Change(
        kind="preempt" if stop else "move",
        text=f"{listed(said)}: {cost} GPU-seconds of work",
        params=_params(plan, of),
        cost_gpu_s=cost,
        apply=lambda whole: replace(whole, running=standing(whole, displaced)),
        touches=touched,
    )


def _able(case: Case, *, stop: bool) -> tuple[RunningJob, ...]:
    """Running work that may move, or stop, and that the plan itself leaves alone."""
    found = []
    for job in case.claim.running:
        stops = stop and job.preemption.allowed and job.priority < case.job.priority
        if job.name in case.plan.displaced or not (stops or job.preemption.movable):
            continue
        if any(r.gpus or r.cpu_milli or r.memory_mib for r in job.replicas):
            found.append(replace(job, preemption=replace(job.preemption, allowed=stops)))
    movers = sum(len(j.replicas) for j in found if j.preemption.movable)
    if movers * len(case.claim.nodes) > LARGEST:
        found = [job for job in found if job.preemption.allowed]
        found = [replace(j, preemption=replace(j.preemption, movable=False)) for j in found]
    return tuple(found)


def _cheapest(case: Case, running: tuple[RunningJob, ...]) -> Plan | None:
    from solver.cpsat.lexicographic import improve

    names = {job.name for job in running}
    top = 1 + case.claim.priorities[0]
    asked = replace(
        case.claim,
        jobs=tuple(replace(_one(job), priority=top, must=True) for job in case.claim.jobs),
        running=(*(j for j in case.claim.running if j.name not in names), *running),
        objectives=("preemption_cost",),
        preempt_for=("priority",),
    )
    lifted = lift(asked, running)
    ruler = Ruler(lifted.question)
    options = SolveOptions(time_limit_s=max(0.05, min(TIME_S, case.left_s)), workers=1)
    plan = lifted.down(improve(lifted.question, ruler, lifted.up(Plan()), options).plan)
    return plan if all(must_runs(job, plan) for job in asked.jobs) else None


def _one(job: Job) -> Job:
    """Of independent replicas, one."""
    if job.gang:
        return job
    roles = tuple(replace(role, replicas=1, min_replicas=1) for role in job.roles[:1])
    return replace(job, roles=roles, gang=True)


def _params(plan: Plan, of: Mapping[str, RunningJob]) -> dict[str, Any]:
    held = [of[job].replicas[n] for job, numbers in plan.displaced.items() for n in numbers]
    return {
        "evictions": [{"job": e.job, "replicas": list(e.replicas)} for e in plan.evictions],
        "moves": [
            {
                "job": m.job,
                "replica": m.replica,
                "from": of[m.job].replicas[m.replica].node,
                "to": m.node,
            }
            for m in plan.moves
        ],
        "replicas": len(held),
        "gpus": sum(r.gpu_milli for r in held) / GPU_MILLI,
    }
