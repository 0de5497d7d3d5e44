"""What a plan amounts to, from the definitions: usage, shares, topology cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from solver.aftermath import standing
from solver.cluster import GPU_MILLI, HOSTNAME, Node
from solver.fair_share import held_by_queue
from solver.fit import capacity
from solver.problem import Problem, RoleKey
from solver.queues import Member
from solver.solution import Placement, Plan
from solver.workload import RESOURCES, Job, ResourceName, Shape
from topology.scoring import lost_gb_s

SHARE_SCALE = 1_000_000
"""Weighted shares are whole millionths, so that models and measurements agree exactly."""

Amounts = Mapping[ResourceName, int]

Usage = Mapping[str, Amounts]
"""Queue name to amount by resource."""

Entitlements = Mapping[str, Mapping[ResourceName, int]]


def usage(problem: Problem, plan: Plan, *, from_priority: int | None = None) -> Usage:
    """What each queue holds once the plan has started.

    Parameters
    ----------
    from_priority
        Count only work of this priority and above; None counts everything.
    """
    left = standing(problem, plan)
    running = [j for j in left if from_priority is None or j.priority >= from_priority]
    used = held_by_queue(problem, running)
    for key, count in plan.started.items():
        job = problem.job_by_name[key.job]
        if from_priority is None or job.priority >= from_priority:
            role = problem.role_by_key[key]
            for resource in RESOURCES:
                used[job.queue][resource] += count * problem.use(role, resource)
    return used


def member_usage(member: Member, used: Usage) -> dict[ResourceName, int]:
    """What the queues of a member hold together."""
    return {r: sum(used[queue][r] for queue in member.queues) for r in RESOURCES}


def guaranteed(problem: Problem, used: Usage, resource: ResourceName, depth: int = 0) -> int:
    """Sum over the members at one depth of the tree of min(used, quota) of a resource."""
    levels = problem.queue_tree.levels
    return sum(
        min(member_usage(member, used)[resource], member.quota.get(resource, 0))
        for member in (levels[depth] if levels else ())
    )


def scaled_share(amount: int, capacity: int, weight: int) -> int:
    """`amount` as a share of `capacity`, over a weight, in whole millionths (rounded down)."""
    return amount * SHARE_SCALE // (capacity * weight)


def surplus_share(problem: Problem, used: Mapping[ResourceName, int], name: str) -> int:
    """Weighted dominant share of what a member uses beyond its quota, in millionths.

    ``max over resources of (used - min(used, quota)) / capacity``, divided by its weight now
    (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, for what goes beyond the quota).
    """
    member = problem.queue_tree.by_name[name]
    unit = problem.queue_tree.weight_unit
    shares = [0]
    for resource in RESOURCES:
        capacity = problem.capacity[resource]
        if capacity:
            beyond = max(0, used[resource] - member.quota.get(resource, 0))
            shares.append(scaled_share(beyond * unit, capacity, member.weight or unit))
    return max(shares)


def dominant_share(problem: Problem, used: Mapping[ResourceName, int]) -> float:
    """Largest of a queue's shares over resources, from 0 to 1."""
    shares = [0.0]
    for resource in RESOURCES:
        capacity = problem.capacity[resource]
        if capacity:
            shares.append(used[resource] / capacity)
    return max(shares)


def competing(problem: Problem) -> tuple[tuple[Member, ...], ...]:
    """Those that fairness is about, by depth: with work (running or pending) and a weight.

    One that has no such peer in its family has nobody to be fair to, and is left out.
    """
    active = {work.queue for work in problem.work}
    found: dict[int, tuple[Member, ...]] = {}
    for members in problem.queue_tree.families.values():
        rivals = tuple(m for m in members if m.weight > 0 and active.intersection(m.queues))
        if len(rivals) > 1:
            depth = rivals[0].depth
            found[depth] = (*found.get(depth, ()), *rivals)
    return tuple(found.get(depth, ()) for depth in range(max(found, default=-1) + 1))


def fairness_vector(
    problem: Problem, used: Usage, entitled: Entitlements, depth: int = 0
) -> tuple[int, ...]:
    """Weighted surplus shares of those that compete at a depth, none beyond its entitlement.

    Smallest first: lexicographic max-min compares such vectors. Families at the same depth are
    taken together: each has its own max-min then, as far as they do not take from each other.

    Parameters
    ----------
    entitled
        Of all members (`solver.fair_share.member_entitlements`).
    """
    return tuple(
        sorted(
            min(
                surplus_share(problem, member_usage(member, used), member.name),
                surplus_share(problem, entitled[member.name], member.name),
            )
            for member in competing(problem)[depth]
        )
    )


def topology_levels(problem: Problem) -> tuple[str, ...]:
    """Group levels that can make a difference, outermost first.

    A level whose groups are those of the next inner level says nothing new, nor does one with
    a single group.
    """
    partitions = {level: list(problem.groups[level].values()) for level in problem.group_levels}
    kept = []
    for place, level in enumerate(problem.group_levels):
        inner = problem.group_levels[place + 1 : place + 2]
        same = bool(inner) and partitions[level] == partitions[inner[0]]
        if len(partitions[level]) > 1 and not same:
            kept.append(level)
    return tuple(kept)


def spread_counts(job: Job) -> bool:
    """Whether the topology cost looks at the groups that this job spans: new gangs of several."""
    return job.gang and job.replicas > 1 and job.running is None


def counts_for_spread(job: Job, shape: Shape) -> bool:
    """Whether replicas of this shape count among those that span groups.

    In a job with GPUs, only the replicas that hold some.
    """
    return shape.wants_gpu or job.cpu_only


