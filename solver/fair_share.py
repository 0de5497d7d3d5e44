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
    by_quota = [(c, min(c.quota, c.cap), c.quota) for c in claims if c.quota > 0]
    by_weight = [(c, c.cap, c.weight) for c in claims if c.weight > 0]
    last = [(c, c.cap, 1) for c in claims if c.weight == 0]
    for round_ in (by_quota, by_weight, last):
        for priority in sorted({c.priority for c, _, _ in round_}, reverse=True):
            members = [entry for entry in round_ if entry[0].priority == priority]
            left = _fill_level(members, given, left)
    return given


def _fill_level(members: Sequence[tuple[Claim, int, int]], given: dict[str, int], left: int) -> int:
    """Pour `left` into claims of one priority, in proportion to weight, up to their caps.

    Who is full first by its weight is filled first; once the rest cannot fill the next one, they
    divide it by weight, whole units by largest remainder. Returns what remains.
    """
    open_ = [(cap - given[c.name], weight, c.name) for c, cap, weight in members]
    open_ = [entry for entry in open_ if entry[0] > 0]
    open_.sort(key=lambda entry: (Fraction(entry[0], entry[1]), entry[2]))
    total = sum(weight for _, weight, _ in open_)
    for place, (need, weight, name) in enumerate(open_):
        if need * total > left * weight:
            return _divide(open_[place:], total, given, left)
        given[name] += need
        left -= need
        total -= weight
    return left


def _divide(
    members: Sequence[tuple[int, int, str]], total: int, given: dict[str, int], left: int
) -> int:
    """Divide all that is left by weight among claims that it does not fill; nothing remains."""
    spare = left
    for _, weight, name in members:
        given[name] += left * weight // total
        spare -= left * weight // total
    by_remainder = sorted(members, key=lambda entry: (-(left * entry[1] % total), entry[2]))
    for _, _, name in by_remainder[:spare]:
        given[name] += 1
    return 0


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
            amount = problem.use(role, resource)
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
