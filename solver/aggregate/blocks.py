r"""Bounds for the tiers of cost: a linear program over blocks, parts of gangs that share a node.

A gang that puts k replicas of g GPUs on one node takes a *block* of ``k * g`` GPUs there. With
``y[t, k, c]`` blocks of k replicas of gangs of type t (as many GPUs, replicas and nodes that host
them) on nodes of class c, and ``z[c, p]`` nodes of the class that are split into blocks by pattern
p (a partition of at most its idle GPUs), and ``g[t, w]`` gangs that are cut in the way w (a
partition of their replicas; for gangs that start whole)::

    sum_{k, c} k * y[t, k, c] = replicas of type t that start
    sum_c y[t, k, c] = sum_w (parts of k replicas in w) * g[t, w],  sum_w g[t, w] = gangs of t
    sum_{t, k: k*g = b} y[t, k, c] <= sum_p (blocks of b GPUs in p) * z[c, p]      for every b
    sum_p z[c, p] = nodes of class c

Nodes spanned are ``sum y``; what a pattern leaves over is stranded. For outer levels (racks)
``u[t, R]`` gangs touch group R with ``v[t, R]`` replicas, ``v <= u * most of one gang in R``.

Everything else (CPU, memory, links, shares) is left to the rows of `relaxation`, in which the gangs
and the steps that are kept come from. All of it only leaves out rules, so the bounds hold.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from solver.aggregate.relaxation import EXACT, Relaxation
from solver.cluster import GPU_MILLI
from solver.fit import hosts, strictly_linked
from solver.metrics import FewestGroups, counts_for_spread, spread_counts
from solver.problem import Problem, RoleKey
from solver.stock import Stock
from solver.tiers import Step
from solver.workload import Job, Role

Partition = tuple[int, ...]
"""Sizes of blocks in GPUs, largest first."""

MOST_GROUPS = 150
"""Kinds of groups that are told apart."""


@cache
def partitions(most: int, largest: int) -> tuple[Partition, ...]:
    """All ways to cut blocks of at most `largest` GPUs out of `most`.

    Examples
    --------
    >>> partitions(3, 2)
    ((), (1,), (1, 1), (1, 1, 1), (2,), (2, 1))
    """
    found: list[Partition] = [()]
    for first in range(1, min(most, largest) + 1):
        found += [(first, *rest) for rest in partitions(most - first, first)]
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class GangType:
    """Gangs that are alike for this purpose.

    Parameters
    ----------
    gpus, replicas, least
        GPUs per replica, replicas wanted, and those that start together.
    hosting
        Number of the set of nodes that would host them.
    fewest
        What is taken off the groups that such a gang spans; None for what does not count.
    """

    gpus: int
    replicas: int
    least: int
    hosting: int
    fewest: int | None


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups taken together: replicas that each takes by (hosting, GPUs), blocks in all by size."""

    rooms: Mapping[tuple[int, int], NDArray[np.float64]]
    blocks: Mapping[int, float]


