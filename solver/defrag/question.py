"""The problem as defragmentation puts it: who may start, who may move, who may stop."""

from __future__ import annotations

from dataclasses import replace

from solver.preemption.lift import Lift, lift
from solver.problem import Problem
from solver.workload import RunningJob


def for_job(problem: Problem, name: str) -> Problem:
    """Only this job (and its start group) may start, and has to.

    Whatever is movable may move for it; work stops only for the reasons of `preempt_for`. Other
    pending jobs are left out: what is made free is for this one.
    """
    group = problem.job_by_name[name].start_group
    jobs = tuple(
        replace(job, must=job.name == name)
        for job in problem.pending
        if job.name == name or (group is not None and job.start_group == group)
    )
    return replace(
        problem,
        jobs=jobs,
        objectives=("preemption_cost",),
        reference_shapes=problem.reference,
        defragment=True,
    )


def for_space(problem: Problem) -> Problem:
    """Nothing starts, so nothing stops; whatever is movable may move."""
    return replace(
        problem,
        jobs=(),
        objectives=("stranded", "preemption_cost"),
        reference_shapes=problem.reference,
        defragment=True,
    )


def lifted(question: Problem) -> Lift:
    """The question with the running work in it that may move or stop."""
    return lift(question, (job for job in question.running if _may_give_way(question, job)))


def _may_give_way(question: Problem, job: RunningJob) -> bool:
    stops = job.preemption.allowed and bool(question.jobs) and bool(question.preempt_for)
    holds = any(r.gpus or r.cpu_milli or r.memory_mib for r in job.replicas)
    return holds and (stops or job.preemption.movable)
