"""Placements are of jobs, roles and replicas that wait, and each only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from solver.judging.faults import Rule, Violation
from solver.judging.placed import replica_name
from solver.problem import Problem, RoleKey
from solver.solution import Plan


def check_identity(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """A placement is of a pending job, a role of it and a replica of that role, only once."""
    for at in plan.placements:
        job = problem.job_by_name.get(at.job)
        role = problem.role_by_key.get(RoleKey(at.job, at.role))
        name = replica_name(at, job)
        if job is None:
            yield Violation(Rule.IDENTITY, at.job, f"{name}: no such job is pending")
        elif role is None:
            yield Violation(Rule.IDENTITY, at.job, f"{name}: the job has no such role")
        elif not 0 <= at.replica < role.replicas:
            text = f"{name}: the role has replicas 0 to {role.replicas - 1}"
            yield Violation(Rule.IDENTITY, at.job, text)
        if at.node not in problem.node_by_name:
            yield Violation(Rule.NODE, at.node, f'{name}: no node "{at.node}"')
    times = Counter((at.job, at.role, at.replica) for at in plan.placements)
    for at in {(at.job, at.role, at.replica): at for at in plan.placements}.values():
        count = times[at.job, at.role, at.replica]
        if count > 1:
            name = replica_name(at, problem.job_by_name.get(at.job))
            yield Violation(Rule.IDENTITY, at.job, f"{name}: placed {count} times")
