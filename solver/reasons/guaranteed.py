"""Less urgent work that a job would have room without, and that its queue's guarantee keeps."""

from __future__ import annotations

from dataclasses import replace

from solver import metrics
from solver.fit import hosts
from solver.reasons.desk import Desk
from solver.reasons.queue_rules import named
from solver.state import apply, initial_states
from solver.workload import Job, RunningJob

NAMED = 3
"""As many jobs are named."""


def kept_by_guarantee(desk: Desk, job: Job) -> str:
    """What to add to a reason where only guarantees keep less urgent work in the job's way."""
    problem = desk.problem
    order = problem.objectives
    if "priority" not in problem.preempt_for or not {"guarantee", "preemption_cost"} <= set(order):
        return ""
    if "priority" in order and order.index("priority") < order.index("guarantee"):
        return ""
    kept = {r: by for r in problem.running if (by := _guarded_by(desk, job, r))}
    if not kept:
        return ""
    rest = replace(problem, running=tuple(r for r in problem.running if r not in kept))
    states = apply(rest, initial_states(rest), desk.plan.placements)
    if not desk.room(states, job).fits:
        return ""
    told = ", ".join([running.name for running in kept][:NAMED])
    told += f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
    queues = " and ".join(sorted(set(kept.values())))
    be = "is" if len(kept) == 1 else "are"
    return f"; {told} {be} less urgent, but within what queue {queues} is guaranteed"


def _guarded_by(desk: Desk, job: Job, running: RunningJob) -> str:
    """The queue that would have less than it is guaranteed if the work were stopped for the job."""
    less_urgent = running.priority < job.priority and running.preemption.allowed
    if not less_urgent or running.queue == job.queue:
        return ""
    nodes = {desk.problem.node_by_name[replica.node] for replica in running.replicas}
    if not any(hosts(node, role.shape) for node in nodes for role in job.roles):
        return ""
    _, theirs = desk.problem.queue_tree.parting(job.queue, running.queue)
    quota = theirs.quota.get("gpu_milli", 0)
    guarded = 0 < metrics.member_usage(theirs, desk.used)["gpu_milli"] <= quota
    return named(theirs) if guarded else ""
