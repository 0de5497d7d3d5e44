"""Running work that is evicted or moved may be, and is for a reason that is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from solver.fair_share import member_entitlements
from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed, left_of
from solver.problem import Problem
from solver.queues import Member
from solver.solution import Plan
from solver.workload import RESOURCES, ResourceName, RunningJob


def check_displaced(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """What is evicted or moved runs, may be, and leaves no less than the job's minimum."""
    running = {job.name: job for job in problem.running}
    named: Counter[tuple[str, int]] = Counter()
    for eviction in plan.evictions:
        named.update((eviction.job, number) for number in eviction.replicas)
    named.update((move.job, move.replica) for move in plan.moves)
    for (name, number), times in sorted(named.items()):
        job = running.get(name)
        if job is None or not 0 <= number < len(job.replicas):
            text = f'replica {number} of job "{name}": no such replica runs'
            yield Violation(Rule.DISPLACED, name, text)
        elif times > 1:
            text = f'replica {number} of job "{name}": is evicted or moved {times} times'
            yield Violation(Rule.DISPLACED, name, text)
    for move in plan.moves:
        if move.job in running and not running[move.job].preemption.movable:
            text = f'job "{move.job}": may not move and is moved to node "{move.node}"'
            yield Violation(Rule.DISPLACED, move.job, text)
        if move.node not in problem.node_by_name:
            text = f'replica {move.replica} of job "{move.job}": no node "{move.node}"'
            yield Violation(Rule.NODE, move.node, text)
    for eviction in plan.evictions:
        job = running.get(eviction.job)
        if job is None:
            continue
        if not job.preemption.allowed:
            text = f'job "{job.name}": may not be stopped and is evicted'
            yield Violation(Rule.DISPLACED, job.name, text)
        least = len(job.replicas) if job.min_replicas is None else job.min_replicas
        left = len(job.replicas) - len(set(eviction.replicas))
        if 0 < left < least:
            text = f'job "{job.name}": is left {left} replicas, less than its minimum of {least}'
            yield Violation(Rule.DISPLACED, job.name, text)


def check_giving_way(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Something that starts must be worth it, by one of the listed reasons."""
    named = set(placed.plan.displaced)
    if problem.defragment:  # moves need no reason then
        named = {eviction.job for eviction in placed.plan.evictions if eviction.replicas}
    displaced = [job for job in problem.running if job.name in named]
    if not displaced:
        return
    used = _use_of_queues(problem, placed)
    for job in displaced:
        if not any(_REASONS[reason](problem, placed, used, job) for reason in problem.preempt_for):
            listed = " or ".join(problem.preempt_for) or "nothing"
            text = f'job "{job.name}": gives way, and nothing starts that it may give way to'
            yield Violation(Rule.GIVING_WAY, job.name, f"{text} (for {listed})")


_Use = dict[str, Counter[ResourceName]]


def _use_of_queues(problem: Problem, placed: Placed) -> _Use:
    used: _Use = {queue.name: Counter() for queue in problem.queues}
    for job in problem.running:
        used[job.queue].update(left_of(problem, job, placed))
    for start in placed.starts:
        for resource in RESOURCES:
            used[start.job.queue][resource] += problem.amount(start.shape, resource)
    return used


def _for_priority(_: Problem, placed: Placed, __: _Use, job: RunningJob) -> bool:
    return any(start.job.priority > job.priority for start in placed.starts)


def _for_guarantee(problem: Problem, placed: Placed, used: _Use, job: RunningJob) -> bool:
    """Somebody starts something and stays within its quota of what it has one of."""
    return any(
        mine.quota and all(_held(mine, used)[r] <= most for r, most in mine.quota.items())
        for mine, _ in _takers(problem, placed, job)
    )


def _for_fair_share(problem: Problem, placed: Placed, used: _Use, job: RunningJob) -> bool:
    """Somebody starts something and has, by weight, no more of the surplus than is left."""
    for mine, other in _takers(problem, placed, job):
        held = _held(mine, used)
        if mine.priority > other.priority or (mine.weight and not other.weight):
            share = member_entitlements(problem)[mine.name]
            if all(held[resource] <= share[resource] for resource in RESOURCES):
                return True
        elif mine.priority == other.priority and (mine.weight or not other.weight):
            left = _surplus_millionths(problem, other, _held(other, used))
            if _surplus_millionths(problem, mine, held) <= left:
                return True
    return False


def _takers(problem: Problem, placed: Placed, job: RunningJob) -> Iterator[tuple[Member, Member]]:
    """Whose work starts, and whose the victim is, where their queues part in the tree."""
    for name in sorted({start.job.queue for start in placed.starts} - {job.queue}):
        yield problem.queue_tree.parting(name, job.queue)


def _held(member: Member, used: _Use) -> Counter[ResourceName]:
    """What all queues of a member hold."""
    return sum((used[queue] for queue in member.queues), Counter())


def _surplus_millionths(problem: Problem, member: Member, used: Counter[ResourceName]) -> int:
    """The largest share of a resource beyond the quota, over the weight; in whole millionths.

    Of an inner queue's own work, a peer of the queues below it, the quota is what the queue has
    beyond theirs.
    """
    unit = problem.queue_tree.weight_unit
    weight = member.weight or unit
    shares = [
        1_000_000 * unit * max(0, used[r] - member.quota.get(r, 0)) // (capacity * weight)
        for r in RESOURCES
        if (capacity := problem.capacity[r])
    ]
    return max(shares, default=0)


_REASONS: dict[str, Callable[[Problem, Placed, _Use, RunningJob], bool]] = {
    "priority": _for_priority,
    "guarantee": _for_guarantee,
    "fair_share": _for_fair_share,
}
