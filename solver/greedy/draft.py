"""A plan in the making: gangs go in whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from solver.greedy.board import Board, Seat
from solver.greedy.regions import Path, Regions
from solver.greedy.scoring import PlacementPolicy, Region
from solver.ledger import Ledger
from solver.problem import Problem, RoleKey
from solver.solution import Placement, Plan
from solver.workload import RESOURCES, Job, ResourceName, Role, SpreadRule

T = TypeVar("T")

RoleSequence = list[tuple[Role, int]]
"""Roles in the order in which they are placed, with how many replicas."""


class Draft:
    """What has been placed so far, on a board and on the ledger of the queues."""

    def __init__(self, problem: Problem, policy: PlacementPolicy) -> None:
        self.ledger = Ledger(problem)
        self._problem = problem
        self._board = Board(problem, policy)
        self._regions = Regions(self._board, inside_out=policy.inside_out)
        self._placements: list[Placement] = []
        self._started: Counter[RoleKey] = Counter()
        self._in_group: Counter[tuple[str, int]] = Counter()
        self._homes: dict[str, Path] = {}

    def plan(self) -> Plan:
        """The plan as it stands."""
        return Plan.of(self._placements)

    def start(self, jobs: Sequence[Job]) -> bool:
        """Place the minimums of jobs that start together: all of them, or nothing changes.

        Where the jobs as they are ranked do not all find room, the larger ones go first.
        """
        larger_first = sorted(jobs, key=self._minimum_milli, reverse=True)
        for order in _distinct([list(jobs), larger_first]):
            mark = len(self._placements)
            if all(self._start(job) for job in order):
                return True
            self._roll_back(mark)
        return False

    def add(self, job: Job, role: Role) -> bool:
        """Place one more replica of a role: an independent one, or one above the minimum.

        An elastic gang stays in the region of its minimum as long as that has room, and never
        leaves the group that it is required to be in.
        """
        if not self.ledger.allows(job.queue, self.ledger.amounts(role.shape)):
            return False
        home = self._homes.get(job.name) if job.gang else None
        if home is not None:
            return any(self._seat_one(job, role, region) for region in home)
        for path in self._regions.paths(job):
            if self._seat_one(job, role, path[0]):
                if job.gang:
                    self._homes[job.name] = path
                return True
        return False

    def _start(self, job: Job) -> bool:
        if not any(role.min_replicas for role in job.roles):
            return True
        if not self.ledger.allows(job.queue, self._minimum_amounts(job)):
            return False
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
            mark = len(self._placements)
            if all(
                self._seat_one(job, role, region) for role, count in sequence for _ in range(count)
            ):
                return True
            self._roll_back(mark)
        return False

    def _alike(self, job: Job, region: Region) -> tuple[object, ...] | None:
        """Equal for regions in which the same gang fares the same; None where that is unknown."""
        if job.spread is not None or region.nodes is None or len(region.nodes) > 1:
            return None
        return (self._board.situation(region.nodes[0], region.gpus), region.gpus)

    def _sequences(self, job: Job) -> Iterator[RoleSequence]:
        """Orders of the roles: larger requests first, those for few nodes first, as written."""
        roles = [(role, role.min_replicas) for role in job.roles if role.min_replicas]
        larger_first = sorted(roles, key=lambda entry: self._size(entry[0]), reverse=True)
        yield larger_first
        if len(roles) > 1:
            nodes = {role.name: self._board.count_nodes(role.shape) for role, _ in roles}
            scarcest_first = sorted(roles, key=lambda entry: nodes[entry[0].name])
            yield from _distinct([larger_first, scarcest_first, roles])[1:]

    def _size(self, role: Role) -> tuple[int, ...]:
        amounts = self.ledger.amounts(role.shape)
        return tuple(amounts[resource] for resource in RESOURCES)

    def _seat_one(self, job: Job, role: Role, region: Region) -> bool:
        if job.spread is not None:
            region = self._spread(job, job.spread, region)
        seat = self._board.find(role.shape, region)
        if seat is None:
            return False
        self._take(job, role, seat)
        return True

    def _spread(self, job: Job, rule: SpreadRule, region: Region) -> Region:
        """The region without the groups that have their share of the job."""
        group_of = self._regions.group_of(rule.over)
        nodes = region.nodes if region.nodes is not None else range(len(group_of))
        open_ = tuple(n for n in nodes if self._in_group[job.name, group_of[n]] < rule.max_per)
        return Region(open_, region.gpus, region.in_order)

    def _take(self, job: Job, role: Role, seat: Seat) -> None:
        key = RoleKey(job.name, role.name)
        self._board.take(role.shape, seat)
        self._book(job, role, seat.node, +1)
        self._placements.append(
            Placement(
                job=job.name,
                role=role.name,
                replica=self._started[key] - 1,
                node=self._board.nodes[seat.node].name,
                gpus=seat.gpus,
                share_milli=seat.share_milli,
            )
        )

    def _book(self, job: Job, role: Role, n: int, replicas: int) -> None:
        self.ledger.add(job.queue, role.shape, replicas)
        self._started[RoleKey(job.name, role.name)] += replicas
        if job.spread is not None:
            self._in_group[job.name, self._regions.group_of(job.spread.over)[n]] += replicas

    def _roll_back(self, mark: int) -> None:
        """Go back to where `mark` replicas were placed; each was one move on the board."""
        while len(self._placements) > mark:
            last = self._placements.pop()
            job = self._problem.job_by_name[last.job]
            role = self._problem.role_by_key[RoleKey(last.job, last.role)]
            self._book(job, role, self._board.number[last.node], -1)
            self._homes.pop(last.job, None)
        self._board.roll_back(mark)

    def _minimum_amounts(self, job: Job) -> dict[ResourceName, int]:
        total = dict.fromkeys(RESOURCES, 0)
        for role in job.roles:
            for resource, amount in self.ledger.amounts(role.shape).items():
                total[resource] += role.min_replicas * amount
        return total

    def _minimum_milli(self, job: Job) -> int:
        return self._minimum_amounts(job)["gpu_milli"]


def _distinct(items: list[T]) -> list[T]:
    """The items without repetitions, in their order."""
    return [item for place, item in enumerate(items) if item not in items[:place]]
