"""What an answer to a lifted question keeps and displaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from solver.aftermath import standing
from solver.preemption.cost import displacement_cost_gpu_s, plan_cost_gpu_s
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.workload import Job, Role, RunningJob


def held_milli(running: Iterable[RunningJob], level: int | None) -> int:
    """GPU-milli that running jobs of one priority level hold."""
    return sum(r.gpu_milli for job in running if job.priority == level for r in job.replicas)


def kept_milli(problem: Problem, plan: Plan, level: int | None) -> int:
    """GPU-milli of running work of one priority level that stays in place or moves.

    In a lifted question the plan has a placement for each replica in question that is kept.
    """
    kept = sum(
        plan.started.get(RoleKey(job.name, role.name), 0) * problem.use(role, "gpu_milli")
        for job, role in in_question(problem)
        if job.priority == level
    )
    return held_milli(standing(problem, plan), level) + kept


def all_kept_milli(problem: Problem, level: int | None) -> int:
    """The same if everything stays."""
    return held_milli(problem.running, level) + sum(
        role.replicas * problem.use(role, "gpu_milli")
        for job, role in in_question(problem)
        if role.held and job.priority == level
    )


def displaced(problem: Problem, plan: Plan, measure: str) -> int:
    """What is evicted or moved, by one of the measures of `displaced_amount`."""
    by_plan = _displaced_by(problem, plan, measure)
    return by_plan + sum(
        (role.replicas - plan.started.get(RoleKey(job.name, role.name), 0))
        * displaced_amount(problem, job, role, measure)
        for job, role in in_question(problem)
        if role.held
    )


def _displaced_by(problem: Problem, plan: Plan, measure: str) -> int:
    if plan.leaves_running_alone:
        return 0
    if measure == "cost":
        return plan_cost_gpu_s(problem, plan)
    running = {job.name: job for job in problem.running}
    replicas = [running[job].replicas[n] for job, ns in plan.displaced.items() for n in ns]
    return sum(r.gpu_milli for r in replicas) if measure == "gpus" else len(replicas)


def in_question(problem: Problem) -> Iterator[tuple[Job, Role]]:
    """The jobs that stand for running ones, with their roles."""
    return ((job, role) for job, role in problem.roles() if job.running is not None)


def displaced_amount(problem: Problem, job: Job, role: Role, measure: str) -> int:
    """What one displaced replica of a role counts for.

    Parameters
    ----------
    measure
        ``cost`` in GPU-seconds, ``gpus`` in milli-GPU, or ``replicas``.
    """
    if measure == "gpus":
        return problem.use(role, "gpu_milli")
    if measure == "replicas":
        return 1
    assert job.running is not None
    return displacement_cost_gpu_s(job.running, job.running.replicas.index(role.held[0]))
