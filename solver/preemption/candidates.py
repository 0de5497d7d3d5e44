"""Which running jobs could have to give way, and for what reason at all."""

from __future__ import annotations

from collections.abc import Callable

from solver.fair_share import held_by_queue
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.tiers import must_runs
from solver.workload import Job, RunningJob


def candidates(problem: Problem, plan: Plan) -> tuple[RunningJob, ...]:
    """Running jobs that a better plan than this one might stop or move.

    They must be allowed to stop or to move, and somebody for whom they could give way must be
    without all it wants under `plan`, which leaves running work alone. If nobody is, no plan is
    better by displacing anything: it would only cost.
    """
    if "preemption_cost" not in problem.objectives or not problem.preempt_for:
        return ()
    hungry = [job for job in problem.pending if not _satisfied(job, plan)]
    if not hungry:
        return ()
    rules = [REASONS[reason](problem, hungry) for reason in problem.preempt_for]
    return tuple(
        job
        for job in problem.running
        if (job.preemption.allowed or job.preemption.movable)
        and any(r.gpus or r.cpu_milli or r.memory_mib for r in job.replicas)
        and any(gives_way(job) for gives_way in rules)
    )


def _satisfied(job: Job, plan: Plan) -> bool:
    """Whether the job has all replicas that it wants."""
    return must_runs(job, plan) and all(
        plan.started.get(RoleKey(job.name, role.name), 0) == role.replicas for role in job.roles
    )


Rule = Callable[[RunningJob], bool]


def _by_priority(_: Problem, hungry: list[Job]) -> Rule:
    highest = max(job.priority for job in hungry)
    return lambda running: running.priority < highest


def _by_guarantee(problem: Problem, hungry: list[Job]) -> Rule:
    """Work of other queues than those that want something and are below their quota."""
    used = held_by_queue(problem.queues, problem.running)
    below = {
        queue.name
        for queue in problem.queues
        if any(used[queue.name][resource] < quota for resource, quota in queue.quota.items())
    }
    claimants = {job.queue for job in hungry} & below
    return lambda running: bool(claimants - {running.queue})


def _by_fair_share(problem: Problem, hungry: list[Job]) -> Rule:
    """Work of queues whose priority is no higher than that of another one that wants something."""
    rank = {queue.name: queue.priority for queue in problem.queues}
    wants = {job.queue for job in hungry}
    return lambda running: any(
        rank[queue] >= rank[running.queue] for queue in wants - {running.queue}
    )


REASONS: dict[str, Callable[[Problem, list[Job]], Rule]] = {
    "priority": _by_priority,
    "guarantee": _by_guarantee,
    "fair_share": _by_fair_share,
}
