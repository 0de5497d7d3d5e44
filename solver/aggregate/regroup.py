r"""Brings gangs together: the same replicas on fewer groups of nodes, a few nodes at a time.

A neighbourhood is a few nodes around a gang that spans more groups than it needs. CP-SAT seats
the replicas on them anew. With ``x[r, n]`` replicas of role r on node n, ``y[g, n]`` whether gang g
is there at all, ``z[g, R]`` whether it is in group R of an outer level that it does not touch
outside of the neighbourhood::

    sum_n x[r, n] = replicas of r that are there now
    sum_r gpus_r * x[r, n] <= idle_n;  the same for CPU and memory
    x[r, n] <= most * y[g, n],   y[g, n] <= z[g, R of n]
    min  sum of z (outer levels first), then of y

Everything else stays as it is, so each step is an improvement of the whole plan. Which of the best
seatings is taken is left to chance, so that the search drifts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from ortools.sat.python import cp_model

from solver.aggregate.packer import Move, Packer
from solver.aggregate.spans import Spans
from solver.linear import Expr
from solver.metrics import counts_for_spread, spread_counts
from solver.search import Effort, Outcome, SearchLimits, search
from solver.stock import NO_LIMIT
from solver.workload import Job, LinkRule, Role, Shape

SIZES = (6, 8, 10)
"""Nodes of a neighbourhood; larger ones, which take longer, once smaller ones do not help."""

EFFORT = 0.3
"""Deterministic time that one neighbourhood may take; most take some hundredths of it."""

SEARCH_S = 3.0
"""Wall-clock time after which a neighbourhood is given up in any case."""

IN_VAIN = 60
"""Neighbourhoods without success after which the next size is tried."""

GROUP_COST = 1_000
"""Cost of a group; chance adds less than that in all."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Replicas of one role on the nodes of a neighbourhood."""

    job: Job
    role: Role
    count: int


