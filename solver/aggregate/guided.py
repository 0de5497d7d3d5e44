"""A plan guided by the linear program: what it starts whole, packed with the largest first.

Which gangs start is decided by the program, level by level; packing them together, the largest and
hungriest replicas first, wastes least. A gang that finds no room then claims it from lower levels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import numpy as np

from solver.aggregate.consolidate import Consolidator
from solver.aggregate.packer import Packer, Seats
from solver.aggregate.patterns import DevicePatterns
from solver.aggregate.polish import Polisher
from solver.aggregate.regroup import Regrouper
from solver.aggregate.relaxation import ADMISSION
from solver.aggregate.ruin import Ruin
from solver.aggregate.wish import Wish
from solver.problem import Problem
from solver.solution import Plan
from solver.stock import Seat, Stock
from solver.tiers import Ruler, admitted
from solver.workload import Job, LinkRule

ROUNDS = 3
TOGETHER_PART = 0.75
"""Part of the time for exchanges that goes to the packing of all levels together."""

PACKING_PART = 0.2
"""Part of the time after which no other packing is begun; then there is one to improve."""

SCARCE = 0.1
"""Part of all groups: a gang that so few could hold is placed before the others."""


class Guide:
    """Makes plans for one problem; `best` is the best packing so far.

    Parameters
    ----------
    deadline_s
        `time.monotonic()` at which to stop.
    """

    def __init__(self, ruler: Ruler, deadline_s: float, seed: int) -> None:
        self._problem: Problem = ruler.problem
        self._deadline_s = deadline_s
        self._seed = seed
        self._levels = sorted({job.priority for job in self._problem.jobs}, reverse=True)
        self._position = self._problem.position
        self._stock = Stock(self._problem)
        self._choices: dict[str, float] = {}
        self.best: Packer | None = None
        self._together: Packer | None = None  # all that the program starts, packed together
        self._best_worth: tuple[int, ...] = ()

    def by_size(self) -> None:
        """Higher levels first, in a level the largest and hungriest replicas first."""
        order = sorted(self._problem.jobs, key=lambda job: (-job.priority, *self._hungry(job)))
        self._consider(self._packed(order))

    def by_patterns(self, patterns: DevicePatterns) -> None:
        """What device patterns start, in balanced bundles."""
        for packer in patterns.packings(self._deadline_s):
            self._consider(packer)

    def resume(self, plan: Plan) -> None:
        """Everybody stays where a former plan has them; what fits beside them is started."""
        packer = Packer(self._problem)
        number = {node.name: n for n, node in enumerate(self._problem.nodes)}
        for name, places in plan.by_job.items():
            seats: Seats = {}
            for p in places:
                seats.setdefault(p.role, []).append(Seat(number[p.node], p.gpus, p.share_milli))
            packer.restore(self._problem.job_by_name[name], seats)
        order = sorted(self._problem.jobs, key=lambda job: (-job.priority, *self._hungry(job)))
        waiting = [j for j in order if j.gang and j.start_group is None]
        Polisher(packer, self._deadline_s).fill(j for j in waiting if j.name not in packer.seats)
        for level in self._levels:
            self._surplus(packer, level)
            self._independent(packer, level)
        self._consider(packer)

    def by_program(self, wish: Wish) -> None:
        """What the linear program starts, packed together, then polished; until nothing is missed.

        All levels together waste least, but then it is chance who finds no room; so if that does
        not reach what the program promises, the high levels are packed first.
        """
        began = time.monotonic()
        enough_s = began + (self._deadline_s - began) * PACKING_PART
        for last in range(len(self._levels), 0, -1):
            if time.monotonic() > enough_s or self._best_worth >= wish.worth:
                return
            packer = self._wished(wish, self._levels[last - 1])
            self._polish(packer, wish)
            if last == len(self._levels):
                self._together = packer
            self._consider(packer)

    def _wished(self, wish: Wish, lowest_first: int) -> Packer:
        """Pack the wish, the largest first; jobs below a level come after all others."""
        chosen = [job for job in self._problem.jobs if wish.whole(job)]

        def rank(job: Job) -> tuple[object, ...]:
            later = job.priority < lowest_first
            return (later, -job.priority if later else 0, *self._hungry(job))

        return self._packed(sorted(chosen, key=rank))

    def _polish(self, packer: Packer, wish: Wish) -> None:
        """Level by level: claim what was wished, start what nearly fits, older for younger."""
        polisher = Polisher(packer, self._deadline_s)
        for level in self._levels:
            jobs = [j for j in self._problem.jobs if j.priority == level and j.gang]
            lower = [j for j in self._problem.jobs if j.priority < level]
            for job in sorted(jobs, key=self._hungry):
                if job.name not in packer.seats and wish.whole(job) and not self._late():
                    polisher.claim(job, lower)
            for _ in range(ROUNDS):
                order = sorted(
                    jobs, key=lambda j: (-wish.part(j), -self._milli(j), self._position[j.name])
                )
                moved = polisher.fill(order) + polisher.exchange(jobs)
                if not moved or self._late():
                    break
            self._surplus(packer, level)
            self._independent(packer, level)

    def anew(self, wish: Wish, rounds: int | None) -> None:
        """Exchange jobs of the best packing for others, as long as time or rounds last."""
        begun = [self._together] if self._together is not None else []
        for place, packer in enumerate([*begun, None]):
            packer = packer or self.best
            if packer is None or self._best_worth >= wish.worth:
                return
            now = time.monotonic()
            until = now + (self._deadline_s - now) * (TOGETHER_PART if place < len(begun) else 1)
            part = None if rounds is None else rounds // (1 + len(begun))
            ruin = Ruin(packer, self._seed, wish)
            worth = ruin.run(self._worth(packer), until, part)
            if worth > self._best_worth or packer is self.best:
                self.best, self._best_worth = packer, worth

    def consolidate(self, deadline_s: float, rounds: int | None) -> None:
        """The same jobs as in the best packing on fewer groups of nodes."""
        if self.best is not None:
            Consolidator(self.best, self._seed, self._hungry).run(deadline_s, rounds)
            Regrouper(self.best, self._seed).run(deadline_s, rounds)

    def _consider(self, packer: Packer) -> None:
        worth = self._worth(packer)
        if self.best is None or worth > self._best_worth:
            self.best, self._best_worth = packer, worth

    def _packed(self, order: Iterable[Job]) -> Packer:
        packer = Packer(self._problem)
        offered: set[str] = set()
        groups = self._problem.start_groups
        for job in order:
            if job.start_group is None:
                if job.gang:
                    packer.start(job)
            elif job.start_group not in offered:
                offered.add(job.start_group)
                _start_together(packer, groups[job.start_group])
        for level in self._levels:
            self._surplus(packer, level)
            self._independent(packer, level)
        return packer

    def _surplus(self, packer: Packer, level: int) -> None:
        """What elastic gangs take beyond their minimum, one replica at a time."""
        for job in self._problem.jobs:
            if job.priority != level or not job.gang or job.name not in packer.seats:
                continue
            for role in job.roles:
                seats = packer.seats[job.name].get(role.name, [])
                for _ in range(role.replicas - len(seats)):
                    if not packer.place(job, {role.name: 1}):
                        break

    def _independent(self, packer: Packer, level: int) -> None:
        for job in self._problem.jobs:
            if job.priority != level or job.gang:
                continue
            for role in job.roles:
                there = len(packer.seats.get(job.name, {}).get(role.name, ()))
                for _ in range(role.replicas - there):
                    if not packer.place(job, {role.name: 1}):
                        break

    def _worth(self, packer: Packer) -> tuple[int, ...]:
        """The admission steps of what is seated, in their order."""
        problem = self._problem
        sums: dict[tuple[int, str], int] = {}
        for name, seats in packer.seats.items():
            job = problem.job_by_name[name]
            counts = {role: len(places) for role, places in seats.items()}
            for kind in ADMISSION:
                key = (job.priority, kind)
                sums[key] = sums.get(key, 0) + admitted(problem, job, counts, kind)
        return tuple(sums.get((level, kind), 0) for level in self._levels for kind in ADMISSION)

    def _hungry(self, job: Job) -> tuple[float, ...]:
        """Sorts the hardest to place first.

        Gangs for which few groups are large enough, the fewest first; then large replicas, bound to
        one group, with much CPU and memory.
        """
        problem = self._problem
        largest = max(job.roles, key=lambda role: problem.gpu_milli(role.shape)).shape
        bound = job.topology is not None and job.topology.required
        cpu, memory = problem.capacity["cpu_milli"], problem.capacity["memory_mib"]
        milli = max(problem.gpu_milli(largest), 1)
        hunger = largest.cpu_milli / (cpu or math.inf) + largest.memory_mib / (memory or math.inf)
        narrow = bool(largest.gpu_models) or largest.link is LinkRule.REQUIRED
        size = self._milli(job) if bound else 0
        groups = self._groups_large_enough(job)
        return (groups, -largest.gpus, -float(bound), -size, -float(narrow), -hunger / milli)

    def _groups_large_enough(self, job: Job) -> float:
        """How many groups could hold a gang that has to stay in one; infinite if many."""
        rule = job.topology
        if rule is None or not rule.required or not job.gang or rule.within in ("island", "node"):
            return math.inf
        if job.name not in self._choices:
            group_of = self._stock.group_of(rule.within)
            large = np.ones(int(group_of.max()) + 1, dtype=bool)
            for role in job.roles:
                room = np.minimum(self._stock.room(role.shape), role.replicas)
                large &= np.bincount(group_of, weights=room) >= role.min_replicas
            few = int(large.sum()) <= SCARCE * len(large)
            self._choices[job.name] = float(large.sum()) if few else math.inf
        return self._choices[job.name]

    def _milli(self, job: Job) -> int:
        return sum(r.min_replicas * self._problem.gpu_milli(r.shape) for r in job.roles)

    def _late(self) -> bool:
        return time.monotonic() > self._deadline_s


def _start_together(packer: Packer, jobs: Sequence[Job]) -> bool:
    started: list[Job] = []
    for job in jobs:
        if not packer.start(job):
            for other in started:
                packer.stop(other)
            return False
        started.append(job)
    return True
