"""What an answer to a lifted question keeps and displaces."""

from __future__ import annotations

from collections.abc import Mapping

from solver.preemption.cost import displacement_cost_gpu_s
from solver.problem import Problem, RoleKey
from solver.workload import Job, Role

Counts = Mapping[RoleKey, int]
"""Replicas that start, stay or move, by role."""


def held_fixed_milli(problem: Problem, level: int | None) -> int:
    """GPU-milli that running work of one priority level holds and that is not in question."""
    return sum(
        replica.gpu_milli
        for job in problem.running
        if job.priority == level
        for replica in job.replicas
    )


def kept_milli(problem: Problem, counts: Counts, level: int | None) -> int:
    """GPU-milli of running work of one priority level that stays in place or moves."""
    kept = sum(
        counts.get(RoleKey(job.name, role.name), 0) * problem.gpu_milli(role.shape)
        for job in problem.jobs
        if job.running is not None and job.priority == level
        for role in job.roles
    )
    return held_fixed_milli(problem, level) + kept


def all_kept_milli(problem: Problem, level: int | None) -> int:
    """The same if everything stays."""
    everything = {
        RoleKey(job.name, role.name): role.replicas
        for job in problem.jobs
        for role in job.roles
        if role.held
    }
    return kept_milli(problem, everything, level)


def displaced(problem: Problem, counts: Counts, measure: str) -> int:
    """What is evicted or moved, by one of the measures of `displaced_amount`."""
    return sum(
        (role.replicas - counts.get(RoleKey(job.name, role.name), 0))
        * displaced_amount(problem, job, role, measure)
        for job in problem.jobs
        for role in job.roles
        if role.held
    )


def displaced_amount(problem: Problem, job: Job, role: Role, measure: str) -> int:
    """What one displaced replica of a role counts for.

    Parameters
    ----------
    measure
        ``cost`` in GPU-seconds, ``gpus`` in milli-GPU, or ``replicas``.
    """
    if measure == "gpus":
        return problem.gpu_milli(role.shape)
    if measure == "replicas":
        return 1
    assert job.running is not None
    return displacement_cost_gpu_s(job.running, job.running.replicas.index(role.held[0]))
