"""Every plan of a tiny problem, one of each kind, and the best of them.

What runs already may stay, be evicted replica by replica, or move; `verify` says what may not be.

Independent of the solver: it tries every replica on every node with every set of GPUs, drops what
the node cannot hold, and lets `verify` have the last word. Only plans that are the same up to
renaming are left out: replicas of a role, nodes that are alike, GPUs of a node that are alike.

That leaves one plan of each kind, since a plan can always be written so that (1) replicas of a
role come in order of their places, those that do not start last, and (2) the first use of alike
nodes or GPUs is that of the first of them; the least such spelling satisfies both at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING

from solver.cluster import GPU_MILLI, Node
from solver.solution import Eviction, Move, Placement, Plan
from solver.tiers import Ruler
from solver.verify import verify
from solver.workload import Job, LinkRule, Role, RunningJob, Shape
from topology.scoring import is_linked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from solver.problem import Problem

PATIENCE = 20_000
"""Choices tried before a problem counts as too large."""


class TooManyPlansError(Exception):
    """The problem is not tiny."""


Holder = tuple[str, str]
"""Job and role of a replica."""


@dataclass
class Host:
    """A node while the plan is being written."""

    node: Node
    gpu_left: list[int]
    cpu_left: int | None
    memory_left: int | None
    held: dict[int, list[Holder]] = field(default_factory=lambda: defaultdict(list))
    guests: list[tuple[Holder, tuple[int, ...]]] = field(default_factory=list)

    def gpu_kind(self, gpu: int) -> tuple[object, ...]:
        """GPUs of one kind can be exchanged; where links or models differ, none can."""
        alike = self.node.topology.is_uniform
        return (-1 if alike else gpu, self.gpu_left[gpu], tuple(sorted(self.held[gpu])))

    def kind(self, by_hostname: bool) -> tuple[object, ...]:
        """Nodes of one kind can be exchanged: the same machine, place, labels, and guests."""
        node = self.node
        return (
            node.name if by_hostname else "",
            id(node.topology),
            tuple(sorted(node.location.items())),
            tuple(sorted(node.labels.items())),
            node.taints,
            tuple(self.gpu_left),
            self.cpu_left,
            self.memory_left,
            tuple((gpu, tuple(sorted(held))) for gpu, held in sorted(self.held.items()) if held),
            tuple(sorted(self.guests)),
        )


@dataclass(frozen=True)
class Seat:
    """A replica that is to be placed or, unless it moves, left out."""

    job: Job
    role: Role
    replica: int
    moves: bool = False


@dataclass(frozen=True)
class Displacement:
    """Replicas of one running job that are evicted, and those that move."""

    job: RunningJob
    evicted: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()


class Enumeration:
    """All plans of a problem, one of each kind, the empty one included."""

    def __init__(self, problem: Problem, patience: int = PATIENCE) -> None:
        self._problem = problem
        self._patience = patience
        self._hosts: list[Host] = []
        self._evictions: list[Eviction] = []
        self._by_hostname = any(
            key == "kubernetes.io/hostname"
            for _, role in problem.roles()
            for key, _ in role.shape.node_selector
        )
        self._new = [
            Seat(job, role, replica)
            for job, role in problem.roles()
            for replica in range(role.replicas)
        ]
        self._seats = self._new
        self._written: list[Placement] = []
        self._moved: list[Move] = []

    def __iter__(self) -> Iterator[Plan]:
        # Without a reason nothing may be displaced, whatever it is.
        in_question = self._problem.running if self._problem.preempt_for else ()
        for choice in product(*map(_displacements, in_question)):
            self._begin(choice)
            for plan in self._continue(0, None):
                if not verify(self._problem, plan):
                    yield plan

    def _begin(self, choice: tuple[Displacement, ...]) -> None:
        gone = {d.job.name: {*d.evicted, *d.moved} for d in choice}
        nodes = [node for node in self._problem.nodes if node.schedulable]
        self._hosts = [_host(self._problem, node, gone) for node in nodes]
        self._evictions = [Eviction(d.job.name, d.evicted) for d in choice if d.evicted]
        movers = [_mover(d.job, number) for d in choice for number in d.moved]
        self._seats = [*movers, *self._new]

    def _continue(self, at: int, last: tuple[int, tuple[int, ...]] | None) -> Iterator[Plan]:
        """Plans from the seat `at` on; `last` is the place of the replica before in its role."""
        self._patience -= 1
        if self._patience < 0:
            raise TooManyPlansError
        if at == len(self._seats):
            yield Plan.of(self._written, self._evictions, self._moved)
            return
        seat = self._seats[at]
        for index, gpus, milli in self._places(seat.role.shape):
            if last is not None and (index, gpus) < last:
                continue
            self._sit(seat, index, gpus, milli)
            next_last = (index, gpus) if self._same_role(at + 1, seat) else None
            yield from self._continue(at + 1, next_last)
            self._leave(seat, index, gpus, milli)
        after = at + seat.role.replicas - seat.replica
        if self._may_stop(seat):
            yield from self._continue(after, None)

    def _same_role(self, at: int, seat: Seat) -> bool:
        following = self._seats[at] if at < len(self._seats) else None
        return following is not None and (following.job, following.role) == (seat.job, seat.role)

    def _may_stop(self, seat: Seat) -> bool:
        """Whether the role may end here: gangs that have begun must reach their minimum."""
        if seat.moves:
            return False
        if not seat.job.gang or seat.replica >= seat.role.min_replicas:
            return True
        return all(p.job != seat.job.name for p in self._written)

    def _places(self, shape: Shape) -> Iterator[tuple[int, tuple[int, ...], int]]:
        seen: set[tuple[object, ...]] = set()
        for index, host in enumerate(self._hosts):
            kind = host.kind(self._by_hostname)
            if kind in seen:
                continue
            seen.add(kind)
            if host.cpu_left is not None and shape.cpu_milli > max(host.cpu_left, 0):
                continue
            if host.memory_left is not None and shape.memory_mib > max(host.memory_left, 0):
                continue
            for gpus, milli in _gpu_sets(host, shape):
                yield index, gpus, milli

    def _sit(self, seat: Seat, index: int, gpus: tuple[int, ...], milli: int) -> None:
        self._change(seat, index, gpus, milli, 1)
        host, holder = self._hosts[index], (seat.job.name, seat.role.name)
        host.guests.append((holder, gpus))
        for gpu in gpus:
            host.held[gpu].append(holder)
        where = (seat.replica, host.node.name, gpus, milli)
        if seat.moves:
            self._moved.append(Move(seat.job.name, *where))
        else:
            self._written.append(Placement(*holder, *where))

    def _leave(self, seat: Seat, index: int, gpus: tuple[int, ...], milli: int) -> None:
        self._change(seat, index, gpus, milli, -1)
        host = self._hosts[index]
        host.guests.pop()
        for gpu in gpus:
            host.held[gpu].pop()
        (self._moved if seat.moves else self._written).pop()

    def _change(self, seat: Seat, index: int, gpus: tuple[int, ...], milli: int, sign: int) -> None:
        host, shape = self._hosts[index], seat.role.shape
        for gpu in gpus:
            host.gpu_left[gpu] -= sign * milli
        if host.cpu_left is not None:
            host.cpu_left -= sign * shape.cpu_milli
        if host.memory_left is not None:
            host.memory_left -= sign * shape.memory_mib


def _displacements(job: RunningJob) -> Iterator[Displacement]:
    """Every way to displace replicas of a running job; the first is none."""
    numbers = range(len(job.replicas))
    for size in range(len(numbers) + 1):
        for displaced in combinations(numbers, size):
            for moving in range(size + 1) if job.preemption.movable else (0,):
                for moved in combinations(displaced, moving):
                    evicted = tuple(n for n in displaced if n not in moved)
                    if job.preemption.allowed or not evicted:
                        yield Displacement(job, evicted, moved)


def _mover(job: RunningJob, number: int) -> Seat:
    role = Role(name="", shape=job.shapes[number])
    member = Job(name=job.name, roles=(role,), queue=job.queue, priority=job.priority)
    return Seat(member, role, number, moves=True)


def _host(problem: Problem, node: Node, gone: Mapping[str, set[int]]) -> Host:
    held = [
        replica
        for job in problem.running
        for number, replica in enumerate(job.replicas)
        if replica.node == node.name and number not in gone.get(job.name, ())
    ]
    out = node.unhealthy_gpus | node.mig_gpus
    left = [0 if gpu in out else GPU_MILLI for gpu in range(node.n_gpus)]
    for replica in held:
        for gpu in replica.gpus:
            left[gpu] -= replica.share_milli
    cpu, memory = node.cpu_milli, node.memory_mib
    return Host(
        node,
        left,
        None if cpu is None else cpu - sum(r.cpu_milli for r in held),
        None if memory is None else memory - sum(r.memory_mib for r in held),
    )


def _gpu_sets(host: Host, shape: Shape) -> Iterator[tuple[tuple[int, ...], int]]:
    """Sets of GPUs with room for one replica and the thousandths it holds of each."""
    if not shape.wants_gpu:
        yield (), GPU_MILLI
        return
    topology = host.node.topology
    seen: set[tuple[object, ...]] = set()
    for gpus in combinations(range(topology.n_gpus), shape.gpus or 1):
        needs = [shape.milli_on(topology.gpu_memory_mib[gpu]) for gpu in gpus]
        if any(n is None or n > host.gpu_left[g] for g, n in zip(gpus, needs, strict=True)):
            continue
        if shape.link is LinkRule.REQUIRED and not is_linked(topology, gpus):
            continue
        kind = tuple(sorted(host.gpu_kind(gpu) for gpu in gpus))
        if kind not in seen:
            seen.add(kind)
            yield gpus, needs[0] or GPU_MILLI


def best_values(problem: Problem, patience: int = PATIENCE) -> tuple[int, ...]:
    """Values of the lexicographically best plan in every step.

    Raises
    ------
    TooManyPlansError
        The problem has more plans than patience allows.
    """
    ruler = Ruler(problem)
    plans = list(Enumeration(problem, patience))
    values: list[int] = []
    for step in ruler.steps:
        measured = [ruler.value(step, plan) for plan in plans]
        best = max(measured) if step.sense == "max" else min(measured)
        plans = [plan for plan, value in zip(plans, measured, strict=True) if value == best]
        values.append(best)
    return tuple(values)
