"""Whether steps can be carried out one after the other: each state between them is judged.

Written from the definitions and from `solver.verify`, knowing nothing of how an order is found:
what runs is kept in a table, every step is put to the judge as a plan of its own on the problem as
it stands at that moment, and in the end everything must be where the plan has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solver.defrag.steps import Action, Place, StepKind
from solver.problem import Problem
from solver.solution import Move, Plan
from solver.verify import explain_violations, verify
from solver.workload import RunningJob, RunningReplica

Table = dict[tuple[str, int], RunningReplica | None]
"""Where every running replica is; None: it holds nothing."""


def replay(problem: Problem, plan: Plan, actions: Sequence[Action]) -> list[str]:
    """Faults of the first wrong step, or of where all of them lead; empty where they are right."""
    table: Table = {
        (job.name, number): held
        for job in problem.running
        for number, held in enumerate(job.replicas)
    }
    faults: list[str] = []
    started: set[str] = set()
    for place, action in enumerate(actions, start=1):
        said = f"step {place} ({action.kind} {', '.join(action.jobs)})"
        if action.kind is StepKind.START:
            started.update(action.jobs)
            faults += _judged(said, _as_it_stands(problem, table), _starts(plan, started))
        elif action.kind in (StepKind.EVICT, StepKind.PAUSE):
            faults += _stop(said, table, action)
        else:
            faults += _move(said, problem, table, action)
        if faults:  # what comes after a wrong step says nothing
            return faults
    return [*faults, *_differences(problem, plan, table, started)]


def _stop(said: str, table: Table, action: Action) -> list[str]:
    faults = []
    for number in action.replicas:
        if table.get((action.jobs[0], number)) is None:
            faults.append(f"{said}: replica {number} does not run")
        table[action.jobs[0], number] = None
    return faults


def _move(said: str, problem: Problem, table: Table, action: Action) -> list[str]:
    """A move is judged as a move, a resumption as a move of what would else hold nothing."""
    key = (action.jobs[0], *action.replicas)
    if len(key) != 2 or key not in table or action.target is None:
        return [f"{said}: is about one replica that runs, and says where it goes"]
    job = next(job for job in problem.running if job.name == action.jobs[0])
    if (table[key] is None) != (action.kind is StepKind.RESUME):
        return [f"{said}: holds {'nothing' if table[key] is None else 'its place'} at this moment"]
    target, shape = action.target, job.shapes[key[1]]
    stands = _as_it_stands(problem, table)
    held = table[key]
    if held is None:  # for the judge it holds no GPU, and no CPU and memory
        anywhere = RunningReplica(node=target.node)
        here = replace(job, name=f"{job.name} (paused)", replicas=(anywhere,), shapes=(shape,))
        here = replace(here, min_replicas=None)
        stands = replace(stands, running=(*stands.running, here))
        move = Move(here.name, 0, target.node, target.gpus, target.share_milli)
    else:
        now = [n for n in range(len(job.replicas)) if table[job.name, n] is not None]
        number = now.index(key[1])
        move = Move(job.name, number, target.node, target.gpus, target.share_milli)
    table[key] = RunningReplica.seated(shape, target.node, target.gpus, target.share_milli)
    return _judged(said, stands, Plan.of((), (), [move]))


def _judged(said: str, problem: Problem, plan: Plan) -> list[str]:
    violations = verify(problem, plan)
    return [f"{said}: {explain_violations(violations)}"] if violations else []


def _as_it_stands(problem: Problem, table: Table) -> Problem:
    running = (_left(job, table) for job in problem.running)
    return replace(
        problem,
        running=tuple(job for job in running if job.replicas),
        reference_shapes=problem.reference,
        defragment=True,
    )


def _left(job: RunningJob, table: Table) -> RunningJob:
    held = [(n, table[job.name, n]) for n in range(len(job.replicas))]
    return replace(
        job,
        replicas=tuple(replica for _, replica in held if replica is not None),
        shapes=tuple(job.shapes[n] for n, replica in held if replica is not None),
    )


def _starts(plan: Plan, jobs: set[str]) -> Plan:
    return Plan.of(place for place in plan.placements if place.job in jobs)


def _differences(problem: Problem, plan: Plan, table: Table, started: set[str]) -> list[str]:
    """What is not where the plan has it once all steps are done."""
    goal: dict[tuple[str, int], Place | None] = {
        (job.name, number): Place(node=r.node, gpus=r.gpus, share_milli=r.share_milli)
        for job in problem.running
        for number, r in enumerate(job.replicas)
    }
    for eviction in plan.evictions:
        goal.update(((eviction.job, number), None) for number in eviction.replicas)
    for move in plan.moves:
        place = Place(node=move.node, gpus=move.gpus, share_milli=move.share_milli)
        goal[move.job, move.replica] = place
    faults = []
    for (job, number), end in goal.items():
        held = table[job, number]
        now = held and Place(node=held.node, gpus=held.gpus, share_milli=held.share_milli)
        if now != end:
            faults.append(f'replica {number} of job "{job}": ends at {now}, the plan has {end}')
    missing = sorted(set(plan.by_job) - started)
    return faults + [f'job "{job}": is never started' for job in missing]