class Regrouper:
    """Works on one packer, which it changes in place."""

    def __init__(self, packer: Packer, seed: int) -> None:
        self._packer = packer
        self._problem = packer.problem
        self._stock = packer.stock
        self._rng = Random(seed)
        self._spans = Spans(packer)
        self._levels = self._spans.levels
        self._on_node: dict[int, set[str]] = defaultdict(set)
        self._excess: dict[str, int] = {}
        for name in packer.seats:
            self._enter(name)

    def run(self, deadline_s: float, rounds: int | None) -> int:
        """Try until nothing helps any more, or time or rounds are over; groups saved."""
        saved = in_vain = done = size = 0
        while (rounds is None or done < rounds) and time.monotonic() < deadline_s:
            costly = sorted(name for name, excess in self._excess.items() if excess)
            if in_vain > IN_VAIN:
                size, in_vain = size + 1, 0
            if not costly or size == len(SIZES):
                break
            job = self._problem.job_by_name[self._rng.choice(costly)]
            gained = self._reseat(self._neighbourhood(job, SIZES[size]), deadline_s)
            in_vain = 0 if gained else in_vain + 1
            saved += gained
            done += 1
        return saved

    # -- neighbourhoods -----------------------------------------------------------------------

    def _neighbourhood(self, job: Job, size: int) -> list[int]:
        """Nodes of the gang, those with the fewest of its replicas first, and others near it."""
        rng = self._rng
        there: dict[int, int] = defaultdict(int)
        for places in self._packer.seats[job.name].values():
            for seat in places:
                there[seat.node] += 1
        mine = sorted(there, key=lambda n: (there[n], rng.random()))[: size // 2]
        others = self._others(job, mine)
        return sorted({*mine, *rng.sample(others, min(len(others), size - len(mine)))})

    def _others(self, job: Job, mine: Sequence[int]) -> list[int]:
        """Nodes to which replicas of the gang could go, or that could do with its room."""
        stock = self._stock
        shape = max((role.shape for role in job.roles), key=lambda s: s.gpus)
        able = stock.hosting(shape).copy()
        rule = job.topology
        if rule is not None and rule.within not in ("island", "node"):
            group_of = stock.group_of(rule.within)
            if rule.required or self._rng.random() < 0.5:
                able &= group_of == group_of[mine[0]]
        able[list(mine)] = False
        return [int(n) for n in np.flatnonzero(able) if n in self._on_node or stock.idle[n]]

    # -- one neighbourhood --------------------------------------------------------------------

    def _reseat(self, nodes: list[int], deadline_s: float) -> int:
        """Seat the replicas on these nodes anew; by how many groups fewer they then span."""
        names = sorted({name for n in nodes for name in self._on_node[n]})
        jobs = [self._problem.job_by_name[name] for name in names]
        parts = self._parts([job for job in jobs if self._movable(job)], set(nodes))
        if len({part.job.name for part in parts}) < 2:
            return 0
        moving = sorted({part.job.name for part in parts})
        old = sum(self._excess[name] for name in moving)
        model, objective, counts = self._model(parts, nodes)
        limits = SearchLimits(
            effort=Effort.QUICK,
            time_s=min(SEARCH_S, deadline_s - time.monotonic()),
            deterministic=EFFORT,
            workers=1,
            seed=self._rng.randrange(2**31),
            gap=0.0,
        )
        outcome = search(model, objective, "min", limits)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if not outcome.found:
            return 0
        moves = [
            Move(
                part.job,
                part.role,
                frozenset(nodes),
                tuple(n for n in nodes for _ in range(_count(outcome, counts.get((at, n))))),
            )
            for at, part in enumerate(parts)
        ]
        for name in moving:
            self._leave(name)
        self._packer.move(moves)
        for name in moving:
            self._enter(name)
        return old - sum(self._excess[name] for name in moving)

    def _movable(self, job: Job) -> bool:
        """Gangs of whole GPUs to whose replicas one node is as good as another."""
        rule = job.topology
        return (
            job.gang
            and job.spread is None
            and not (rule is not None and rule.required and rule.within in ("island", "node"))
            and all(
                role.shape.gpus
                and not role.shape.gpu_models
                and not (role.shape.gpus > 1 and role.shape.link is LinkRule.REQUIRED)
                for role in job.roles
            )
        )

    def _parts(self, jobs: Sequence[Job], nodes: set[int]) -> list[_Part]:
        found = []
        for job in jobs:
            for role in job.roles:
                places = self._packer.seats[job.name].get(role.name, ())
                count = sum(seat.node in nodes for seat in places)
                if count:
                    found.append(_Part(job, role, count))
        return found

    def _model(
        self, parts: list[_Part], nodes: list[int]
    ) -> tuple[cp_model.CpModel, Expr, dict[tuple[int, int], cp_model.IntVar]]:
        model = cp_model.CpModel()
        stock, inside = self._stock, set(nodes)
        now: dict[tuple[int, int], int] = defaultdict(int)
        freed: dict[int, list[int]] = {
            n: [int(stock.idle[n]), int(stock.cpu[n]), int(stock.memory[n])] for n in nodes
        }
        for at, part in enumerate(parts):
            for seat in self._packer.seats[part.job.name][part.role.name]:
                if seat.node in inside:
                    now[at, seat.node] += 1
                    for place, amount in enumerate(_amounts(part.role.shape)):
                        freed[seat.node][place] += amount
        counts: dict[tuple[int, int], cp_model.IntVar] = {}
        for at, part in enumerate(parts):
            hosting = stock.hosting(part.role.shape)
            home = self._home(part.job, nodes)
            for n in nodes:
                wanted = _amounts(part.role.shape)
                room = min(x // y for x, y in zip(freed[n], wanted, strict=True) if y)
                most = min(part.count, room) if hosting[n] and n in home else 0
                if most:
                    counts[at, n] = model.new_int_var(0, most, "")
                    model.add_hint(counts[at, n], now[at, n])
            model.add(sum(counts[at, n] for n in nodes if (at, n) in counts) == part.count)
        for n in nodes:
            for place, left in enumerate(freed[n]):
                terms = [
                    _amounts(part.role.shape)[place] * counts[at, n]
                    for at, part in enumerate(parts)
                    if (at, n) in counts
                ]
                if terms and left < NO_LIMIT:
                    model.add(sum(terms) <= left)
        return model, self._cost(model, parts, nodes, counts, now), counts

    def _cost(
        self,
        model: cp_model.CpModel,
        parts: list[_Part],
        nodes: list[int],
        counts: dict[tuple[int, int], cp_model.IntVar],
        now: dict[tuple[int, int], int],
    ) -> Expr:
        """Groups touched, the outer levels first; a little chance decides between equals."""
        inside = set(nodes)
        outer = [level for level in self._levels if level != "node"]
        terms: list[cp_model.LinearExpr] = []
        by_job: dict[str, list[int]] = defaultdict(list)
        for at, part in enumerate(parts):
            if spread_counts(part.job) and counts_for_spread(part.job, part.role.shape):
                by_job[part.job.name].append(at)
        for name, members in by_job.items():
            there: dict[int, cp_model.IntVar] = {}
            for n in nodes:
                used = [at for at in members if (at, n) in counts]
                if not used:
                    continue
                there[n] = model.new_bool_var("")
                model.add_hint(there[n], any(now[at, n] for at in used))
                for at in used:
                    model.add(counts[at, n] <= parts[at].count * there[n])
                cost = GROUP_COST if "node" in self._levels else 0
                terms.append((cost + self._rng.randrange(4)) * there[n])
            for depth, level in enumerate(reversed(outer), start=1):
                group_of = self._stock.group_of(level)
                seats = (s for places in self._packer.seats[name].values() for s in places)
                held = {int(group_of[s.node]) for s in seats if s.node not in inside}
                groups: dict[int, cp_model.IntVar] = {}
                for n, here in there.items():
                    group = int(group_of[n])
                    if group in held:
                        continue
                    if group not in groups:
                        groups[group] = model.new_bool_var("")
                        terms.append(GROUP_COST ** (depth + 1) * groups[group])
                    model.add_implication(here, groups[group])
        return sum(terms)

    def _home(self, job: Job, nodes: list[int]) -> set[int]:
        """Nodes that the gang's own rule leaves open."""
        rule = job.topology
        if rule is None or not rule.required:
            return set(nodes)
        group_of = self._stock.group_of(rule.within)
        places = next(places for places in self._packer.seats[job.name].values() if places)
        group = group_of[places[0].node]
        return {n for n in nodes if group_of[n] == group}

    # -- books --------------------------------------------------------------------------------

    def _enter(self, name: str) -> None:
        for places in self._packer.seats[name].values():
            for seat in places:
                self._on_node[seat.node].add(name)
        self._excess[name] = sum(self._spans.excess(self._problem.job_by_name[name]))

    def _leave(self, name: str) -> None:
        for places in self._packer.seats[name].values():
            for seat in places:
                self._on_node[seat.node].discard(name)


def _amounts(shape: Shape) -> tuple[int, int, int]:
    return shape.gpus, shape.cpu_milli, shape.memory_mib


def _count(outcome: Outcome, variable: cp_model.IntVar | None) -> int:
    return 0 if variable is None else outcome.value_of(variable)