class FewestGroups:
    """The fewest groups of a level that could hold replicas of a shape on the empty cluster."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._tables: dict[tuple[Shape, str], list[tuple[int, int]]] = {}
        self._compositions: dict[str, Counter[frozenset[tuple[Node, int]]]] = {}

    def __call__(self, shape: Shape, level: str, replicas: int) -> int:
        """Fewest groups for so many replicas; 0 for none.

        Where even the whole empty cluster cannot hold them, all groups that hold any.
        """
        left, groups = replicas, 0
        for holds, alike in self._capacities(shape, level):
            if left <= 0:
                break
            taken = min(alike, -(-left // holds))
            left -= taken * holds
            groups += taken
        return groups

    def _capacities(self, shape: Shape, level: str) -> list[tuple[int, int]]:
        """Replicas that groups hold, with how many groups hold as many; most first."""
        key = (shape, level)
        if key not in self._tables:
            sums: Counter[int] = Counter()
            if any(label == HOSTNAME for label, _ in shape.node_selector):
                groups = self._problem.groups[level].values()
                sums.update(sum(capacity(n, shape) for n in nodes) for nodes in groups)
            else:
                takes = {kind: capacity(kind, shape) for kind in self._kinds}
                for kinds, groups_alike in self._alike(level).items():
                    holds = sum(count * takes[kind] for kind, count in kinds)
                    sums[holds] += groups_alike
            self._tables[key] = sorted(((c, n) for c, n in sums.items() if c), reverse=True)
        return self._tables[key]

    @cached_property
    def _kinds(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(node.kind for node in self._problem.nodes))

    def _alike(self, level: str) -> Counter[frozenset[tuple[Node, int]]]:
        """How many groups there are of each make-up: kinds of nodes with their number."""
        if level not in self._compositions:
            self._compositions[level] = Counter(
                frozenset(Counter(node.kind for node in nodes).items())
                for nodes in self._problem.groups[level].values()
            )
        return self._compositions[level]


def excess_groups(
    problem: Problem, plan: Plan, level: str, fewest: FewestGroups | None = None
) -> int:
    """Topology cost of all started gangs at one level: groups spanned minus fewest possible.

    The fewest possible of a gang is that of its most demanding role, for the replicas started.
    """
    fewest = fewest or FewestGroups(problem)
    total = 0
    for name, placements in plan.by_job.items():
        job = problem.job_by_name[name]
        if not spread_counts(job):
            continue
        shapes = {role.name: role.shape for role in job.roles}
        counted = [p for p in placements if counts_for_spread(job, shapes[p.role])]
        groups = {problem.node_by_name[p.node].group(level, problem.levels) for p in counted}
        started = Counter(p.role for p in counted)
        least = max((fewest(shapes[r], level, n) for r, n in started.items()), default=0)
        total += max(0, len(groups) - least)
    return total


def lost_bandwidth_gb_s(problem: Problem, plan: Plan) -> int:
    """Topology cost of all new placements: bandwidth lost against the best GPU sets."""
    return sum(
        lost_gb_s(problem.node_by_name[p.node].topology, p.gpus)
        for p in plan.placements
        if len(p.gpus) > 1 and not problem.role_by_key[RoleKey(p.job, p.role)].held
    )


def shape_label(shape: Shape) -> str:
    """A short name of a shape for tables: GPUs, CPU, memory and what else it insists on.

    Examples
    --------
    >>> shape_label(Shape(gpus=8, cpu_milli=96_000, memory_mib=1 << 20))
    '8 GPU / 96 CPU / 1024 GiB'
    """
    if shape.slices:
        parts = [" + ".join(f"{count} x {wish}" for wish, count in shape.slices)]
    elif shape.share_memory_mib:
        parts = [f"{shape.share_memory_mib / 1024:g} GiB of a GPU"]
        if shape.compute_milli:
            parts = [f"{shape.share_memory_mib / 1024:g} GiB and {_parts(shape)} of a GPU"]
    elif shape.share_milli:
        parts = [f"{shape.share_milli / GPU_MILLI:g} GPU"]
    else:
        parts = [f"{shape.gpus} GPU"]
    if shape.cpu_milli:
        parts.append(f"{shape.cpu_milli / 1000:g} CPU")
    if shape.memory_mib:
        parts.append(f"{shape.memory_mib / 1024:g} GiB")
    if shape.gpu_models:
        parts.append("|".join(shape.gpu_models))
    if shape.link != "none":
        parts.append(f"link {shape.link.value}")
    parts += [f"{key}={value}" for key, value in shape.node_selector]
    return " / ".join(parts)


def started_milli(problem: Problem, plan: Plan) -> int:
    """GPU-milli that all new starts hold where they are; slices by their memory slots."""
    return sum(placed_milli(problem, placement) for placement in plan.placements)


def placed_milli(problem: Problem, placement: Placement) -> int:
    """GPU-milli that one replica holds where it is; an instance its part of the memory slots."""
    total = placement.share_milli * len(placement.gpus)
    tables = problem.node_by_name[placement.node].mig_tables
    for entry in placement.instances:
        table = tables[entry.gpu]
        if table is not None:
            size = table.by_name[entry.instance.profile].size
            total += size * GPU_MILLI // table.slots
    return total


def admitted_jobs(problem: Problem, plan: Plan) -> int:
    """Jobs that start: gangs with their minimum, jobs of independent replicas with any."""
    return sum(1 for job in problem.jobs if any(_started(plan, job)))


def _started(plan: Plan, job: Job) -> list[int]:
    return [plan.started.get(RoleKey(job.name, role.name), 0) for role in job.roles]


def _parts(shape: Shape) -> str:
    return f"{shape.compute_milli / GPU_MILLI:g} of the compute"
