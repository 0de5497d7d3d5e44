"""What each queue is entitled to: its quota first, then the surplus by priority and weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.workload import RESOURCES, Queue, ResourceName, RunningJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One queue's claim to one resource, in units of that resource.

    `cap` is the most it can use: its demand, cut at its limit.
    """

    name: str
    priority: int
    weight: int
    quota: int
    cap: int


def water_fill(claims: Sequence[Claim], capacity: int) -> dict[str, int]:
    """Divide `capacity` among the claims, in whole units.

    Quotas come first (up to the cap; where they exceed the capacity, highest priority first,
    then in proportion to quota). The surplus goes to the highest queue priority with unmet demand,
    within one priority in proportion to weight; what a satisfied queue leaves is divided
    again. Weight 0 gets only what no weighted queue can use. Fractions go by
    largest remainder, ties by name.

    Examples
    --------
    Five GPUs; B and C divide the surplus of three by weights 2 and 1:

    >>> claims = [
    ...     Claim(name="A", priority=2, weight=1, quota=1, cap=1),
    ...     Claim(name="B", priority=1, weight=2, quota=1, cap=3),
    ...     Claim(name="C", priority=1, weight=1, quota=0, cap=2),
    ... ]
    >>> water_fill(claims, 5)
    {'A': 1, 'B': 3, 'C': 1}
    """
    given = {claim.name: 0 for claim in claims}
    left = capacity
    by_quota = [(c, min(c.quota, c.cap), Fraction(c.quota)) for c in claims if c.quota > 0]
    by_weight = [(c, c.cap, Fraction(c.weight)) for c in claims if c.weight > 0]
    last = [(c, c.cap, Fraction(1)) for c in claims if c.weight == 0]
    for round_ in (by_quota, by_weight, last):
        for priority in sorted({c.priority for c, _, _ in round_}, reverse=True):
            members = [entry for entry in round_ if entry[0].priority == priority]
            left = _fill_level(members, given, left)
    return given


def _fill_level(
    members: Sequence[tuple[Claim, int, Fraction]], given: dict[str, int], left: int
) -> int:
    """Pour `left` into claims of one priority up to their caps; returns what remains.

    Each round pours an equal amount per weight until the first claim is full, so the levels of
    those that are not full stay proportional to their weights.
    """
    level = {c.name: Fraction(given[c.name]) for c, _, _ in members}
    start = dict(level)
    pool = Fraction(left)
    open_ = [(c, cap, w) for c, cap, w in members if level[c.name] < cap]
    while pool > 0 and open_:
        total = sum((w for _, _, w in open_), Fraction(0))
        step = min(pool / total, *((cap - level[c.name]) / w for c, cap, w in open_))
        for claim, _, weight in open_:
            level[claim.name] += step * weight
        pool -= step * total
        open_ = [(c, cap, w) for c, cap, w in open_ if level[c.name] < cap]
    whole = {name: int(amount) for name, amount in level.items()}
    poured = sum(level.values(), Fraction(0)) - sum(start.values(), Fraction(0))
    spare = int(poured) - (sum(whole.values()) - sum(int(s) for s in start.values()))
    by_remainder = sorted(level, key=lambda name: (whole[name] - level[name], name))
    for name in by_remainder[:spare]:
        whole[name] += 1
    given.update(whole)
    return left - sum(whole.values()) + sum(int(s) for s in start.values())


def held_by_queue(
    queues: Iterable[Queue], running: Iterable[RunningJob]
) -> dict[str, dict[ResourceName, int]]:
    """What the running work of each queue holds, by resource."""
    used: dict[str, dict[ResourceName, int]] = {
        queue.name: dict.fromkeys(RESOURCES, 0) for queue in queues
    }
    for job in running:
        mine = used[job.queue]
        for replica in job.replicas:
            mine["gpu_milli"] += replica.gpu_milli
            mine["cpu_milli"] += replica.cpu_milli
            mine["memory_mib"] += replica.memory_mib
    return used


def demand(problem: Problem) -> dict[str, dict[ResourceName, int]]:
    """What each queue runs and waits for, unless the queue states its own demand."""
    wanted = held_by_queue(problem.queues, problem.running)
    for job, role in problem.roles():
        for resource in RESOURCES:
            amount = problem.amount(role.shape, resource)
            wanted[job.queue][resource] += amount * role.replicas
    for queue in problem.queues:
        wanted[queue.name].update(queue.demand)
    return wanted


def entitlements(problem: Problem) -> Mapping[str, Mapping[ResourceName, int]]:
    """What each queue is entitled to, by resource: whole GPUs (in milli), milli-CPU, MiB.

    Resources without a limit in the cluster entitle everybody to their demand.
    """
    wanted = demand(problem)
    table: dict[str, dict[ResourceName, int]] = {q.name: {} for q in problem.queues}
    for resource in RESOURCES:
        capacity = problem.capacity[resource]
        unit = GPU_MILLI if resource == "gpu_milli" else 1
        claims = [_claim(q, resource, wanted[q.name][resource], unit) for q in problem.queues]
        if capacity is None:
            shares = {claim.name: claim.cap for claim in claims}
        else:
            shares = water_fill(claims, capacity // unit)
        for name, share in shares.items():
            table[name][resource] = share * unit
    return table


def _claim(queue: Queue, resource: ResourceName, wanted: int, unit: int) -> Claim:
    cap = min(wanted, queue.limit.get(resource, wanted))
    return Claim(
        name=queue.name,
        priority=queue.priority,
        weight=queue.weight,
        quota=queue.quota.get(resource, 0) // unit,
        cap=-(-cap // unit),
    )
