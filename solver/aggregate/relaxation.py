r"""Bounds for the admission steps: a linear program over shapes and classes of nodes.

With ``s_j`` the part of gang j that starts, ``t_r`` replicas of role r, and ``x[k, c]`` replicas of
shape k on nodes of class c (all continuous)::

    min_r * s_j <= t_r <= replicas_r * s_j       for gangs; t_r <= what fits at all otherwise
    sum_{r of shape k} t_r = sum_c x[k, c],      x[k, c] <= sum of what each node takes by itself
    sum_k floor(gpus_k / q) * x[k, c] <= sum_n floor(idle_n / q)              for q = 1, 2, ...
    sum_k milli_k * x[k, c] <= free milli of c;  the same for CPU and memory that GPUs can use up
    sum over jobs of a queue of amount * t_r <= what its limit leaves
    every admission step before has at least the value of the plan

The rows with q are valid because replicas on one node hold ``sum gpus <= idle`` and rounding down
each part of a sum gives no more than rounding down the sum. A class is a set of nodes that host the
same shapes and have equally many idle GPUs. Plans satisfy every row, so the optimum is a bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from solver.ledger import Ledger
from solver.lp import LinearProgram
from solver.problem import RoleKey
from solver.queues import subtree
from solver.stock import NO_LIMIT, Ints, Stock
from solver.tiers import Ruler, Step, StepKind, age_weight_milli
from solver.workload import Shape

ADMISSION: tuple[StepKind, ...] = ("started", "surplus", "cpu-only", "oldest")
"""Kinds of steps that the program speaks of."""


MOST_PATTERNS = 300
"""Patterns of whole gangs in one kind of group that are enumerated."""

MOST_COLUMNS = 30_000
"""Columns for shapes on classes; where there would be more, shapes are made coarser."""

EXACT = 1e-9
"""What adding up floating-point numbers may lose of a bound that duals prove."""


@dataclass(frozen=True, slots=True)
class ProgramBound:
    """What the program says of a step.

    Parameters
    ----------
    value
        Of the program.
    bound
        What no plan exceeds, in the integer unit of the step.
    parts
        Job name to the part of it that starts (gangs only).
    """

    value: float
    bound: int
    parts: Mapping[str, float]


class Relaxation:
    """The program of one problem; `bound` maximises one step after the other.

    Attributes
    ----------
    parts
        Job name to the column that says which part of it starts (gangs only).
    started
        Role to a column and a factor: their product is how many of its replicas start.
    """

    def __init__(self, ruler: Ruler, stock: Stock) -> None:
        self.problem = ruler.problem
        self._stock = stock
        self.lp = LinearProgram()
        self.parts: dict[str, int] = {}
        self.started: dict[RoleKey, tuple[int, float]] = {}
        self._most = ruler.startable
        self._columns_of_jobs()
        self._capacity()
        self._groups()
        self._limits()

    def bound(self, step: Step, time_s: float) -> ProgramBound | None:
        """The program's optimum for a step; None where the time did not suffice."""
        terms = self._terms(step)
        found = self.lp.optimise(terms, time_s, sense="max")
        if found is None:
            return None
        # Whole replicas add whole multiples of what one adds.
        grain = math.gcd(*(int(factor) for factor in terms.values())) or 1
        proved = math.floor(found.bound * (1 + EXACT) + EXACT)
        return ProgramBound(
            value=found.value,
            bound=proved // grain * grain,
            parts={job: float(found.columns[column]) for job, column in self.parts.items()},
        )

    def keep(self, step: Step, value: int) -> None:
        """Plans of interest have at least that value in a step."""
        self.lp.row(self._terms(step), lower=float(value))

    # -- columns ------------------------------------------------------------------------------

    def _columns_of_jobs(self) -> None:
        shared: dict[str, int] = {}
        for job in self.problem.jobs:
            possible = all(
                self._most[RoleKey(job.name, r.name)] >= r.min_replicas for r in job.roles
            )
            if job.gang:
                if job.start_group is not None and job.start_group in shared:
                    part = shared[job.start_group]
                else:
                    part = self.lp.column(1.0)
                if job.start_group is not None:
                    shared[job.start_group] = part
                self.parts[job.name] = part
            for role in job.roles:
                key = RoleKey(job.name, role.name)
                most = self._most[key] if possible or not job.gang else 0
                if job.gang and role.min_replicas == role.replicas:
                    part = self.parts[job.name]
                    self.started[key] = (part, float(role.replicas))
                    if most < role.replicas:
                        self.lp.row([(part, 1.0)], upper=0.0)
                    continue
                column = self.lp.column(float(most))
                self.started[key] = (column, 1.0)
                if job.gang:
                    part = self.parts[job.name]
                    self.lp.row([(column, 1.0), (part, -float(role.replicas))], upper=0.0)
                    self.lp.row([(column, 1.0), (part, -float(role.min_replicas))], lower=0.0)

    def _capacity(self) -> None:
        shapes = list(dict.fromkeys(role.shape for _, role in self.problem.roles()))
        classes = _classes(self._stock, shapes)
        coarse = coarsened(shapes, MOST_COLUMNS // max(1, len(classes)))
        roles: dict[Shape, dict[int, float]] = {}
        for job, role in self.problem.roles():
            column, factor = self.started[RoleKey(job.name, role.name)]
            terms = roles.setdefault(coarse[role.shape], defaultdict(float))
            terms[column] -= factor
        columns: dict[int, list[tuple[int, Shape]]] = defaultdict(list)
        for shape, started in roles.items():
            room = np.minimum(self._stock.room(shape), NO_LIMIT)
            parts = list(started.items())
            for place, nodes in enumerate(classes):
                most = int(room[nodes].sum())
                if most:
                    column = self.lp.column(float(min(most, NO_LIMIT)))
                    columns[place].append((column, shape))
                    parts.append((column, 1.0))
            self.lp.row(parts, 0.0, 0.0)
        for place, nodes in enumerate(classes):
            self._capacity_of(nodes, columns[place])

    def _groups(self) -> None:
        """Gangs that have to stay in one group compete for room in each group.

        Gangs with as many GPUs per replica, replicas and nodes that host them are one type. Groups
        in which equally many blocks of each size are idle are merged: their room is added up,
        but for how many gangs of a type each of them holds by itself.
        """
        by_level: dict[str, dict[tuple[int, int, bytes], list[int]]] = {}
        for job in self.problem.jobs:
            rule = job.topology
            if not job.gang or rule is None or not rule.required or rule.within == "island":
                continue
            role = max(job.roles, key=lambda r: r.shape.gpus * r.min_replicas)
            if not role.shape.gpus or not role.min_replicas:
                continue
            hosting = self._stock.hosting(role.shape).tobytes()
            key = (role.shape.gpus, role.min_replicas, hosting)
            types = by_level.setdefault(rule.within, {})
            types.setdefault(key, []).append(self.parts[job.name])
        for level, types in by_level.items():
            self._compete(level, types)

    def _compete(self, level: str, types: Mapping[tuple[int, int, bytes], list[int]]) -> None:
        stock, lp = self._stock, self.lp
        group_of = stock.group_of(level)
        sizes = sorted({gpus for gpus, _, _ in types})
        masks = list(dict.fromkeys(mask for _, _, mask in types))
        hosted = {mask: np.frombuffer(mask, dtype=bool) for mask in masks}
        features = [
            np.bincount(group_of, weights=np.where(hosted[mask], stock.idle // size, 0))
            for mask in masks
            for size in sizes
        ]
        blocks = [np.bincount(group_of, weights=stock.idle // size) for size in sizes]
        table = np.stack([*blocks, *features], axis=1).astype(np.int64)
        kinds, kind_of = np.unique(table, axis=0, return_inverse=True)
        many = np.bincount(kind_of.ravel())
        place = {key: at for at, key in enumerate((m, s) for m in masks for s in sizes)}
        use: list[list[tuple[int, int, int]]] = [[] for _ in kinds]
        for (gpus, replicas, mask), parts in types.items():
            room = kinds[:, len(sizes) + place[mask, gpus]]
            counts: dict[int, float] = defaultdict(float)
            for part in parts:
                counts[part] -= 1.0
            terms = list(counts.items())
            for kind in map(int, np.flatnonzero(room >= replicas)):
                most = float(many[kind] * (room[kind] // replicas))
                column = lp.column(min(most, float(len(parts))))
                terms.append((column, 1.0))
                use[kind].append((column, gpus, replicas))
            lp.row(terms, 0.0, 0.0)
        for kind, columns in enumerate(use):
            for at, size in enumerate(sizes):
                row = [(c, float(m * (g // size))) for c, g, m in columns if g >= size]
                if row:
                    lp.row(row, upper=float(many[kind] * kinds[kind, at]))
            self._whole_gangs(columns, sizes[-1], int(kinds[kind, len(sizes) - 1]), int(many[kind]))

    def _whole_gangs(
        self, columns: Sequence[tuple[int, int, int]], size: int, blocks: int, groups: int
    ) -> None:
        """Which gangs of the largest replicas share a group: whole ones, in a number of patterns.

        A group with 7 blocks takes a gang of 5 and one of 2, but never a half of one of 6 and 5.
        """
        largest = [(column, replicas) for column, gpus, replicas in columns if gpus == size]
        lengths = tuple(sorted({replicas for _, replicas in largest}))
        patterns = sums_within(blocks, lengths, MOST_PATTERNS)
        if not largest or patterns is None:
            return
        uses = [(pattern, self.lp.column(float(groups))) for pattern in patterns]
        self.lp.row([(use, 1.0) for _, use in uses], float(groups), float(groups))
        for length in lengths:
            row = [(column, 1.0) for column, replicas in largest if replicas == length]
            supply = [(u, -float(p.count(length))) for p, u in uses if length in p]
            self.lp.row([*row, *supply], upper=0.0)

    def _capacity_of(self, nodes: NDArray[np.intp], columns: list[tuple[int, Shape]]) -> None:
        stock, lp = self._stock, self.lp
        idle = self._fillable(nodes, [shape for _, shape in columns if shape.gpus])
        seen: set[tuple[float, ...]] = set()
        for part in range(1, max((s.gpus for _, s in columns), default=0) + 1):
            terms = [(c, float(s.gpus // part)) for c, s in columns if s.gpus >= part]
            most = float((idle // part).sum())
            scale = max((factor for _, factor in terms), default=1.0)
            signature = (most / scale, *(factor / scale for _, factor in terms))
            if terms and signature not in seen:
                seen.add(signature)
                lp.row(terms, upper=most)
        if any(s.is_share for _, s in columns):
            # Slices count by the smallest GPU that has them, and may be on others: not in this row.
            whole = [(c, s) for c, s in columns if s.wants_gpu and not s.slices]
            milli = [(c, float(self._least_milli(s))) for c, s in whole]
            lp.row(milli, upper=float(stock.milli[nodes].sum()))
        for left, amount in ((stock.cpu, _cpu_of), (stock.memory, _memory_of)):
            terms = [(c, float(amount(s))) for c, s in columns if amount(s)]
            if terms and int(left[nodes].max()) < NO_LIMIT:
                lp.row(terms, upper=float(_usable(left[nodes], idle, columns, amount).sum()))

    def _fillable(self, nodes: NDArray[np.intp], shapes: Sequence[Shape]) -> Ints:
        """Idle GPUs that CPU and memory let these shapes take, node by node."""
        idle = self._stock.idle[nodes]
        for left, amount in ((self._stock.cpu, _cpu_of), (self._stock.memory, _memory_of)):
            least = min((amount(shape) / shape.gpus for shape in shapes), default=0.0)
            if least:
                idle = np.minimum(idle, np.floor(left[nodes] / least + 1e-9).astype(np.int64))
        return idle

    def _least_milli(self, shape: Shape) -> int:
        return self.problem.gpu_milli(shape) if not shape.share_memory_mib else 1

    def _limits(self) -> None:
        ledger = Ledger(self.problem)
        for queue in self.problem.queues:
            if not queue.limit:
                continue
            names = subtree(self.problem.queues, queue.name)
            for resource, limit in queue.limit.items():
                terms: dict[int, float] = defaultdict(float)
                for job, role in self.problem.roles():
                    if job.queue in names:
                        column, factor = self.started[RoleKey(job.name, role.name)]
                        terms[column] += factor * self.problem.amount(role.shape, resource)
                terms = {column: amount for column, amount in terms.items() if amount}
                if terms:
                    used = ledger.used_below(queue.name, resource)
                    self.lp.row(terms, upper=float(max(0, limit - used)))

    # -- steps --------------------------------------------------------------------------------

    def _terms(self, step: Step) -> dict[int, float]:
        """A step as an expression over the columns."""
        terms: dict[int, float] = defaultdict(float)
        for job, role in self.problem.roles():
            if job.priority != step.level:
                continue
            started, factor = self.started[RoleKey(job.name, role.name)]
            milli = self.problem.gpu_milli(role.shape) if role.shape.wants_gpu else 0
            if step.kind == "oldest":
                terms[started] += factor * age_weight_milli(self.problem, job, role.name)
            elif step.kind == "cpu-only" and not role.shape.wants_gpu:
                terms[started] += factor * role.shape.cpu_milli
            elif step.kind == "started" and not job.gang:
                terms[started] += factor * milli
            elif step.kind == "started":
                terms[self.parts[job.name]] += milli * role.min_replicas
            elif step.kind == "surplus" and job.gang:
                terms[started] += factor * milli
                terms[self.parts[job.name]] -= milli * role.min_replicas
        return {column: factor for column, factor in terms.items() if factor}


def coarsened(shapes: Sequence[Shape], most: int) -> dict[Shape, Shape]:
    """Shapes that ask for no more CPU and memory than the given ones, not many more than `most`.

    Rounding requests down only lets more start, so a bound for the coarse shapes is one for the
    problem. The steps are the same for each GPU of a replica, so that 8 GPUs lose no more than 1.
    """
    cpu_step, memory_step = 1, 1
    found = {shape: shape for shape in shapes}
    while len(set(found.values())) > max(most, 1) and memory_step < NO_LIMIT:
        cpu_step = 500 if cpu_step == 1 else 2 * cpu_step
        memory_step = 2048 if memory_step == 1 else 2 * memory_step
        found = {
            shape: replace(
                shape,
                cpu_milli=_down(shape.cpu_milli, cpu_step * max(1, shape.gpus)),
                memory_mib=_down(shape.memory_mib, memory_step * max(1, shape.gpus)),
            )
            for shape in shapes
        }
    return found


def _down(amount: int, step: int) -> int:
    return amount // step * step


@cache
def sums_within(
    most: int, parts: tuple[int, ...], patience: int
) -> tuple[tuple[int, ...], ...] | None:
    """All multisets of `parts` (each positive) that add up to no more than `most`.

    None where there are more than `patience` of them.

    Examples
    --------
    >>> sums_within(5, (2, 3), 10)
    ((), (2,), (2, 2), (3,), (3, 2))
    """
    found: list[tuple[int, ...]] = []
    stack: list[tuple[tuple[int, ...], int, int]] = [((), most, len(parts))]
    while stack:
        chosen, left, allowed = stack.pop()
        found.append(chosen)
        if len(found) > patience:
            return None
        for place in range(allowed):
            if parts[place] <= left:
                stack.append(((*chosen, parts[place]), left - parts[place], place + 1))
    return tuple(sorted(found))


def _cpu_of(shape: Shape) -> int:
    return shape.cpu_milli


def _memory_of(shape: Shape) -> int:
    return shape.memory_mib


def _usable(
    left: Ints,
    idle: Ints,
    columns: Sequence[tuple[int, Shape]],
    amount: Callable[[Shape], int],
) -> Ints:
    """What replicas can use of CPU or memory, node by node: no more than their GPUs let them."""
    if any(amount(s) and not s.gpus for _, s in columns):
        return left
    richest = max(amount(s) / s.gpus for _, s in columns if s.gpus)
    usable: Ints = np.minimum(left, np.floor(idle * richest).astype(np.int64))
    return usable


def _classes(stock: Stock, shapes: Sequence[Shape]) -> list[NDArray[np.intp]]:
    """Nodes by number of idle GPUs and by which shapes they host."""
    bare = list(dict.fromkeys(replace(s, cpu_milli=0, memory_mib=0) for s in shapes))
    masks = [stock.hosting(shape) for shape in bare]
    table = np.stack([stock.idle, *(mask.astype(np.int64) for mask in masks)], axis=1)
    _, inverse = np.unique(table, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    edges = np.flatnonzero(np.diff(inverse.ravel()[order])) + 1
    return list(np.split(order, edges))
