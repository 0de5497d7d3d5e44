"""What of a former plan still stands when jobs, nodes or running work have changed."""

from __future__ import annotations

from solver.problem import Problem
from solver.queues import subtree
from solver.solution import Placement, Plan
from solver.verify import Violation, verify


def carried_over(problem: Problem, former: Plan) -> Plan:
    """What of a former plan is a valid plan of this problem.

    Where nothing stands in its way that is all of it; else it is the starts that need no running
    work to give way.

    Jobs that are gone, or run by now, are left out; so are those whose places are taken, and where
    several jobs want what is no longer there, the last in order of priority and arrival.
    """
    if not verify(problem, former):
        return former
    pending = {job.name for job in problem.jobs}
    kept: dict[str, list[Placement]] = {}
    for placement in former.placements:
        if placement.job in pending:
            kept.setdefault(placement.job, []).append(placement)
    while kept:
        plan = Plan.of(p for places in kept.values() for p in places)
        violations = verify(problem, plan)
        if not violations:
            return plan
        dropped = {name for v in violations for name in _to_blame(problem, plan, v)} & set(kept)
        if not dropped:
            break
        kept = {name: places for name, places in kept.items() if name not in dropped}
    return Plan()


def _to_blame(problem: Problem, plan: Plan, violation: Violation) -> list[str]:
    """The jobs that are left out because of a violation."""
    subject = violation.subject
    if subject in plan.by_job:
        return [subject]
    if subject in problem.start_groups:
        return [job.name for job in problem.start_groups[subject]]
    if subject in plan.by_node:
        names = {p.job for p in plan.by_node[subject]}
    elif subject in problem.queue_by_name:
        members = subtree(problem.queues, subject)
        names = {name for name in plan.by_job if problem.job_by_name[name].queue in members}
    else:
        names = set(plan.by_job)
    jobs = sorted(
        (problem.job_by_name[name] for name in names),
        key=lambda job: (-job.priority, problem.position[job.name]),
    )
    return [job.name for job in jobs[-1:]]
