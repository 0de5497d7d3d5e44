"""Running work as part of the question: whether it stays is decided together with what starts.

A running job that may give way becomes a job of the question (`Job.running` says which one it
stands for) with roles of two kinds: replicas that *stay* where they are, and, where it is
movable, replicas that *move* to wherever they fit. A replica that does neither is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from solver.cluster import GPU_MILLI, Node
from solver.problem import Problem
from solver.solution import Eviction, Move, Placement, Plan
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape


@dataclass(frozen=True)
class Lift:
    """A question and the same with some of its running work in it as jobs.

    Parameters
    ----------
    problem
        The question as it was put.
    question
        The one in which the running jobs in question are jobs; they come last.
    """

    problem: Problem
    question: Problem

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that stand for running ones."""
        return tuple(job for job in self.question.jobs if job.running is not None)

    def up(self, plan: Plan) -> Plan:
        """A plan as an answer to the lifted question; it displaces only what is in question."""
        places = list(plan.placements)
        for job in self.jobs:
            places += _staying(self.problem, job, plan.displaced.get(job.name, frozenset()))
            places += _moving(job, [move for move in plan.moves if move.job == job.name])
        return Plan.of(places)

    def down(self, plan: Plan) -> Plan:
        """An answer to the lifted question as a plan of starts, evictions and moves."""
        starts = [p for p in plan.placements if self.question.job_by_name[p.job].running is None]
        evictions: list[Eviction] = []
        moves: list[Move] = []
        for job in self.jobs:
            assert job.running is not None
            places = plan.by_job.get(job.name, ())
            left = _displaced(self.problem, job, places)
            moved = list(_moves(job, left, places))
            gone = sorted(set(left) - {move.replica for move in moved})
            moves += moved
            if gone:
                evictions.append(Eviction(job.name, tuple(gone)))
        return Plan.of(starts, evictions, moves)


def lift(problem: Problem, running: Iterable[RunningJob]) -> Lift:
    """Make it a part of the question whether these running jobs stay."""
    lifted = {job.name: _as_job(problem, job) for job in running}
    question = replace(
        problem,
        running=tuple(job for job in problem.running if job.name not in lifted),
        jobs=(*problem.jobs, *lifted.values()),
        reference_shapes=problem.reference,
    )
    return Lift(problem, question)


def _as_job(problem: Problem, job: RunningJob) -> Job:
    roles = [
        Role(
            name=f"stays-{number}",
            shape=held_shape,
            replicas=len(members),
            min_replicas=0,
            held=tuple(job.replicas[n] for n in members),
            asked=asked,
        )
        for number, ((held_shape, asked, _), members) in enumerate(_alike(problem, job).items())
    ]
    if job.preemption.movable:
        roles += [
            Role(name=f"moves-{number}", shape=shape, replicas=count, min_replicas=0)
            for number, (shape, count) in enumerate(Counter(job.shapes).items())
        ]
    return Job(
        name=job.name,
        roles=tuple(roles),
        queue=job.queue,
        priority=job.priority,
        running=job,
    )


def _alike(problem: Problem, job: RunningJob) -> dict[tuple[Shape, Shape, int], list[int]]:
    """Numbers of replicas that hold the same and ask for the same."""
    groups: dict[tuple[Shape, Shape, int], list[int]] = {}
    for number, (held, asked) in enumerate(zip(job.replicas, job.shapes, strict=True)):
        node = problem.node_by_name[held.node]
        key = (_held_shape(node, held), asked, held.gpu_milli)
        groups.setdefault(key, []).append(number)
    return groups


def _held_shape(node: Node, held: RunningReplica) -> Shape:
    """What the replica takes away from others: GPUs that have failed are lost to everybody."""
    gpus, milli = _holds(node, held)
    share = milli if gpus and milli < GPU_MILLI else 0
    return Shape(
        gpus=0 if share else len(gpus),
        share_milli=share,
        share_group=held.share_group if share else "",
        compute_milli=held.compute_milli if share else 0,
        cpu_milli=held.cpu_milli,
        memory_mib=held.memory_mib,
    )


def _holds(node: Node, held: RunningReplica) -> tuple[tuple[int, ...], int]:
    """The usable GPUs of a replica, and the thousandths it holds of each."""
    gpus = tuple(gpu for gpu in held.gpus if gpu in node.usable_gpus)
    return gpus, held.share_milli if gpus else 0


def _staying(problem: Problem, job: Job, displaced: frozenset[int]) -> Iterator[Placement]:
    """Placements of the replicas of a running job that keep their places."""
    assert job.running is not None
    groups = _alike(problem, job.running).values()
    for role, members in zip((r for r in job.roles if r.held), groups, strict=True):
        kept = [n for n in members if n not in displaced]
        for number, replica in enumerate(kept):
            held = job.running.replicas[replica]
            gpus, milli = _holds(problem.node_by_name[held.node], held)
            yield Placement(job.name, role.name, number, held.node, gpus, milli)


def _moving(job: Job, moves: Sequence[Move]) -> Iterator[Placement]:
    """Placements of the replicas of a running job that go on elsewhere."""
    assert job.running is not None
    for role in job.roles:
        mine = [m for m in moves if job.running.shapes[m.replica] == role.shape and not role.held]
        for number, move in enumerate(mine):
            yield Placement(job.name, role.name, number, move.node, move.gpus, move.share_milli)


def _displaced(problem: Problem, job: Job, places: Sequence[Placement]) -> list[int]:
    """Numbers of the replicas that do not stay where they are."""
    assert job.running is not None
    stay = Counter((p.role, p.node, p.gpus) for p in places)
    groups = list(_alike(problem, job.running).values())
    left: list[int] = []
    for role, members in zip((r for r in job.roles if r.held), groups, strict=True):
        for number in members:
            held = job.running.replicas[number]
            gpus, _ = _holds(problem.node_by_name[held.node], held)
            key = (role.name, held.node, gpus)
            if stay[key]:
                stay[key] -= 1
            else:
                left.append(number)
    return sorted(left)


def _moves(job: Job, left: Sequence[int], places: Sequence[Placement]) -> list[Move]:
    """Who of those that left goes where, by what they ask for."""
    assert job.running is not None
    free = list(left)
    moves: list[Move] = []
    for role in job.roles:
        if role.held:
            continue
        targets = [p for p in places if p.role == role.name]
        movers = [n for n in free if job.running.shapes[n] == role.shape][: len(targets)]
        for number, at in zip(movers, targets, strict=True):
            moves.append(Move(job.name, number, at.node, at.gpus, at.share_milli))
            free.remove(number)
    return moves
