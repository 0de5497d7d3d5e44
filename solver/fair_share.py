"""What each queue is entitled to: its quota first, then the surplus by priority and weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.queues import Member, QueueTree
from solver.workload import RESOURCES, ResourceName, RunningJob


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
    problem: Problem, running: Iterable[RunningJob]
) -> dict[str, dict[ResourceName, int]]:
    """What running work holds, by queue and resource."""
    used: dict[str, dict[ResourceName, int]] = {
        queue.name: dict.fromkeys(RESOURCES, 0) for queue in problem.queues
    }
    for job in running:
        mine = used[job.queue]
        mine["gpu_milli"] += problem.instances_milli.get(job.name, 0)
        for replica in job.replicas:
            mine["gpu_milli"] += replica.gpu_milli
            mine["cpu_milli"] += replica.cpu_milli
            mine["memory_mib"] += replica.memory_mib
    return used


def demand(problem: Problem) -> dict[str, dict[ResourceName, int]]:
    """What each queue runs, waits for and could grow by, unless the queue states its own demand."""
    wanted = held_by_queue(problem, problem.running)
    for running in problem.running:
        for resource, amount in _growth(problem, running).items():
            wanted[running.queue][resource] += amount
    for job, role in problem.roles():
        for resource in RESOURCES:
            amount = problem.use(role, resource)
            wanted[job.queue][resource] += amount * role.replicas
    for queue in problem.queues:
        wanted[queue.name].update(queue.demand)
    return wanted


def _growth(problem: Problem, job: RunningJob) -> dict[ResourceName, int]:
    """What the replicas ask for that a running elastic job lacks; as much each as its last one."""
    lacks = (job.wanted_replicas or 0) - len(job.replicas)
    if lacks <= 0 or not job.shapes:
        return {}
    return {r: lacks * problem.amount(job.shapes[-1], r) for r in RESOURCES}


def entitlements(problem: Problem) -> Mapping[str, Mapping[ResourceName, int]]:
    """What each queue is entitled to, by resource: whole GPUs (in milli), milli-CPU, MiB.

    Level by level: the top queues divide the cluster, each with what all below it want and are
    guaranteed; then the queues below one, and its own work, divide what it got. An inner
    queue's number is that of all below it. A quota that is not said is the sum of those below.
    Past use moves the weights (`solver.queues`). Resources without a limit in the cluster entitle
    everybody to their demand.
    """
    table = member_entitlements(problem)
    return {queue.name: table[queue.name] for queue in problem.queues}


def member_entitlements(problem: Problem) -> Mapping[str, Mapping[ResourceName, int]]:
    """The same for every member of `Problem.queue_tree`, the own work of inner queues too."""
    wanted = demand(problem)
    tree = problem.queue_tree
    table: dict[str, dict[ResourceName, int]] = {q.name: {} for q in problem.queues}
    table |= {name: {} for name in tree.by_name}
    for resource in RESOURCES:
        unit = GPU_MILLI if resource == "gpu_milli" else 1
        division = Division(tree, resource, unit)
        own = {q: -(-wanted[q][resource] // unit) for q in wanted}
        capacity = problem.capacity[resource]
        shares = division.divide(own, None if capacity is None else capacity // unit)
        for name in table:
            table[name][resource] = shares.get(name, 0) * unit
    return table


class Division:
    """How one resource is divided in a tree of queues, in whole units."""

    def __init__(self, tree: QueueTree, resource: ResourceName, unit: int) -> None:
        self._tree = tree
        self._queue = {queue.name: queue for queue in tree.queues}
        self._resource = resource
        self._unit = unit

    def divide(self, own: Mapping[str, int], capacity: int | None) -> dict[str, int]:
        """What every member gets of so much; None is no limit.

        Parameters
        ----------
        own
            What each queue wants itself; what it says of its demand is for all below it.
        """
        given: dict[str, int] = {}
        for head, members in self._tree.families.items():  # The outermost first.
            claims = [self._claim(member, own) for member in members]
            amount = capacity if head is None else given[head]
            if amount is None:  # Only at the top; what a queue has got is a number.
                given |= {claim.name: claim.cap for claim in claims}
            else:
                given |= water_fill(claims, amount)
        return given

    def _claim(self, member: Member, own: Mapping[str, int]) -> Claim:
        return Claim(
            name=member.name,
            priority=member.priority,
            weight=member.weight,
            quota=member.quota.get(self._resource, 0) // self._unit,
            cap=own[member.queues[0]] if member.is_own else self._cap(member.name, own),
        )

    def _cap(self, name: str, own: Mapping[str, int]) -> int:
        queue = self._queue[name]
        wanted = own[name]
        if self._resource not in queue.demand:
            below = self._tree.families.get(name, ())
            wanted += sum(self._cap(member.name, own) for member in below if not member.is_own)
        limit = queue.limit.get(self._resource)
        return wanted if limit is None else min(wanted, -(-limit // self._unit))
