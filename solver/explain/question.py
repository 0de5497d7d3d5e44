"""One job against what a plan leaves: the small question that an explanation asks many times.

Everything else is as the plan leaves it and stays: what starts counts as running work that must
not be touched. Partners that start together with the job are part of the question.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from solver.aftermath import settled
from solver.cluster import Node
from solver.cpsat.extract import extract_plan
from solver.cpsat.model import PlacementModel
from solver.geometry import recut_gpus
from solver.linear import total
from solver.problem import Problem, RoleKey
from solver.reasons import rank, waiting_part
from solver.search import decide
from solver.slices import with_instances
from solver.solution import Placement, Plan
from solver.tiers import Ruler
from solver.workload import Job, Preemption, Role, RunningJob, RunningReplica

REARRANGED = 2_000
"""Counts (of replicas by role and node) up to which jobs that come before may move."""

SEARCH_S = 3.0
"""Longest search for places of one job; not found by then counts as no."""

UNTOUCHABLE = Preemption(allowed=False)


@dataclass(frozen=True, slots=True)
class Case:
    """A job that waits, in a problem, after a plan.

    `question` is the job alone against what the plan leaves. Fixes are sought against `claim`,
    in which jobs that come after it have no place yet, and those that come before start elsewhere
    if need be: what they have is only a plan. `passed_over` says that it would fit like that, but
    the plan weighs others more; then all that start are in `claim`, and only a whole solve can tell
    what helps. `ends_at_s` is the moment (`time.monotonic`) by which an answer is wanted.
    """

    problem: Problem
    plan: Plan
    job: Job
    question: Problem
    claim: Problem
    passed_over: bool
    ends_at_s: float

    @property
    def part(self) -> Job:
        """The part of the job that waits."""
        return self.question.job_by_name[self.job.name]

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return max(0.0, self.ends_at_s - time.monotonic())


def case_of(problem: Problem, plan: Plan, name: str, time_s: float) -> Case:
    """The case of a pending job."""
    job = problem.job_by_name[name]
    ends_at_s = time.monotonic() + time_s
    question = focused(problem, plan, job)
    claim = _claim(problem, before(problem, plan, job), job)
    passed_over = places_for(claim) is not None
    if passed_over:
        claim = _claim(problem, plan, job)
    return Case(problem, plan, job, question, claim, passed_over, ends_at_s)


def before(problem: Problem, plan: Plan, job: Job) -> Plan:
    """The plan with the starts of only those jobs whose turn is before that of a job (its own too).

    What they make others give way for them stays as it is.
    """
    turn = rank(problem, job)
    early = {other.name for other in problem.jobs if rank(problem, other) <= turn}
    return Plan(tuple(p for p in plan.placements if p.job in early), plan.evictions, plan.moves)


def _claim(problem: Problem, early: Plan, job: Job) -> Problem:
    """The job, and those of a plan: they keep what they start with, but not where.

    Nor need what the plan moves go where it goes. Where they are many they keep their places.
    """
    counts = {key: count for key, count in early.started.items() if key.job != job.name}
    if len(counts) * len(problem.nodes) > REARRANGED:
        return focused(problem, early, job)
    own = Plan(early.by_job.get(job.name, ()), early.evictions, early.moves)
    alone = focused(problem, own, job)
    others = [
        _with_counts(other, counts)
        for other in problem.jobs
        if other.name in early.by_job and other.name not in alone.job_by_name
    ]
    others = [other for other in others if other.name != job.name]
    jobs = sorted((*alone.jobs, *others), key=lambda other: problem.position[other.name])
    moving = [_moving(job, early) for job in problem.running if job.name in early.displaced]
    stays = [_without_moves(job, early) for job in alone.running]
    return replace(
        alone,
        running=tuple(job for job in stays if job.replicas),
        jobs=(*jobs, *(job for job in moving if job.roles)),
    )


def moving_name(running: str) -> str:
    """Name of the job that stands for what a plan moves of a running one."""
    return f"{running} (moves)"


def _moving(job: RunningJob, plan: Plan) -> Job:
    """What a plan moves of a running job, as a gang that may go anywhere."""
    shapes = Counter(job.shapes[move.replica] for move in plan.moves if move.job == job.name)
    roles = tuple(
        Role(name=f"moves-{number}", shape=shape, replicas=count, min_replicas=count)
        for number, (shape, count) in enumerate(shapes.items())
    )
    return Job(name=moving_name(job.name), roles=roles, queue=job.queue, priority=job.priority)


def _without_moves(job: RunningJob, plan: Plan) -> RunningJob:
    """What stays in place of a running job, as the plan leaves it."""
    there = Counter((m.node, m.gpus) for m in plan.moves if m.job == job.name)
    kept = []
    for number, replica in enumerate(job.replicas):
        if there[replica.node, replica.gpus]:
            there[replica.node, replica.gpus] -= 1
        else:
            kept.append(number)
    return replace(
        job,
        replicas=tuple(job.replicas[n] for n in kept),
        shapes=tuple(job.shapes[n] for n in kept),
    )


def _with_counts(job: Job, counts: Mapping[RoleKey, int]) -> Job:
    """The job as a gang of what it starts with."""
    started = {role.name: counts.get(RoleKey(job.name, role.name), 0) for role in job.roles}
    roles = [
        replace(role, replicas=started[role.name], min_replicas=started[role.name])
        for role in job.roles
        if started[role.name]
    ]
    return replace(job, roles=tuple(roles), gang=True, start_group=None)


def focused(problem: Problem, plan: Plan, job: Job) -> Problem:
    """The job (and partners of its start group) alone; all others stay as the plan leaves them."""
    after, starts = settled(problem, plan)
    partners = problem.start_groups.get(job.start_group or "", ())
    asked = {other.name for other in partners} | {job.name}
    planned = [
        _as_running(after, other, starts.by_job[other.name])
        for other in problem.jobs
        if other.name in starts.by_job
    ]
    mine = f"{job.name} (started)"
    running = [replace(r, name=mine) if r.name == job.name else r for r in planned]
    jobs = [waiting_part(other, plan) for other in problem.jobs if other.name in asked]
    return replace(
        after,
        nodes=tuple(_cut(node, starts) for node in after.nodes),
        running=(*after.running, *running),
        jobs=tuple(jobs),
        reference_shapes=(),
        most_recut_gpus=_left_to_recut(problem, plan),
    )


def _left_to_recut(problem: Problem, plan: Plan) -> int | None:
    """GPUs whose geometry may still be changed beside those that the plan changes."""
    most = problem.most_recut_gpus
    return None if most is None else max(0, most - recut_gpus(problem, plan))


def _cut(node: Node, starts: Plan) -> Node:
    """The node with the MIG instances that the plan makes on it, in use."""
    for place in starts.by_node.get(node.name, ()):
        node = with_instances(node, place.instances, place.job)
    return node


def _as_running(problem: Problem, job: Job, places: tuple[Placement, ...]) -> RunningJob:
    shapes = {role.name: role.shape for role in job.roles}
    return RunningJob(
        name=job.name,
        queue=job.queue,
        priority=job.priority,
        replicas=tuple(
            RunningReplica.seated(shapes[p.role], p.node, p.gpus, p.share_milli) for p in places
        ),
        shapes=tuple(shapes[p.role] for p in places),
        preemption=UNTOUCHABLE,
    )


def model_of(question: Problem, *, merge: bool = True) -> PlacementModel:
    """The rules of the question; every gang in it has to start, of other jobs one replica."""
    model = PlacementModel(question, Ruler(question), lambda: None, merge=merge)
    variables = model.variables
    for job in question.pending:
        if job.gang:
            variables.require(variables.start[job.name], 1, 1)
        else:
            counts = (x for role in job.roles for _, x in variables.counts(job, role))
            variables.require(total(counts), 1, None)
    return model


def places_for(question: Problem) -> Plan | None:
    """A plan in which all jobs of the question start, or None where there is none."""
    model = model_of(question)
    answer = decide(model.variables.model, SEARCH_S)
    if not answer.found:
        return None
    return extract_plan(model.variables, model.devices, answer.value_of)
