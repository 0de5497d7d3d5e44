"""Who makes way for a job that starts now: the running work whose places it gets."""

from __future__ import annotations

from solver.preemption.cost import cost_of
from solver.problem import Problem
from solver.result_text import counted
from solver.solution import Placement, Plan
from solver.workload import RunningReplica


def makes_way(problem: Problem, plan: Plan, name: str) -> tuple[str, ...]:
    """For each running job that a plan stops or moves where this job starts, what that costs."""
    mine = plan.by_job.get(name, ())
    moved = {(move.job, move.replica) for move in plan.moves}
    told = []
    for job in problem.running:
        gone = [
            number
            for number in sorted(plan.displaced.get(job.name, ()))
            if any(_is_in_the_way(job.replicas[number], place) for place in mine)
        ]
        moves = [number for number in gone if (job.name, number) in moved]
        stops = [number for number in gone if (job.name, number) not in moved]
        for numbers, what in ((stops, "stops"), (moves, "moves elsewhere")):
            if numbers:
                part = f"{counted(len(numbers), 'replica')} of {len(job.replicas)}"
                cost = f"{cost_of(job, numbers):,} GPU-s"
                said = f"{job.name} {what} where it starts: {part}, {cost}"
                every = plan.displaced[job.name]
                if len(every) > len(gone):
                    said += f"; in the whole plan {len(every)}, {cost_of(job, every):,} GPU-s"
                told.append(said)
    return tuple(told)


def _is_in_the_way(replica: RunningReplica, place: Placement) -> bool:
    """On the same node, and there on the same GPUs where both have some."""
    if replica.node != place.node:
        return False
    return not (replica.gpus and place.gpus) or bool(set(replica.gpus) & set(place.gpus))
