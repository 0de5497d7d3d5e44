"""The running work once a plan has evicted and moved: what new starts find."""

from __future__ import annotations

from dataclasses import replace

from solver.problem import Problem
from solver.solution import Move, Plan
from solver.workload import RunningJob, RunningReplica


def standing(problem: Problem, plan: Plan) -> tuple[RunningJob, ...]:
    """The running jobs with what the plan leaves of them, moved replicas in their new places.

    A job of which nothing is left is missing.
    """
    if plan.leaves_running_alone:
        return problem.running
    gone = {eviction.job: frozenset(eviction.replicas) for eviction in plan.evictions}
    moves = {(move.job, move.replica): move for move in plan.moves}
    left = (_remainder(job, gone.get(job.name, frozenset()), moves) for job in problem.running)
    return tuple(job for job in left if job.replicas)


def settled(problem: Problem, plan: Plan) -> tuple[Problem, Plan]:
    """The question as it stands once the plan's evictions and moves are done, and its starts.

    Evicted jobs are in neither: they wait for the next decision. The reference workload is that
    of the whole question.
    """
    if plan.leaves_running_alone:
        return problem, plan
    after = replace(problem, running=standing(problem, plan), reference_shapes=problem.reference)
    return after, Plan(plan.placements)


def _remainder(
    job: RunningJob, gone: frozenset[int], moves: dict[tuple[str, int], Move]
) -> RunningJob:
    kept = [n for n in range(len(job.replicas)) if n not in gone]
    replicas = [_placed(job.replicas[n], moves.get((job.name, n))) for n in kept]
    shapes = tuple(job.shapes[n] for n in kept)
    return replace(job, replicas=tuple(replicas), shapes=shapes)


def _placed(replica: RunningReplica, move: Move | None) -> RunningReplica:
    if move is None:
        return replica
    return replace(replica, node=move.node, gpus=move.gpus, share_milli=move.share_milli)
