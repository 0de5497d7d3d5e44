"""Improves what a `Packer` has started: starts what nearly fits, and the older for the younger.

Three moves, each undone where it does not pay:

* *fill*: start a waiting job;
* *swap*: where a replica misses CPU or memory on a node with enough idle GPUs, exchange a hungry
  replica there for a lean one with as many GPUs elsewhere;
* *exchange*: stop younger jobs of the same level for an older one that waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from solver.aggregate.packer import Packer
from solver.problem import Problem
from solver.stock import Floats, Ints, Numbers
from solver.workload import Job, LinkRule, Role, Shape

MOST_SETS = 4
"""Sets of jobs that are tried for one exchange."""

HARM = 20
"""How much worse it is to stop a job one level higher."""

MOST_SWAPS = 3
"""Exchanges of replicas that may make room for one replica."""


class Polisher:
    """Moves on one packer; its levels are those of priority."""

    def __init__(self, packer: Packer, deadline_s: float) -> None:
        self._packer = packer
        self._problem: Problem = packer.problem
        self._deadline_s = deadline_s
        self._table: _Table | None = None
        self._made_at = -1

    def fill(self, jobs: Iterable[Job]) -> int:
        """Start what waits of `jobs`, in this order, with swaps where they help; how many."""
        started = 0
        for job in jobs:
            if time.monotonic() > self._deadline_s:
                break
            if job.name not in self._packer.seats and self._start(job):
                started += 1
        return started

    def claim(self, job: Job, lower: Sequence[Job]) -> bool:
        """Start a job where jobs of lower levels make way; those are stopped whole.

        The nodes are those where least has to be stopped for it.
        """
        packer, stock = self._packer, self._packer.stock
        if not self._plain(job, bound=True):
            return False
        shape, wanted = job.roles[0].shape, job.roles[0].min_replicas
        there = [other for other in lower if other.name in packer.seats]
        levels = sorted({other.priority for other in there})
        idle, cpu, memory = stock.idle.copy(), stock.cpu.copy(), stock.memory.copy()
        damage = np.zeros(len(idle))
        on_node: dict[int, set[int]] = {}
        for number, other in enumerate(there):
            size = self._milli(other) * HARM ** levels.index(other.priority)
            for role in other.roles:
                for seat in packer.seats[other.name].get(role.name, ()):
                    n = seat.node
                    idle[n] += role.shape.gpus
                    cpu[n] += role.shape.cpu_milli
                    memory[n] += role.shape.memory_mib
                    if number not in on_node.setdefault(n, set()):
                        on_node[n].add(number)
                        damage[n] += size
        room = np.where(stock.hosting(shape), idle // shape.gpus, 0)
        if shape.cpu_milli:
            room = np.minimum(room, cpu // shape.cpu_milli)
        if shape.memory_mib:
            room = np.minimum(room, memory // shape.memory_mib)
        chosen = self._least_damage(job, room, damage, wanted)
        if chosen is None:
            return False
        victims = sorted({number for n in chosen for number in on_node.get(int(n), ())})
        return self._instead([job], [there[number] for number in victims])

    def _least_damage(self, job: Job, room: Ints, damage: Floats, wanted: int) -> Numbers | None:
        """Nodes with room for all, in one group where the job has to stay in one."""
        rule = job.topology
        at = np.flatnonzero(room)
        if rule is not None and rule.required:
            group_of = self._packer.group_of(rule.within)
            price = np.bincount(group_of, weights=np.where(room > 0, damage, 0))
            large = np.bincount(group_of, weights=np.minimum(room, wanted)) >= wanted
            if not large.any():
                return None
            best = min(np.flatnonzero(large), key=lambda group: price[group])
            at = at[group_of[at] == best]
        elif int(room.sum()) < wanted:
            return None
        at = at[np.argsort(damage[at] / room[at], kind="stable")]
        return at[: int(np.searchsorted(np.cumsum(room[at]), wanted)) + 1]

    def exchange(self, jobs: Sequence[Job]) -> int:
        """For waiting jobs, oldest first, stop younger ones of the same size together; how many.

        Then the other way round: several older ones for one that is younger.
        """
        position = self._problem.position
        done = 0
        for job in sorted(jobs, key=lambda j: position[j.name]):
            if job.name not in self._packer.seats and self._milli(job):
                youngest = [j for j in jobs if j.name in self._packer.seats]
                youngest = [j for j in youngest if position[j.name] > position[job.name]]
                youngest.sort(key=lambda j: -position[j.name])
                done += self._any_instead([job], self._sums(youngest, self._milli(job)))
        for job in sorted(jobs, key=lambda j: -position[j.name]):
            if job.name in self._packer.seats and self._milli(job):
                oldest = [j for j in jobs if j.name not in self._packer.seats]
                oldest = [j for j in oldest if position[j.name] < position[job.name]]
                oldest.sort(key=lambda j: position[j.name])
                for others in self._sums(oldest, self._milli(job)):
                    if self._late() or self._instead(others, [job]):
                        done += 1
                        break
        return done

    def _sums(self, jobs: Sequence[Job], milli: int) -> Iterator[list[Job]]:
        """Sets of jobs that take exactly so many GPUs, those of the first jobs first."""
        reached: dict[int, tuple[Job, ...]] = {0: ()}
        found = 0
        for job in jobs:
            size = self._milli(job)
            if not size or size > milli:
                continue
            for total, chosen in list(reached.items()):
                if total + size == milli:
                    yield [*chosen, job]
                    found += 1
                    if found == MOST_SETS:
                        return
                elif total + size < milli:
                    reached.setdefault(total + size, (*chosen, job))

    def _any_instead(self, started: Sequence[Job], sets: Iterable[list[Job]]) -> bool:
        return any(not self._late() and self._instead(started, stopped) for stopped in sets)

    def _late(self) -> bool:
        return time.monotonic() > self._deadline_s

    def _milli(self, job: Job) -> int:
        return sum(r.min_replicas * self._problem.gpu_milli(r.shape) for r in job.roles)

    def _instead(self, started: Sequence[Job], stopped: Sequence[Job]) -> bool:
        """Start some jobs on what others leave; or nothing changes."""
        packer = self._packer
        before = [(job, packer.stop(job)) for job in stopped]
        new: list[Job] = []
        for job in started:
            if not packer.start(job):
                break
            new.append(job)
        if len(new) == len(started):
            return True
        for job in new:
            packer.stop(job)
        for job, seats in before:
            packer.restore(job, seats)
        return False

    def _start(self, job: Job) -> bool:
        if self._packer.start(job):
            return True
        stock = self._packer.stock
        if not self._plain(job) or self._milli(job) > int(stock.milli.sum()):
            return False
        shape, wanted = job.roles[0].shape, job.roles[0].min_replicas
        table = self._table_of_now()
        for _ in range(MOST_SWAPS * wanted):
            if not table.make_room(shape):
                break
            if self._packer.start(job):
                self._table = None
                return True
        table.undo()
        return False

    def _table_of_now(self) -> _Table:
        """The table of seated replicas, made anew only where jobs came or went."""
        if self._table is None or self._made_at != self._packer.changes:
            self._table, self._made_at = _Table(self._packer), self._packer.changes
        return self._table

    def _plain(self, job: Job, *, bound: bool = False) -> bool:
        """One role with whole GPUs and nothing else to look at, but for a group if `bound`."""
        rule = job.topology
        free = rule is None or not rule.required or (bound and rule.within != "island")
        return free and (
            len(job.roles) == 1
            and job.gang
            and job.roles[0].shape.gpus > 0
            and job.spread is None
            and job.start_group is None
        )


class _Table:
    """The seated replicas that may change places, as arrays."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._stock = packer.stock
        self._at: list[tuple[Job, Role, int]] = []
        rows: list[tuple[int, int, int, int]] = []
        for name, seats in packer.seats.items():
            job = packer.problem.job_by_name[name]
            if job.spread is not None or (job.topology is not None and job.topology.required):
                continue
            for role in job.roles:
                shape = role.shape
                if not shape.gpus or shape.link is LinkRule.REQUIRED or shape.gpu_models:
                    continue
                for place, seat in enumerate(seats.get(role.name, ())):
                    self._at.append((job, role, place))
                    rows.append((seat.node, shape.gpus, shape.cpu_milli, shape.memory_mib))
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._node, self._gpus, self._cpu, self._memory = (column.copy() for column in table.T)
        self._traded: list[tuple[int, int]] = []

    def make_room(self, shape: Shape) -> bool:
        """One exchange after which a node with enough idle GPUs has room for the shape."""
        stock = self._stock
        short_cpu = shape.cpu_milli - stock.cpu
        short_memory = shape.memory_mib - stock.memory
        short = (stock.idle >= shape.gpus) & stock.hosting(shape)
        short &= (short_cpu > 0) | (short_memory > 0)
        for n in np.flatnonzero(short):
            for mine in np.flatnonzero(self._node == n):
                lean = self._partners(int(mine), int(short_cpu[n]), int(short_memory[n]))
                if len(lean):
                    self._trade(int(mine), int(lean[0]))
                    return True
        return False

    def _partners(self, mine: int, short_cpu: int, short_memory: int) -> NDArray[np.intp]:
        """Replicas elsewhere with as many GPUs that are leaner by what is short."""
        saves_cpu = self._cpu[mine] - self._cpu
        saves_memory = self._memory[mine] - self._memory
        stock, node = self._stock, self._node
        good = (self._gpus == self._gpus[mine]) & (node != node[mine])
        good &= (saves_cpu >= short_cpu) & (saves_memory >= short_memory)
        good &= (stock.cpu[node] >= saves_cpu) & (stock.memory[node] >= saves_memory)
        _, role, _ = self._at[mine]
        good &= stock.hosting(role.shape)[node]
        at = np.flatnonzero(good)
        if not len(at):
            return at
        home = int(node[mine])
        return np.array(
            [b for b in at[:16] if stock.hosting(self._at[b][1].shape)[home]], dtype=np.intp
        )

    def undo(self) -> None:
        """Take all exchanges back, the last one first."""
        for one, two in reversed(self._traded):
            self._swap(one, two)
        self._traded = []

    def _trade(self, one: int, two: int) -> None:
        self._swap(one, two)
        self._traded.append((one, two))

    def _swap(self, one: int, two: int) -> None:
        seats = self._packer.seats
        (job_1, role_1, at_1), (job_2, role_2, at_2) = self._at[one], self._at[two]
        seat_1, seat_2 = seats[job_1.name][role_1.name][at_1], seats[job_2.name][role_2.name][at_2]
        self._stock.give_back(role_1.shape, seat_1)
        self._stock.give_back(role_2.shape, seat_2)
        self._stock.put(role_1.shape, seat_2)
        self._stock.put(role_2.shape, seat_1)
        seats[job_1.name][role_1.name][at_1] = seat_2
        seats[job_2.name][role_2.name][at_2] = seat_1
        self._node[one], self._node[two] = self._node[two], self._node[one]
