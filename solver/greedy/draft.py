"""A plan in the making: gangs go in whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from solver.greedy.board import Board, Seat
from solver.greedy.regions import Path, Regions
from solver.greedy.scoring import ANYWHERE, PlacementPolicy, Region
from solver.islands import parts_now
from solver.ledger import Ledger
from solver.problem import Problem
from solver.solution import Placement, Plan
from solver.state import NodeState
from solver.workload import RESOURCES, Job, ResourceName, Role, Shape, SpreadRule

T = TypeVar("T")

RoleSequence = list[tuple[Role, int]]
"""Roles in the order in which they are placed, with how many replicas."""


@dataclass(frozen=True, slots=True)
class _Booking:
    """One replica that came (+1) or left (-1), at a place among those of its job."""

    job: Job
    role: Role
    seat: Seat
    count: int
    at: int
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """A node of which something was held back."""

    node: int


@dataclass(frozen=True, slots=True)
class _Reserved:
    """Replicas that were booked on a queue and are nowhere."""

    queue: str
    shape: Shape
    replicas: int


@dataclass(frozen=True, slots=True)
class _Promised:
    """An amount that was booked on the limits of one queue."""

    queue: str
    resource: ResourceName
    amount: int


class Draft:
    """What has been placed so far, on a board and on the ledger of the queues.

    It can go on for as long as work comes and goes: `settle` makes an end of what can be undone.
    """

    def __init__(self, problem: Problem, policy: PlacementPolicy) -> None:
        self.ledger = Ledger(problem)
        self.board = Board(problem, policy)
        self._policy = policy
        self._regions = Regions(self.board, inside_out=policy.inside_out)
        self._log: list[_Booking | _Held | _Reserved | _Promised] = []
        self._seats: dict[str, list[tuple[Role, Seat]]] = {}
        self._in_group: Counter[tuple[str, int]] = Counter()
        self._homes: dict[str, Path] = {}

    def plan(self) -> Plan:
        """The plan as it stands."""
        return Plan.of(place for job in self._seats for place in self.placements(job))

    def placements(self, job: str) -> list[Placement]:
        """Where the replicas of a job are; each role numbers its own."""
        number: Counter[str] = Counter()
        found = []
        for role, seat in self.seats(job):
            found.append(
                Placement(
                    job=job,
                    role=role.name,
                    replica=number[role.name],
                    node=self.board.nodes[seat.node].name,
                    gpus=seat.gpus,
                    share_milli=seat.share_milli,
                    instances=seat.instances,
                )
            )
            number[role.name] += 1
        return found

    def seats(self, job: str) -> Sequence[tuple[Role, Seat]]:
        """The seats that a job holds, in the order in which they were taken."""
        return self._seats.get(job, ())

    def start(self, jobs: Sequence[Job]) -> bool:
        """Place the minimums of jobs that start together: all of them, or nothing changes.

        Where the jobs as they are ranked do not all find room, the larger ones go first.
        """
        if len(jobs) == 1:
            return self._start(jobs[0])
        larger_first = sorted(jobs, key=self._minimum_milli, reverse=True)
        for order in _distinct([list(jobs), larger_first]):
            mark = self.mark()
            if all(self._start(job) for job in order):
                return True
            self.roll_back(mark)
        return False

    def allows(self, jobs: Iterable[Job]) -> bool:
        """Whether the limits of queues leave room for the minimums of all these jobs."""
        mark = self.mark()
        allowed = True
        for job in jobs:
            allowed = allowed and self.ledger.allows(job.queue, self._minimum_amounts(job))
            for role in job.roles:
                self.reserve(job.queue, role.shape, role.min_replicas)
        self.roll_back(mark)
        return allowed

    def add(self, job: Job, role: Role) -> bool:
        """Place one more replica of a role: an independent one, or one above the minimum.

        An elastic gang stays in the region of its minimum as long as that has room, and never
        leaves the group that it is required to be in.
        """
        if not self.ledger.allows(job.queue, self.ledger.amounts(role.shape)):
            return False
        home = self._homes.get(job.name) if job.gang else None
        if (home is None or _in_one_island(job)) and job.gang and (seats := self.seats(job.name)):
            # With GPUs, if any has some: they say which island it is.
            first = max((seat for _, seat in seats), key=lambda seat: len(seat.gpus) > 0)
            home = self._regions.around(job, first.node, first.gpus)
        if home is not None:
            return any(self._seat_one(job, role, region) for region in home)
        for path in self._regions.paths(job):
            if self._seat_one(job, role, path[0]):
                if job.gang:
                    self._homes[job.name] = path
                return True
        return False

    def put(self, job: Job, role: Role, seat: Seat) -> None:
        """Place one replica on a seat that is free."""
        self._book(job, role, seat, +1, len(self.seats(job.name)))

    def release(self, job: Job) -> None:
        """All replicas of a job leave their seats."""
        for at in reversed(range(len(self.seats(job.name)))):
            self.release_one(job, at)

    def release_one(self, job: Job, at: int) -> None:
        """One replica of a job leaves its seat, the one at a place among `seats`."""
        role, seat = self._seats[job.name][at]
        self._book(job, role, seat, -1, at, self._homes.get(job.name))

    def hold(self, n: int, state: NodeState) -> None:
        """Keep part of what a node has left from everybody, until it is rolled back."""
        self._log.append(_Held(n))
        self.board.show(n, state)

    def reserve(self, queue: str, shape: Shape, replicas: int) -> None:
        """Book replicas on a queue that are nowhere yet, until it is rolled back."""
        self._log.append(_Reserved(queue, shape, replicas))
        self.ledger.add(queue, shape, replicas)

    def promise(self, queue: str, resource: ResourceName, amount: int) -> None:
        """Book an amount on the limits of one queue, until it is rolled back."""
        self._log.append(_Promised(queue, resource, amount))
        self.ledger.promise(queue, resource, amount)

    def mark(self) -> int:
        """A moment to come back to, until the next `settle`."""
        return len(self._log)

    def roll_back(self, mark: int) -> None:
        """Go back to a moment; what is not a reservation was one change of the board each."""
        changes = 0
        while len(self._log) > mark:
            last = self._log.pop()
            changes += not isinstance(last, _Reserved | _Promised)
            if isinstance(last, _Reserved):
                self.ledger.add(last.queue, last.shape, -last.replicas)
            elif isinstance(last, _Promised):
                self.ledger.promise(last.queue, last.resource, -last.amount)
            elif isinstance(last, _Booking):
                self._count(last.job, last.role, last.seat, -last.count, last.at)
                if last.count > 0:
                    self._homes.pop(last.job.name, None)
                elif last.home is not None:
                    self._homes[last.job.name] = last.home
        self.board.roll_back(self.board.mark() - changes)

    def settle(self) -> set[int]:
        """What was done so far stays done; the nodes (by number) on which anything was."""
        touched = {entry.seat.node for entry in self._log if isinstance(entry, _Booking)}
        self._log.clear()
        self.board.settle()
        return touched

    def _start(self, job: Job) -> bool:
        if not any(role.min_replicas for role in job.roles):
            return True
        if not self.ledger.allows(job.queue, self._minimum_amounts(job)):
            return False
        self._policy.begin(job)
        if job.replicas == 1 and job.topology is None:  # It goes anywhere, or nowhere.
            return self._seat_one(job, job.roles[0], ANYWHERE)
        hopeless = set()
        for path in self._regions.paths(job):
            alike = self._alike(job, path[0])
            if alike is not None and alike in hopeless:
                continue
            if self._start_in(job, path[0]):
                self._homes[job.name] = path
                return True
            hopeless.add(alike)
        return False

    def _start_in(self, job: Job, region: Region) -> bool:
        for sequence in self._sequences(job):
            mark = self.mark()
            if all(
                self._seat_one(job, role, region) for role, count in sequence for _ in range(count)
            ):
                return True
            self.roll_back(mark)
        return False

    def _alike(self, job: Job, region: Region) -> tuple[object, ...] | None:
        """Equal for regions in which the same gang fares the same; None where that is unknown."""
        if job.spread is not None or region.nodes is None or len(region.nodes) > 1:
            return None
        return (self.board.situation(region.nodes[0], region.gpus), region.gpus)

    def _sequences(self, job: Job) -> Iterator[RoleSequence]:
        """Orders of the roles: larger requests first, those for few nodes first, as written."""
        roles = [(role, role.min_replicas) for role in job.roles if role.min_replicas]
        larger_first = sorted(roles, key=lambda entry: self._size(entry[0]), reverse=True)
        yield larger_first
        if len(roles) > 1:
            nodes = {role.name: self.board.count_nodes(role.shape) for role, _ in roles}
            scarcest_first = sorted(roles, key=lambda entry: nodes[entry[0].name])
            yield from _distinct([larger_first, scarcest_first, roles])[1:]

    def _size(self, role: Role) -> tuple[int, ...]:
        amounts = self.ledger.amounts(role.shape)
        return tuple(amounts[resource] for resource in RESOURCES)

    def _seat_one(self, job: Job, role: Role, region: Region) -> bool:
        if job.spread is not None:
            region = self._spread(job, job.spread, region)
        seat = self.board.find(role.shape, region)
        while seat is not None and seat.instances and self._tears(seat):
            nodes = region.nodes if region.nodes is not None else range(len(self.board.nodes))
            others = tuple(n for n in nodes if n != seat.node)
            region = Region(others, region.gpus, region.in_order)
            seat = self.board.find(role.shape, region)
        if seat is None:
            return False
        self.put(job, role, seat)
        return True

    def _tears(self, seat: Seat) -> bool:
        """Whether its GPUs, once cut, would leave a gang that must share an island in two."""
        gangs = [
            {gpu for _, taken in self.seats(name) if taken.node == seat.node for gpu in taken.gpus}
            for name, job in self.board.problem.job_by_name.items()
            if name in self._seats and job.gang and _in_one_island(job)
        ]
        if not any(gangs):
            return False
        state = self.board.state(seat.node).cut(seat.instances)
        parts = parts_now(self.board.nodes[seat.node], state)
        return any(gang and not any(gang <= set(part) for part in parts) for gang in gangs)

    def _spread(self, job: Job, rule: SpreadRule, region: Region) -> Region:
        """The region without the groups that have their share of the job."""
        group_of = self._regions.group_of(rule.over)
        nodes = region.nodes if region.nodes is not None else range(len(group_of))
        open_ = tuple(n for n in nodes if self._in_group[job.name, group_of[n]] < rule.max_per)
        return Region(open_, region.gpus, region.in_order)

    def _book(
        self, job: Job, role: Role, seat: Seat, count: int, at: int, home: Path | None = None
    ) -> None:
        self._log.append(_Booking(job, role, seat, count, at, home))
        if count > 0:
            self.board.take(role.shape, seat)
        else:
            self.board.give_back(role.shape, seat)
        self._count(job, role, seat, count, at)

    def _count(self, job: Job, role: Role, seat: Seat, count: int, at: int) -> None:
        """Book a replica everywhere but on the board."""
        seats = self._seats.setdefault(job.name, [])
        if count > 0:
            seats.insert(at, (role, seat))
        else:
            del seats[at]
            if not seats:
                del self._seats[job.name]
                self._homes.pop(job.name, None)
        self.ledger.add(job.queue, role.shape, count)
        if job.spread is not None:
            group = self._regions.group_of(job.spread.over)[seat.node]
            self._in_group[job.name, group] += count

    def _minimum_amounts(self, job: Job) -> dict[ResourceName, int]:
        total = dict.fromkeys(RESOURCES, 0)
        for role in job.roles:
            for resource, amount in self.ledger.amounts(role.shape).items():
                total[resource] += role.min_replicas * amount
        return total

    def _minimum_milli(self, job: Job) -> int:
        return self._minimum_amounts(job)["gpu_milli"]


def _in_one_island(job: Job) -> bool:
    """Whether the whole job has to be in one NVLink island."""
    rule = job.topology
    return rule is not None and rule.required and rule.within == "island"


def _distinct(items: list[T]) -> list[T]:
    """The items without repetitions, in their order."""
    return [item for place, item in enumerate(items) if item not in items[:place]]
