"""A plan with the objects that it names, looked at in several ways."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from solver.cluster import GPU_MILLI, Node
from solver.problem import Problem, RoleKey
from solver.solution import Move, Placement, Plan
from solver.workload import (
    Job,
    ResourceName,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
)


@dataclass(frozen=True, slots=True)
class Start:
    """A placement with the objects it names."""

    at: Placement
    job: Job
    role: Role
    node: Node

    @property
    def shape(self) -> Shape:
        """The request of the replica."""
        return self.role.shape

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that exist."""
        return tuple(gpu for gpu in self.at.gpus if 0 <= gpu < self.node.n_gpus)

    def milli_of(self, gpu: int) -> int | None:
        """Thousandths of that GPU which the replica needs; None where its memory is too small.

        A share by memory is rounded up: ``ceil(1000 * wanted / memory)``.
        """
        if not self.shape.share_memory_mib:
            return self.shape.share_milli or GPU_MILLI
        memory = self.node.topology.gpu_memory_mib[gpu]
        if memory is None or self.shape.share_memory_mib > memory:
            return None
        whole, rest = divmod(GPU_MILLI * self.shape.share_memory_mib, memory)
        return whole + (rest > 0)

    def __str__(self) -> str:
        return replica_name(self.at, self.job)


class Placed:
    """The placements that name things which exist, looked at in several ways."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        seen: set[tuple[str, str, int]] = set()
        starts: list[Start] = []
        for at in plan.placements:
            identity = (at.job, at.role, at.replica)
            role = problem.role_by_key.get(RoleKey(at.job, at.role))
            node = problem.node_by_name.get(at.node)
            if role is None or node is None or identity in seen:
                continue
            if not 0 <= at.replica < role.replicas:
                continue
            seen.add(identity)
            starts.append(Start(at, problem.job_by_name[at.job], role, node))
        self.starts = tuple(starts)
        self.plan = plan
        running = {job.name: job for job in problem.running}
        moved = [(running[m.job], m) for m in plan.moves if m.job in running]
        self.moved = tuple(
            _moved(job, move, problem.node_by_name[move.node])
            for job, move in moved
            if 0 <= move.replica < len(job.replicas) and move.node in problem.node_by_name
        )
        self.arrivals = (*self.starts, *self.moved)
        """All that comes to a node: new starts and running replicas that move there."""

    def staying(self, job: RunningJob) -> list[RunningReplica]:
        """Replicas of a running job that stay where they are."""
        displaced = self.plan.displaced.get(job.name, frozenset())
        return [r for number, r in enumerate(job.replicas) if number not in displaced]

    @cached_property
    def by_job(self) -> dict[str, list[Start]]:
        """New starts by job."""
        table: dict[str, list[Start]] = defaultdict(list)
        for start in self.starts:
            table[start.job.name].append(start)
        return dict(table)


def _moved(job: RunningJob, move: Move, node: Node) -> Start:
    """A running replica in its new place, held to what it asked for when it started."""
    role = Role(name="", shape=job.shapes[move.replica])
    member = Job(name=job.name, roles=(role,), queue=job.queue, priority=job.priority)
    at = Placement(job.name, "", move.replica, move.node, move.gpus, move.share_milli)
    return Start(at, member, role, node)


def replica_name(at: Placement, job: Job | None) -> str:
    """The replica in the words of messages."""
    only_role = job is None or [role.name for role in job.roles] == [at.role]
    return f'replica {at.replica} of job "{at.job if only_role else role_path(at.job, at.role)}"'


def role_path(job: str, role: str) -> str:
    """Job and role in the words of messages."""
    return f"{job}/{role}"


def left_of(problem: Problem, job: RunningJob, placed: Placed) -> Counter[ResourceName]:
    """What a running job holds once the plan has evicted and moved."""
    gone = {n for e in placed.plan.evictions if e.job == job.name for n in e.replicas}
    left: Counter[ResourceName] = Counter()
    left["gpu_milli"] = problem.instances_milli.get(job.name, 0)
    for number, replica in enumerate(job.replicas):
        if number not in gone:
            left["gpu_milli"] += replica.share_milli * len(replica.gpus)
            left["cpu_milli"] += replica.cpu_milli
            left["memory_mib"] += replica.memory_mib
    return left


def ancestry(problem: Problem, queue: str) -> Iterator[str]:
    """Yield a queue and those above it."""
    above: str | None = queue
    seen: set[str] = set()
    while above is not None and above not in seen:
        seen.add(above)
        yield above
        above = problem.queue_by_name[above].parent


def listed(names: Sequence[str]) -> str:
    """Names in quotation marks, with commas."""
    return ", ".join(f'"{name}"' for name in names)
