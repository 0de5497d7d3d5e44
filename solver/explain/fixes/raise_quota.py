"""Raise the limits of the job's queue, and of those above it, just as far as the job needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from solver.explain.fixes.change import Change, listed
from solver.explain.question import Case
from solver.fair_share import held_by_queue
from solver.problem import Problem
from solver.queues import subtree
from solver.reasons import rank
from solver.result_text import amount_text
from solver.workload import RESOURCES, Job, ResourceName

Limits = Mapping[str, Mapping[ResourceName, int]]


def raise_quota(case: Case) -> Iterator[Change]:
    """The lowest limits under which the job may start; then those that leave room for others too.

    Jobs of the same queues that wait have a claim to what is raised: first those whose turn is
    before, then all.
    """
    turn = rank(case.problem, case.job)
    waiting = [job for job in case.problem.jobs if job.name not in case.claim.job_by_name]
    early = tuple(job for job in waiting if rank(case.problem, job) < turn)
    tried: list[Limits] = []
    for others in ((), early, tuple(waiting)):
        raised, told = _raise(case, others)
        if raised and raised not in tried:
            tried.append(raised)
            yield Change(
                kind="raise-quota",
                text=f"raise the limit of {listed(told)}",
                params={"limits": {name: dict(limits) for name, limits in raised.items()}},
                apply=partial(_raised, limits=raised),
            )


def _raise(case: Case, others: Iterable[Job]) -> tuple[Limits, list[str]]:
    """Limits that the job, and with it all of `others`, may start under; the same in words."""
    question = case.claim
    used = held_by_queue(question, question.running)
    raised: dict[str, dict[ResourceName, int]] = {}
    told: list[str] = []
    for queue in question.queues:
        members = subtree(question.queues, queue.name)
        if case.job.queue not in members:
            continue
        for resource in RESOURCES:
            limit = queue.limit.get(resource)
            if limit is None:
                continue
            mine = sum(_needs(question, j, resource) for j in question.jobs if j.queue in members)
            theirs = sum(_all(question, j, resource) for j in others if j.queue in members)
            needed = sum(used[name][resource] for name in members) + mine + theirs
            if mine and needed > limit:
                raised.setdefault(queue.name, {})[resource] = needed
                told.append(
                    f"{queue.name} from {amount_text(resource, limit)} "
                    f"to {amount_text(resource, needed)}"
                )
    return raised, told


def _needs(problem: Problem, job: Job, resource: ResourceName) -> int:
    return sum(
        (role.min_replicas if job.gang else 1) * problem.amount(role.shape, resource)
        for role in job.roles
    )


def _all(problem: Problem, job: Job, resource: ResourceName) -> int:
    return sum(role.replicas * problem.amount(role.shape, resource) for role in job.roles)


def _raised(problem: Problem, limits: Limits) -> Problem:
    queues = (
        replace(queue, limit={**queue.limit, **limits.get(queue.name, {})})
        for queue in problem.queues
    )
    return replace(problem, queues=tuple(queues))
