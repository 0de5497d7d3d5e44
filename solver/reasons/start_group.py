"""A job that has room, and partners that have none."""

from __future__ import annotations

from solver.reasons.desk import Desk
from solver.reasons.queue_rules import queue_limit
from solver.reasons.turn import waiting_part
from solver.reasons.verdict import Verdict
from solver.workload import Job


def partner(desk: Desk, job: Job) -> Verdict | None:
    """The job fits, but not the jobs that it must start together with."""
    if job.start_group is None or not desk.room(desk.after, job).fits:
        return None
    group = desk.problem.start_groups[job.start_group]
    others = [waiting_part(other, desk.plan) for other in group if other.name != job.name]
    for other in others:
        if not desk.room(desk.after, other).fits:
            text = f"starts only together with {other.name}, which has no room"
            return Verdict(f"waits-for-{other.name}", text, {})
    for other in others:
        if queue_limit(desk, other):
            text = f"starts only together with {other.name}, whose queue is at its limit"
            return Verdict(f"waits-for-{other.name}", text, {})
    if not others:
        return None
    names = ", ".join(other.name for other in others)
    text = f"starts only together with {names}; not all of them can start at once"
    return Verdict(f"waits-for-{others[0].name}", text, {})
