"""How schedulers make room for a blocked gang today: two baselines, in their own simple way.

``consolidated``: scenarios in order. Victims are added one gang at a time, in the order in which
the scheduler would look at them (lowest priority first, then the latest), up to `MOST_VICTIMS`;
after each, the whole scenario is tried: the gang is placed first, then every victim is placed
elsewhere again. The first scenario in which all find a place is the answer; nobody is lost by it.
That is what the consolidation action of KAI-Scheduler does: pods of a scenario are evicted
virtually, and it counts only if all of them are placed again.

``one_by_one``: victims of lower priority are stopped, one gang at a time, in the same order, until
the gang fits; who turns out not to be needed is put back. None of them is placed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from solver.preemption.cost import cost_of
from solver.problem import Problem
from solver.solution import Eviction, Move, Placement, Plan
from solver.workload import RunningJob

MOST_VICTIMS = 16

Free = dict[str, list[int]]
"""Free GPUs by node."""


def consolidated(problem: Problem) -> Plan | None:
    """The first scenario of victims who all go on elsewhere, or None."""
    movable = [job for job in problem.running if job.preemption.movable]
    victims: list[RunningJob] = []
    for victim in [None, *_in_order(movable)[:MOST_VICTIMS]]:
        if victim is not None:
            victims.append(victim)
        free = _free(problem, {job.name for job in victims})
        starts = _placed(problem, free)
        if starts is None:
            continue
        moves = _moved(victims, free)
        if moves is not None:
            return Plan.of(starts, (), moves)
    return None


def one_by_one(problem: Problem) -> Plan | None:
    """Victims until the gang fits, without those that are not needed; or None."""
    blocked = problem.jobs[0]
    able = [j for j in problem.running if j.preemption.allowed and j.priority < blocked.priority]
    victims: list[RunningJob] = []
    waiting = _in_order(able)
    while _placed(problem, _free(problem, _names(victims))) is None:
        if not waiting:
            return None
        victims.append(waiting.pop(0))
    for victim in list(victims):
        fewer = [job for job in victims if job is not victim]
        if _placed(problem, _free(problem, _names(fewer))) is not None:
            victims = fewer
    starts = _placed(problem, _free(problem, _names(victims)))
    assert starts is not None
    return Plan.of(starts, [Eviction(j.name, tuple(range(len(j.replicas)))) for j in victims])


def cost_gpu_s(problem: Problem, plan: Plan) -> int:
    """What the plan gives up, in GPU-seconds."""
    running = {job.name: job for job in problem.running}
    return sum(cost_of(running[job], numbers) for job, numbers in plan.displaced.items())


def _names(jobs: Iterable[RunningJob]) -> set[str]:
    return {job.name for job in jobs}


def _in_order(jobs: Iterable[RunningJob]) -> list[RunningJob]:
    """Lowest priority first, then the latest: with the youngest checkpoint."""
    return sorted(jobs, key=lambda job: (job.priority, job.preemption.checkpoint_age_s, job.name))


def _free(problem: Problem, without: set[str]) -> Free:
    held = {
        (replica.node, gpu)
        for job in problem.running
        if job.name not in without
        for replica in job.replicas
        for gpu in replica.gpus
    }
    return {
        node.name: [gpu for gpu in range(node.n_gpus) if (node.name, gpu) not in held]
        for node in problem.nodes
    }


def _take(free: Free, gpus: int) -> tuple[str, tuple[int, ...]] | None:
    """GPUs on the node with the fewest free that are enough."""
    enough = [(len(left), name) for name, left in free.items() if len(left) >= gpus]
    if not enough:
        return None
    _, name = min(enough)
    taken, free[name] = free[name][:gpus], free[name][gpus:]
    return name, tuple(taken)


def _placed(problem: Problem, free: Free) -> list[Placement] | None:
    blocked = problem.jobs[0]
    role = blocked.roles[0]
    found = []
    for replica in range(role.replicas):
        place = _take(free, role.shape.gpus)
        if place is None:
            return None
        found.append(Placement(blocked.name, role.name, replica, *place))
    return found


def _moved(victims: list[RunningJob], free: Free) -> list[Move] | None:
    """New places for all replicas, those who can stay in theirs first, then the largest."""
    moves = []
    seats = [(job, n) for job in victims for n in range(len(job.replicas))]
    for job, number in sorted(seats, key=lambda seat: -len(seat[0].replicas[seat[1]].gpus)):
        held = job.replicas[number]
        if set(held.gpus) <= set(free[held.node]):
            free[held.node] = [gpu for gpu in free[held.node] if gpu not in held.gpus]
            continue
        place = _take(free, len(held.gpus))
        if place is None:
            return None
        moves.append(Move(job.name, number, *place))
    return moves


def as_question(problem: Problem) -> Problem:
    """The problem as plans with moves for their own sake are verified against."""
    return replace(problem, defragment=True)
