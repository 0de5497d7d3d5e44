"""Which running jobs could have to give way, and for what reason at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solver.fair_share import held_by_queue
from solver.metrics import member_usage
from solver.problem import Problem, RoleKey
from solver.queues import Member
from solver.solution import Plan
from solver.tiers import must_runs, startable
from solver.workload import Job, ResourceName, RunningJob


def candidates(problem: Problem, plan: Plan) -> tuple[RunningJob, ...]:
    """Running jobs that a better plan than this one might stop or move.

    They must be allowed to stop or to move, and something that could start must be a reason for
    them to give way. Who gives the reason need not be who gains: a job that has all it wants may
    make way by what it takes instead. But if nobody is without all it wants under `plan`, which
    leaves running work alone, no plan is better by displacing anything: it would only cost.
    """
    if "preemption_cost" not in problem.objectives or not problem.preempt_for:
        return ()
    able = _could_start(problem, problem.pending)
    if all(_satisfied(job, plan) for job in able):
        return ()
    rules = [REASONS[reason](problem, able) for reason in problem.preempt_for]
    return tuple(
        job
        for job in problem.running
        if (job.preemption.allowed or job.preemption.movable)
        and any(r.gpus or r.cpu_milli or r.memory_mib for r in job.replicas)
        and any(gives_way(job) for gives_way in rules)
    )


def _could_start(problem: Problem, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that would find room if all that may give way did."""
    if not jobs or not problem.running:
        return []
    fixed = tuple(
        job for job in problem.running if not (job.preemption.allowed or job.preemption.movable)
    )
    alone = replace(problem, running=fixed, jobs=tuple(jobs), reference_shapes=problem.reference)
    rooms = startable(alone)
    return [job for job in jobs if any(rooms.get(RoleKey(job.name, r.name)) for r in job.roles)]


def _satisfied(job: Job, plan: Plan) -> bool:
    """Whether the job has all replicas that it wants."""
    return must_runs(job, plan) and all(
        plan.started.get(RoleKey(job.name, role.name), 0) == role.replicas for role in job.roles
    )


Rule = Callable[[RunningJob], bool]


def _by_priority(_: Problem, able: list[Job]) -> Rule:
    highest = max(job.priority for job in able)
    return lambda running: running.priority < highest


def _by_guarantee(problem: Problem, able: list[Job]) -> Rule:
    """Work outside of those with a job with which they would stay within their quota."""
    # What may be stopped itself does not count: its queue may lose it to somebody else.
    lasting = [job for job in problem.running if not job.preemption.allowed]
    used = held_by_queue(problem, lasting)
    claimants = {
        member.name
        for job in able
        for member in problem.queue_tree.path[job.queue]
        if member.quota
        and all(
            member_usage(member, used)[resource] + _least(problem, job, resource) <= most
            for resource, most in member.quota.items()
        )
    }
    return _parted(problem, able, lambda mine, _: mine.name in claimants)


def _by_fair_share(problem: Problem, able: list[Job]) -> Rule:
    """Work of those whose priority is no higher than that of a peer that wants something."""
    return _parted(problem, able, lambda mine, other: mine.priority >= other.priority)


def _parted(problem: Problem, able: list[Job], may_take: Callable[[Member, Member], bool]) -> Rule:
    """Work from which one of their queues may take, by where the two queues part in the tree."""
    wants = {job.queue for job in able}
    victims = {
        queue.name
        for queue in problem.queues
        if any(
            may_take(*problem.queue_tree.parting(name, queue.name)) for name in wants - {queue.name}
        )
    }
    return lambda running: running.queue in victims


def _least(problem: Problem, job: Job, resource: ResourceName) -> int:
    """The least amount of a resource with which something of the job starts."""
    amounts = [(problem.amount(role.shape, resource), role.min_replicas) for role in job.roles]
    if job.gang:
        return sum(amount * replicas for amount, replicas in amounts)
    return min(amount for amount, _ in amounts)


REASONS: dict[str, Callable[[Problem, list[Job]], Rule]] = {
    "priority": _by_priority,
    "guarantee": _by_guarantee,
    "fair_share": _by_fair_share,
}
