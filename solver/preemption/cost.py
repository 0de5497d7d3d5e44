"""What it costs to stop or to move running work, in GPU-seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.solution import Plan
from solver.workload import RunningJob


def displacement_cost_gpu_s(job: RunningJob, replica: int) -> int:
    """Cost of stopping or moving one replica, in whole GPU-seconds, rounded up.

    ``GPUs * (time since the last checkpoint + restart time)``; where the job has a cost of its own
    (`Preemption.cost_gpu_s`, of the whole job), the replica's part of it by GPUs, or by number
    where the job holds none.
    """
    mine_milli = job.replicas[replica].gpu_milli
    stop = job.preemption
    if stop.cost_gpu_s is None:
        return -(-mine_milli * (stop.checkpoint_age_s + stop.restart_s) // GPU_MILLI)
    all_milli = sum(each.gpu_milli for each in job.replicas)
    if not all_milli:
        return -(-stop.cost_gpu_s // len(job.replicas))
    return -(-stop.cost_gpu_s * mine_milli // all_milli)


def total_cost_gpu_s(running: Mapping[str, RunningJob], displaced: Plan) -> int:
    """Cost of all that a plan stops and moves."""
    return sum(
        displacement_cost_gpu_s(running[job], replica)
        for job, replicas in displaced.displaced.items()
        for replica in replicas
    )


def plan_cost_gpu_s(problem: Problem, plan: Plan) -> int:
    """Cost of all that a plan stops and moves of a problem's running work."""
    if plan.leaves_running_alone:
        return 0
    return total_cost_gpu_s({job.name: job for job in problem.running}, plan)


def cost_of(job: RunningJob, replicas: Iterable[int]) -> int:
    """Cost of stopping or moving these replicas of a job."""
    return sum(displacement_cost_gpu_s(job, replica) for replica in replicas)
