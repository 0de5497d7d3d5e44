"""Puts whole gangs onto named nodes, each by a few array operations, and can take them back.

A gang goes to as few nodes as will hold it: those that take most of its replicas, and for the rest
the node that fits most tightly. Among equals poor nodes come first: those with the least CPU and
memory for each idle GPU, because what is rich in them is what hungry replicas will need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.ledger import Ledger
from solver.problem import Problem
from solver.solution import Placement, Plan
from solver.stock import Ints, Numbers, Seat, Stock
from solver.workload import RESOURCES, Job, ResourceName, Role, Shape

MANY = 1_000
"""Replicas of one role on one node, where nothing limits them."""

Seats = dict[str, list[Seat]]
"""Where the replicas of one job sit, by role."""


@dataclass(frozen=True, slots=True)
class Move:
    """The replicas of one role that sit on some nodes are to sit elsewhere.

    Parameters
    ----------
    away_from
        Numbers of the nodes that they leave.
    to
        Numbers of the nodes that they go to, one for each replica.
    """

    job: Job
    role: Role
    away_from: frozenset[int]
    to: tuple[int, ...]


class Packer:
    """A plan in the making, on a `Stock`.

    Attributes
    ----------
    seats
        Job name to its seats; jobs that have not started are missing.
    changes
        Counts how often jobs came or went.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.stock = Stock(problem)
        self.ledger = Ledger(problem)
        self.seats: dict[str, Seats] = {}
        self.changes = 0
        self._levels = tuple(reversed(problem.group_levels))
        self._wanted_levels = self._levels_to_keep_few()
        self._richness = self._relative_richness()

    def _levels_to_keep_few(self) -> tuple[str, ...]:
        """Levels of several nodes in which a gang had better span few groups, innermost first."""
        levels = []
        for level in self._levels:
            groups = self.problem.groups[level]
            if level != "node" and 1 < len(groups) < len(self.problem.nodes):
                levels.append(level)
        return tuple(levels)

    def _relative_richness(self) -> tuple[float, float]:
        """What one idle GPU comes with on average: milli-CPU and MiB."""
        idle = max(1, int(self.stock.idle.sum()))
        return (
            max(1.0, float(self.stock.cpu.sum()) / idle),
            max(1.0, float(self.stock.memory.sum()) / idle),
        )

    def copy(self) -> Packer:
        """The same plan, which goes its own way from here."""
        twin = copy(self)
        twin.stock = self.stock.copy()
        twin.ledger = self.ledger.copy()
        twin.seats = {
            job: {role: list(places) for role, places in seats.items()}
            for job, seats in self.seats.items()
        }
        return twin

    # -- starting and stopping ----------------------------------------------------------------

    def start(self, job: Job, *, most: bool = False) -> bool:
        """Place the minimum of a gang (all replicas if `most`): all of it, or nothing changes."""
        counts = {
            role.name: role.replicas if most or not job.gang else role.min_replicas
            for role in job.roles
        }
        return self.place(job, counts)

    def place(self, job: Job, counts: Mapping[str, int]) -> bool:
        """Place so many more replicas of each role: all of them, or nothing changes."""
        amounts = self._amounts(job, counts)
        if not self.ledger.allows(job.queue, amounts):
            return False
        for nodes in self._regions(job, counts):
            mark = self.stock.mark()
            seats = self._fill(job, counts, nodes)
            if seats is not None:
                self._book(job, seats)
                return True
            self.stock.roll_back(mark)
        return False

    def stop(self, job: Job) -> Seats:
        """Take a job off its seats, which are returned so that `restore` can undo it."""
        seats = self.seats.pop(job.name)
        self.changes += 1
        for role in job.roles:
            taken = seats.get(role.name, ())
            for seat in taken:
                self.stock.give_back(role.shape, seat)
            self.ledger.add(job.queue, role.shape, -len(taken))
        return seats

    def plan(self) -> Plan:
        """The plan as it stands."""
        return Plan.of(
            Placement(
                job=job,
                role=role,
                replica=number,
                node=self.stock.nodes[seat.node].name,
                gpus=seat.gpus,
                share_milli=seat.share_milli,
            )
            for job, seats in self.seats.items()
            for role, places in seats.items()
            for number, seat in enumerate(places)
        )

    def _book(self, job: Job, seats: Seats) -> None:
        self.changes += 1
        mine = self.seats.setdefault(job.name, {})
        for role in job.roles:
            places = seats.get(role.name, [])
            if places:
                mine.setdefault(role.name, []).extend(places)
                self.ledger.add(job.queue, role.shape, len(places))

    def _amounts(self, job: Job, counts: Mapping[str, int]) -> dict[ResourceName, int]:
        total = dict.fromkeys(RESOURCES, 0)
        for role in job.roles:
            for resource, amount in self.ledger.amounts(role.shape).items():
                total[resource] += counts.get(role.name, 0) * amount
        return total

    # -- where --------------------------------------------------------------------------------

    def group_of(self, level: str) -> Numbers:
        """The number of the group of a level that each node is in."""
        return self.stock.group_of(level)

    def _regions(self, job: Job, counts: Mapping[str, int]) -> Iterator[Numbers]:
        """Sets of nodes that may hold all of it, the best one first."""
        wanted = [(role, counts[role.name]) for role in job.roles if counts.get(role.name)]
        everywhere = np.arange(len(self.stock.nodes), dtype=np.intp)
        if not wanted:
            yield everywhere[:0]
            return
        rooms = [np.minimum(self.stock.room(role.shape), MANY) for role, _ in wanted]
        rule = job.topology if job.gang else None
        if rule is not None and rule.required:
            level = "node" if rule.within == "island" else rule.within
            home = self._home(job, level)
            if home is not None:
                yield home
            else:
                yield from self._groups_with_room(level, wanted, rooms)
            return
        if sum(count for _, count in wanted) > 1 and job.gang:
            for level in self._wanted_levels:
                yield from self._groups_with_room(level, wanted, rooms, most=1)
            if self._wanted_levels:
                yield from self._few_groups(self._wanted_levels[-1], wanted, rooms)
        yield everywhere

    def _home(self, job: Job, level: str) -> Numbers | None:
        """The group of a level that the job is in already."""
        for places in self.seats.get(job.name, {}).values():
            group_of = self.group_of(level)
            return np.flatnonzero(group_of == group_of[places[0].node])
        return None

    def _groups_with_room(
        self,
        level: str,
        wanted: list[tuple[Role, int]],
        rooms: list[Ints],
        most: int | None = None,
    ) -> Iterator[Numbers]:
        """Groups that have room for every role by itself, those that are left with least first.

        First in replicas of the largest role, so that large blocks stay together, then in GPUs.
        """
        group_of = self.group_of(level)
        fits: NDArray[np.bool_] | None = None
        for (_, count), room in zip(wanted, rooms, strict=True):
            enough = np.bincount(group_of, weights=room) >= count
            fits = enough if fits is None else fits & enough
        assert fits is not None
        candidates = np.flatnonzero(fits)
        if not len(candidates):
            return
        idle = np.bincount(group_of, weights=self.stock.milli)[candidates]
        if level == "node":
            tightness = self._tightness(wanted[0][0].shape, candidates, wanted[0][1])
            order = np.lexsort((tightness, idle))
        else:
            largest = max(range(len(wanted)), key=lambda at: wanted[at][0].shape.gpus)
            left = np.bincount(group_of, weights=rooms[largest])[candidates]
            order = np.lexsort((idle, left))
        for group in candidates[order[:most]]:
            yield np.flatnonzero(group_of == group)

    def _few_groups(
        self, level: str, wanted: list[tuple[Role, int]], rooms: list[Ints]
    ) -> Iterator[Numbers]:
        """The groups with most room, as many as it takes."""
        group_of = self.group_of(level)
        total = np.bincount(group_of, weights=rooms[0])
        order = np.argsort(-total, kind="stable")
        for place in range(1, len(wanted) + 1):
            enough = max(
                int(np.searchsorted(np.cumsum(np.bincount(group_of, weights=room)[order]), count))
                for (_, count), room in zip(wanted, rooms, strict=True)
            )
            if enough < len(order):
                chosen = np.zeros(len(order), dtype=bool)
                chosen[order[: enough + place]] = True
                yield np.flatnonzero(chosen[group_of])

    # -- seats --------------------------------------------------------------------------------

    def _fill(self, job: Job, counts: Mapping[str, int], nodes: Numbers) -> Seats | None:
        """Seats for all of it on these nodes; None where there is no room after all."""
        if job.topology is not None and job.topology.required and job.topology.within == "island":
            return self._fill_island(job, counts, nodes)
        seats: Seats = {}
        used = self._used_of_spread(job)
        for role in self._largest_first(job):
            count = counts.get(role.name, 0)
            if count:
                places = self._fill_role(job, role, count, nodes, used)
                if places is None:
                    return None
                seats[role.name] = places
        return seats

    def _largest_first(self, job: Job) -> list[Role]:
        size = self.problem.gpu_milli
        return sorted(job.roles, key=lambda r: (-size(r.shape), -r.shape.cpu_milli))

    def _used_of_spread(self, job: Job) -> Counter[int]:
        """Replicas of the job by group of the level that it is spread over."""
        if job.spread is None:
            return Counter()
        group_of = self.group_of(job.spread.over)
        places = (p for seats in self.seats.get(job.name, {}).values() for p in seats)
        return Counter(int(group_of[seat.node]) for seat in places)

    def _fill_role(
        self, job: Job, role: Role, count: int, nodes: Numbers, used: Counter[int]
    ) -> list[Seat] | None:
        shape, left = role.shape, count
        places: list[Seat] = []
        room = np.minimum(self.stock.room(shape)[nodes], count)
        if job.spread is not None:
            room = np.minimum(room, job.spread.max_per)
        while left:
            if int(room.sum()) < left:
                return None
            most = min(int(room.max()), left)
            candidates = np.flatnonzero(room >= most)
            wanted = max(1, left // most) if most else 0
            tightness = self._tightness(shape, nodes[candidates], most)
            if wanted < len(candidates):
                part = np.argpartition(tightness, wanted - 1)[:wanted]
                part = part[np.lexsort((candidates[part], tightness[part]))]
            else:
                part = np.argsort(tightness, kind="stable")
            for at in candidates[part]:
                n = int(nodes[at])
                taken = self._seat_on(job, n, shape, min(most, left), used)
                places += taken
                left -= len(taken)
                room[at] = 0 if len(taken) < most else room[at] - most
                if not left:
                    break
        return places

    def _seat_on(self, job: Job, n: int, shape: Shape, most: int, used: Counter[int]) -> list[Seat]:
        """Up to `most` seats on one node."""
        group = -1
        if job.spread is not None:
            group = int(self.group_of(job.spread.over)[n])
            most = min(most, job.spread.max_per - used[group])
        taken: list[Seat] = []
        for _ in range(most):
            seat = self.stock.seat(n, shape)
            if seat is None:
                break
            taken.append(seat)
        used[group] += len(taken)
        return taken

    def _tightness(self, shape: Shape, nodes: Numbers, count: int) -> NDArray[np.float64]:
        """How little a node is left with; where that is equal, how poor it is."""
        stock = self.stock
        idle = stock.idle[nodes]
        per_cpu, per_memory = self._richness
        spare_cpu = np.minimum(stock.cpu[nodes] / per_cpu, 1e3)
        spare_memory = np.minimum(stock.memory[nodes] / per_memory, 1e3)
        if shape.gpus:
            left = (idle - shape.gpus * count).astype(np.float64)
            rich = (spare_cpu + spare_memory) / np.maximum(idle, 1)
            return np.asarray(left * 1e4 + rich, dtype=np.float64)
        if shape.wants_gpu:
            return stock.milli[nodes].astype(np.float64)
        return np.asarray(idle * 1e4 + spare_cpu, dtype=np.float64)

    def _fill_island(self, job: Job, counts: Mapping[str, int], nodes: Numbers) -> Seats | None:
        """The whole job on one NVLink island (or one GPU that is in none) of one of the nodes."""
        before: list[Seat] = []
        if job.gang:
            before = [p for seats in self.seats.get(job.name, {}).values() for p in seats]
        able = np.ones(len(nodes), dtype=bool)
        if job.spread is not None:
            group_of = self.group_of(job.spread.over)[nodes]
            used = self._used_of_spread(job)
            most = job.spread.max_per - sum(counts.values())
            able = np.array([used[int(group)] <= most for group in group_of], dtype=bool)
        for role in job.roles:
            if counts.get(role.name):
                able &= self.stock.room(role.shape)[nodes] > 0
        for n in map(int, nodes[able]):
            for gpus in self._islands(n):
                if any(not gpus.issuperset(seat.gpus) for seat in before):
                    continue
                mark = self.stock.mark()
                seats: Seats = {}
                for role in self._largest_first(job):
                    places = (
                        self.stock.seat(n, role.shape, gpus)
                        for _ in range(counts.get(role.name, 0))
                    )
                    seats[role.name] = [seat for seat in places if seat is not None]
                if all(len(seats[r.name]) == counts.get(r.name, 0) for r in job.roles):
                    return seats
                self.stock.roll_back(mark)
        return None

    def _islands(self, n: int) -> list[frozenset[int]]:
        topology = self.stock.nodes[n].topology
        return [frozenset(part) for part in topology.parts] or [frozenset()]

    def restore(self, job: Job, seats: Seats) -> None:
        """Put a job that was stopped back onto the seats it had."""
        for role in job.roles:
            for seat in seats.get(role.name, ()):
                self.stock.put(role.shape, seat)
        self._book(job, {name: list(places) for name, places in seats.items()})

    def move(self, moves: Sequence[Move]) -> bool:
        """Let replicas change places: all of them, or nothing changes."""
        before = [(m, list(self.seats[m.job.name][m.role.name])) for m in moves]
        for move, places in before:
            for seat in places:
                if seat.node in move.away_from:
                    self.stock.give_back(move.role.shape, seat)
        mark = self.stock.mark()
        seated: list[list[Seat]] = [[] for _ in moves]
        # The largest first: they are the ones that find the best GPUs of a node taken.
        for at in sorted(range(len(moves)), key=lambda at: -moves[at].role.shape.gpus):
            for n in moves[at].to:
                taken = self.stock.seat(n, moves[at].role.shape)
                if taken is None:
                    self.stock.roll_back(mark)
                    for move, places in before:
                        for old in places:
                            if old.node in move.away_from:
                                self.stock.put(move.role.shape, old)
                    return False
                seated[at].append(taken)
        self.changes += 1
        for (move, places), new in zip(before, seated, strict=True):
            stay = [seat for seat in places if seat.node not in move.away_from]
            self.seats[move.job.name][move.role.name] = [*stay, *new]
        return True