class BlockProgram:
    """Adds blocks to the program of a problem, and bounds the steps of cost."""

    def __init__(self, program: Relaxation, stock: Stock) -> None:
        self._problem: Problem = program.problem
        self._program = program
        self._lp = program.lp
        self._stock = stock
        self._fewest = FewestGroups(self._problem)
        self._block_columns: dict[GangType, list[tuple[int, int]]] | None = None
        self._node_types: dict[GangType, list[tuple[Job, Role]]] = {}
        self._patterns: list[tuple[NDArray[np.intp], list[tuple[Partition, int]]]] = []

    def bound(self, step: Step, time_s: float) -> int | None:
        """What no plan that keeps the steps before can undercut; None where nothing is known."""
        if step.kind == "groups" and step.detail == "node":
            terms, constant = self._spans_of_nodes()
        elif step.kind == "groups":
            terms, constant = self._spans_of_groups(step.detail)
        elif step.kind == "stranded" and self._strandable():
            terms, constant = self._stranded()
        else:
            return None
        found = self._lp.optimise(terms, time_s, sense="min")
        if found is None:
            return None
        scale = max(1.0, abs(found.bound))
        proved = math.ceil(found.bound - EXACT * scale)
        if step.kind == "groups":
            return max(0, proved)
        return max(0, GPU_MILLI * proved + constant)

    # -- types --------------------------------------------------------------------------------

    def _types(self, level: str) -> dict[GangType, list[tuple[Job, Role]]]:
        """All roles with whole GPUs by their type; of each job one role counts for spans."""
        masks: dict[bytes, int] = {}
        found: dict[GangType, list[tuple[Job, Role]]] = defaultdict(list)
        for job in self._problem.jobs:
            counted = self._counted_role(job, level)
            for role in job.roles:
                if not role.shape.gpus:
                    continue
                mask = self._stock.hosting(role.shape).tobytes()
                hosting = masks.setdefault(mask, len(masks))
                fewest = None
                if counted is not None and role is counted:
                    fewest = self._fewest_of(job, level)
                least = role.min_replicas if job.gang else 1
                kind = GangType(role.shape.gpus, role.replicas, least, hosting, fewest)
                found[kind].append((job, role))
        self._masks = [np.frombuffer(mask, dtype=bool) for mask in masks]
        return dict(found)

    def _counted_role(self, job: Job, level: str) -> Role | None:
        """The role by which a gang's spans are counted from below: the most demanding one."""
        if not spread_counts(job):
            return None
        roles = [r for r in job.roles if r.shape.gpus and counts_for_spread(job, r.shape)]
        return max(roles, key=lambda r: self._fewest(r.shape, level, r.replicas), default=None)

    def _fewest_of(self, job: Job, level: str) -> int:
        """No less than what is taken off, whatever part of the job starts."""
        return max(
            self._fewest(r.shape, level, r.replicas)
            for r in job.roles
            if counts_for_spread(job, r.shape)
        )

    def _started(self, members: list[tuple[Job, Role]]) -> list[tuple[int, float]]:
        """Minus the replicas of a type that start."""
        terms: dict[int, float] = defaultdict(float)
        for job, role in members:
            column, factor = self._program.started[RoleKey(job.name, role.name)]
            terms[column] -= factor
        return list(terms.items())

    # -- nodes --------------------------------------------------------------------------------

    def _spans_of_nodes(self) -> tuple[Mapping[int, float], int]:
        blocks = self._blocks()
        terms: dict[int, float] = defaultdict(float)
        for kind, members in self._node_types.items():
            if kind.fewest is None:
                continue
            for _, column in blocks[kind]:
                terms[column] += 1.0
            for job, _ in members:
                terms[self._program.parts[job.name]] -= float(kind.fewest)
        return terms, 0

    def _stranded(self) -> tuple[Mapping[int, float], int]:
        self._blocks()
        terms: dict[int, float] = {}
        constant = 0
        for nodes, patterns in self._patterns:
            for weights, members in self._reference_of(nodes):
                share = len(members) / len(nodes)
                for pattern, column in patterns:
                    left = int(self._stock.idle[nodes[0]]) - sum(pattern)
                    cost = sum(weight * (left % gpus) for gpus, weight in weights)
                    if cost:
                        terms[column] = terms.get(column, 0.0) + cost * share
                partial = self._stock.milli[members] - GPU_MILLI * self._stock.idle[members]
                constant += sum(weight for _, weight in weights) * int(partial.sum())
        return terms, constant

    def _strandable(self) -> bool:
        return not any(role.shape.is_share for _, role in self._problem.roles())

    def _blocks(self) -> dict[GangType, list[tuple[int, int]]]:
        """By type: (replicas, column) of its blocks; builds the rows the first time."""
        if self._block_columns is not None:
            return self._block_columns
        lp, stock = self._lp, self._stock
        types = self._node_types = self._types("node")
        columns: dict[GangType, list[tuple[int, int]]] = {kind: [] for kind in types}
        for nodes in self._node_classes():
            idle = int(stock.idle[nodes[0]])
            by_size: dict[int, list[tuple[int, float]]] = defaultdict(list)
            for kind, members in types.items():
                gangs = len(members)
                if not self._masks[kind.hosting][nodes[0]]:
                    continue
                for k in range(1, min(kind.replicas, idle // kind.gpus) + 1):
                    most = min(len(nodes) * (idle // (k * kind.gpus)), gangs * kind.replicas // k)
                    column = lp.column(float(most))
                    columns[kind].append((k, column))
                    by_size[k * kind.gpus].append((column, 1.0))
            found = partitions(idle, idle)
            patterns = [(p, lp.column(float(len(nodes)))) for p in found]
            self._patterns.append((nodes, patterns))
            lp.row([(column, 1.0) for _, column in patterns], float(len(nodes)), float(len(nodes)))
            for size, terms in by_size.items():
                supply = [(c, -float(p.count(size))) for p, c in patterns if size in p]
                lp.row([*terms, *supply], upper=0.0)
        for kind, members in types.items():
            self._tie(kind, members, columns[kind])
        self._block_columns = columns
        return columns

    def _tie(
        self, kind: GangType, members: list[tuple[Job, Role]], blocks: list[tuple[int, int]]
    ) -> None:
        """Blocks add up to what starts; those of gangs of fixed size, to whole gangs."""
        lp = self._lp
        lp.row([*((c, float(k)) for k, c in blocks), *self._started(members)], 0.0, 0.0)
        if kind.fewest is None or kind.least != kind.replicas:
            return
        by_size: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for k, column in blocks:
            by_size[k].append((column, 1.0))
        cuts = partitions(kind.replicas, max(by_size, default=0))
        whole = [(c, lp.column(float(len(members)))) for c in cuts if sum(c) == kind.replicas]
        parts: Counter[int] = Counter(self._program.parts[job.name] for job, _ in members)
        gangs = [(part, -float(count)) for part, count in parts.items()]
        lp.row([*((column, 1.0) for _, column in whole), *gangs], 0.0, 0.0)
        for k, terms in by_size.items():
            used = [(column, -float(cut.count(k))) for cut, column in whole if k in cut]
            lp.row([*terms, *used], 0.0, 0.0)

    def _node_classes(self) -> list[NDArray[np.intp]]:
        """Nodes by idle GPUs and by the types that they host."""
        table = np.stack(
            [self._stock.idle, *(mask.astype(np.int64) for mask in self._masks)], axis=1
        )
        _, inverse = np.unique(table, axis=0, return_inverse=True)
        order = np.argsort(inverse.ravel(), kind="stable")
        edges = np.flatnonzero(np.diff(inverse.ravel()[order])) + 1
        return list(np.split(order, edges))

    def _reference_of(
        self, nodes: NDArray[np.intp]
    ) -> list[tuple[tuple[tuple[int, int], ...], NDArray[np.intp]]]:
        """The nodes of a class by the reference sizes, with weights, that count on them."""
        found: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
        known: dict[object, tuple[tuple[int, int], ...]] = {}
        for n in map(int, nodes):
            node = self._stock.nodes[n]
            if node.kind not in known:
                weights: Counter[int] = Counter()
                for shape, weight in self._problem.reference:
                    if shape.gpus and hosts(node, strictly_linked(shape)):
                        weights[shape.gpus] += weight
                known[node.kind] = tuple(sorted(weights.items()))
            if node.schedulable:
                found[known[node.kind]].append(n)
        return [(weights, np.array(members, dtype=np.intp)) for weights, members in found.items()]

    # -- outer levels -------------------------------------------------------------------------

    def _spans_of_groups(self, level: str) -> tuple[Mapping[int, float], int]:
        lp = self._lp
        terms: dict[int, float] = defaultdict(float)
        types = self._types(level)
        sizes = sorted({kind.gpus for kind in types})
        merged = self._merged_groups(level, sizes)
        use: list[list[tuple[int, int]]] = [[] for _ in merged]  # (column, GPUs per replica)
        for kind, members in types.items():
            inside: list[tuple[int, float]] = []
            touched: list[tuple[int, float]] = []
            for place, groups in enumerate(merged):
                rooms = groups.rooms[kind.hosting, kind.gpus]
                if not rooms.any():
                    continue
                replicas = lp.column(float(rooms.sum()))
                inside.append((replicas, 1.0))
                use[place].append((replicas, kind.gpus))
                if kind.fewest is not None:
                    touch = lp.column(float(len(members) * min(len(rooms), kind.replicas)))
                    touched.append((touch, 1.0))
                    most = float(min(rooms.max(), kind.replicas))
                    lp.row([(replicas, 1.0), (touch, -most)], upper=0.0)
                    terms[touch] += 1.0
            lp.row([*inside, *self._started(members)], 0.0, 0.0)
            if kind.fewest is not None:
                parts: Counter[int] = Counter(self._program.parts[job.name] for job, _ in members)
                each = [(part, -float(count)) for part, count in parts.items()]
                lp.row([*touched, *each], lower=0.0)
                for part, count in parts.items():
                    terms[part] -= float(kind.fewest * count)
        for groups, columns in zip(merged, use, strict=True):
            for size in sizes:
                row = [(c, float(gpus // size)) for c, gpus in columns if gpus >= size]
                if row:
                    lp.row(row, upper=float(groups.blocks[size]))
        return terms, 0

    def _merged_groups(self, level: str, sizes: list[int]) -> list[_Groups]:
        """Groups in which about equally many large blocks are idle, taken together."""
        stock = self._stock
        group_of = stock.group_of(level)
        blocks = {size: np.bincount(group_of, weights=stock.idle // size) for size in sizes}
        rooms = {
            (number, size): np.bincount(group_of, weights=np.where(mask, stock.idle // size, 0))
            for number, mask in enumerate(self._masks)
            for size in sizes
        }
        n_groups = len(next(iter(blocks.values()), np.zeros(0)))
        grain = 1
        while True:
            alike = [(rooms[key] // (grain * (1 + 4 * (key[1] < sizes[-1])))) for key in rooms]
            if not alike:
                return []
            _, kind_of = np.unique(np.stack(alike, axis=1), axis=0, return_inverse=True)
            kind_of = kind_of.ravel()
            if kind_of.max(initial=0) < MOST_GROUPS or grain > n_groups:
                break
            grain *= 2
        return [
            _Groups(
                {key: room[kind_of == kind] for key, room in rooms.items()},
                {size: float(total[kind_of == kind].sum()) for size, total in blocks.items()},
            )
            for kind in range(int(kind_of.max(initial=-1)) + 1)
        ]
