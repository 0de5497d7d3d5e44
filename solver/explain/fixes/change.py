"""What a fix proposes: a change of the problem, and what it is in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from solver.problem import Problem
from solver.solution import Plan
from solver.workload import Job, Role, Shape

GONE_WITHOUT_S = 3600
"""Seconds for which a GPU counts that the job asks for and goes without."""

BOUGHT_S = 86_400
"""Seconds for which a GPU counts that has to be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One way to change the problem.

    Parameters
    ----------
    told
        More parameters that are known only once it is known where the job then starts.
    touches
        Running jobs that the change itself stops or moves.
    """

    kind: str
    text: str
    apply: Callable[[Problem], Problem]
    params: Mapping[str, Any] = field(default_factory=dict)
    cost_gpu_s: int = 0
    told: Callable[[Problem, Plan], Mapping[str, Any]] | None = None
    touches: frozenset[str] = frozenset()


def with_job(name: str, change: Callable[[Job], Job]) -> Callable[[Problem], Problem]:
    """The problem with one of its jobs changed."""

    def apply(problem: Problem) -> Problem:
        jobs = (change(job) if job.name == name else job for job in problem.jobs)
        return replace(problem, jobs=tuple(jobs))

    return apply


def with_shapes(name: str, change: Callable[[Shape], Shape]) -> Callable[[Problem], Problem]:
    """The problem with the shapes of one of its jobs changed."""

    def of_job(job: Job) -> Job:
        return replace(job, roles=tuple(replace(r, shape=change(r.shape)) for r in job.roles))

    return with_job(name, of_job)


def with_role(
    name: str, role_name: str, change: Callable[[Role], Role]
) -> Callable[[Problem], Problem]:
    """The problem with one role of one of its jobs changed."""

    def of_job(job: Job) -> Job:
        roles = (change(role) if role.name == role_name else role for role in job.roles)
        return replace(job, roles=tuple(roles))

    return with_job(name, of_job)


def listed(words: Iterable[str], most: int = 4) -> str:
    """Words in a sentence; the rest is counted."""
    words = list(words)
    if len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
