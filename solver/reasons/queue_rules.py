"""What a queue may hold: its limit, its fair share, and what others gave way for."""

from __future__ import annotations

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.queues import Member, subtree
from solver.reasons.desk import Desk
from solver.reasons.verdict import Verdict, amount_text, main_shape, number
from solver.result import FactValue
from solver.workload import RESOURCES, Job, Queue


def queue_limit(desk: Desk, job: Job) -> Verdict | None:
    """The job would take its queue, or one above it, beyond the limit.

    Either all by itself, whatever room there is, or with what the queue holds where there is room.
    """
    queues = [queue for queue in _with_ancestors(desk.problem, job.queue) if queue.limit]
    need = {resource: desk.need(job, resource) for resource in RESOURCES}
    for queue in queues:
        for resource, limit in queue.limit.items():
            if need[resource] > limit:
                most, wanted = (amount_text(resource, n) for n in (limit, need[resource]))
                return Verdict(
                    "queue-limit",
                    f"queue {queue.name} is limited to {most}; the job alone wants {wanted}",
                    {"limit": limit, "wanted": need[resource]},
                )
    if not queues or not desk.room(desk.after, job).fits:
        return None
    used = desk.used
    for queue in queues:
        members = subtree(desk.problem.queues, queue.name)
        for resource, limit in queue.limit.items():
            held = sum(used[name][resource] for name in members)
            if need[resource] and held + need[resource] > limit:
                amounts = [amount_text(resource, v) for v in (limit, held, need[resource])]
                text = f"queue {queue.name} is limited to {amounts[0]}, holds {amounts[1]}"
                return Verdict(
                    "queue-limit",
                    f"{text}; the job wants {amounts[2]}",
                    {"limit": limit, "held": held, "wanted": need[resource]},
                )
    return None


def beyond_claim(desk: Desk, job: Job) -> Verdict | None:
    """There is room, which work has left for what is guaranteed; the job would take more."""
    if not desk.gave_way or not desk.room(desk.after, job).fits:
        return None
    first, *more = desk.gave_way
    others = f" and {len(more)} more" if more else ""
    text = (
        f"there is room, as {first}{others} gave way to what others are guaranteed or entitled"
        " to; with this job they would hold more than that"
    )
    return Verdict("fair-share", text, {})


def fair_share(desk: Desk, job: Job) -> Verdict | None:
    """What is missing is with other queues, and taking it would be more than a fair share."""
    return _others_chosen(desk, job) or _others_keep(desk, job)


def _others_chosen(desk: Desk, job: Job) -> Verdict | None:
    """It would have room but for jobs of other queues, no more urgent, that start instead."""
    problem = desk.problem
    needs = desk.need(job, "gpu_milli")
    families = problem.queue_tree.families
    competing = [m for m in problem.queue_tree.path[job.queue] if len(families[m.family]) > 1]
    if not needs or not competing:
        return None
    if not desk.room(desk.before_others(job), job).fits:
        return None
    used = desk.used
    for member in competing:
        entitled = desk.entitled[member.name]["gpu_milli"]
        mine = metrics.member_usage(member, used)["gpu_milli"]
        if mine + needs <= entitled:
            continue
        has, share, wants = (amount_text("gpu_milli", n) for n in (mine, entitled, needs))
        free = number(desk.free(main_shape(problem, job)))
        text = (
            f"wants {wants}; {free} free once others start, and queue {named(member)} has"
            f" {has} of the {share} that it is entitled to"
        )
        return Verdict("fair-share", text, {"entitled": entitled, "held": mine, "wanted": needs})
    return None


def _others_keep(desk: Desk, job: Job) -> Verdict | None:
    """Work of other queues keeps what the job would have to take beyond a fair share."""
    problem = desk.problem
    needs = desk.need(job, "gpu_milli")
    if "fair_share" not in problem.preempt_for or not needs:
        return None
    used = desk.used
    free = desk.free(main_shape(problem, job)) * GPU_MILLI
    found: Verdict | None = None
    for member in problem.queue_tree.path[job.queue]:
        peers = problem.queue_tree.families[member.family]
        others = sum(
            metrics.member_usage(peer, used)["gpu_milli"]
            for peer in peers
            if peer is not member and peer.priority <= member.priority
        )
        if not free < needs <= free + others:
            continue
        entitled = desk.entitled[member.name]["gpu_milli"]
        mine = metrics.member_usage(member, used)["gpu_milli"]
        if mine + needs <= entitled:
            return None
        has, share, wants = (amount_text("gpu_milli", n) for n in (mine, entitled, needs))
        text = (
            f"wants {wants}; {number(free / GPU_MILLI)} free, and queue {named(member)}, which has"
            f" {has}, may take from others only up to its share of {share}"
        )
        facts: dict[str, FactValue] = {"entitled": entitled, "held": mine, "wanted": needs}
        found = found or Verdict("fair-share", text, facts)
    return found


def named(member: Member) -> str:
    """The queue whose work it is: of an inner queue's own work, that queue."""
    return member.queues[0] if member.is_own else member.name


def _with_ancestors(problem: Problem, name: str) -> list[Queue]:
    found: list[Queue] = []
    above: str | None = name
    while above is not None and above not in {queue.name for queue in found}:
        queue = problem.queue_by_name[above]
        found.append(queue)
        above = queue.parent
    return found
