r"""The value of a node: the best packing of what it has left, where every shape has a price.

``V(state) = max sum_k y_k n_k`` over all multisets ``n`` of shapes that the devices and the CPU of
the state hold; memory is not looked at. With ``D[r, c]`` the best content of one device with ``r``
left in ``c`` units of CPU, and ``F[j, c]`` that of a node of which j idle devices are in use::

    D[r, c] = max(D[r - 1, c], D[r, c - 1], D[r - milli_k, c - cpu_k] + y_k)
    F[0]    = CPU-only shapes, joined with D[left] of every device that is partly taken
    F[j]    = max(F[j - 1] joined with D[1000],  F[j - gpus_k, c - cpu_k] + y_k)

where "joined" is ``(A * B)[c] = max_b A[c - b] + B[b]``, looked at only where B rises. It takes
about a millisecond for a node of eight devices, less where few are idle.

How it is used
--------------
Build one `Pricing` for each set of prices and each set of shapes that a kind of node hosts. `value`
is V of one state; the cost of a placement at bid prices is ``value(before) - value(after)``. Round
CPU of shapes down for a bound, up for a packing that is to be used (`cpu_units`); CPU left is
always rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solver.cluster import GPU_MILLI

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    """A shape as far as prices go.

    Parameters
    ----------
    gpus, milli
        Devices, and thousandths taken of each: (1, 810) is a share, (2, 1000) two whole devices,
        (0, 0) wants CPU alone.
    cpu
        Units of CPU.
    price
        What one of it is worth, not negative (in milli-GPU).
    """

    gpus: int
    milli: int
    cpu: int
    price: float


def cpu_units(cpu_milli: int, unit_milli: int, *, up: bool) -> int:
    """CPU in units, rounded up or down.

    Examples
    --------
    >>> cpu_units(3152, 500, up=False), cpu_units(3152, 500, up=True)
    (6, 7)
    """
    return -(-cpu_milli // unit_milli) if up else cpu_milli // unit_milli


class Pricing:
    """Goods at prices, and what a node is worth to them.

    Parameters
    ----------
    goods
        What may be put on the node, in an order that `content` keeps.
    most_cpu
        Units of CPU of the largest node that will be asked about.
    """

    def __init__(self, goods: Sequence[Good], most_cpu: int) -> None:
        self._goods = tuple(goods)
        self._most_cpu = most_cpu
        useful = [(k, good) for k, good in enumerate(goods) if good.price > 0]
        self._cpu_only = [(k, g) for k, g in useful if not g.gpus]
        self._single = _undominated([(k, g) for k, g in useful if g.gpus == 1])
        self._several = [(k, g) for k, g in useful if g.gpus > 1]
        self._grain = math.gcd(GPU_MILLI, *(good.milli for _, good in self._single))
        self._rises: dict[int, list[tuple[int, float]]] = {}

    def value(self, gpu_left: Sequence[int], cpu: int) -> float:
        """V of a state: thousandths left of each device, and units of CPU left."""
        tables = self._tables(gpu_left)
        return float(tables[-1][-1][min(cpu, self._most_cpu)])

    def content(self, gpu_left: Sequence[int], cpu: int) -> tuple[int, ...]:
        """How many of each good a packing of that value has."""
        counts = [0] * len(self._goods)
        (partly, idle), at = self._tables(gpu_left), min(cpu, self._most_cpu)
        devices = [left for left in gpu_left if 0 < left < GPU_MILLI]
        place = len(idle) - 1
        while place:
            for k, good in self._several:
                if good.gpus <= place and good.cpu <= at:
                    before = idle[place - good.gpus][at - good.cpu]
                    if before + good.price == idle[place][at]:
                        counts[k] += 1
                        place, at = place - good.gpus, at - good.cpu
                        break
            else:
                at = self._leave(idle[place - 1], idle[place][at], GPU_MILLI, at, counts)
                place -= 1
        for place in range(len(devices), 0, -1):
            at = self._leave(partly[place - 1], partly[place][at], devices[place - 1], at, counts)
        self._trace_cpu_only(at, counts)
        return tuple(counts)

    def _tables(self, gpu_left: Sequence[int]) -> tuple[list[Values], list[Values]]:
        """F after each device that is partly taken, then after each idle one."""
        partly = [self._of_cpu]
        for left in gpu_left:
            if 0 < left < GPU_MILLI:
                partly.append(self._joined(partly[-1], left))
        idle = [partly[-1]]
        for _ in range(sum(left == GPU_MILLI for left in gpu_left)):
            table = self._joined(idle[-1], GPU_MILLI)
            for _, good in self._several:
                if good.gpus <= len(idle) and good.cpu <= self._most_cpu:
                    rest = idle[len(idle) - good.gpus][: self._most_cpu + 1 - good.cpu]
                    np.maximum(table[good.cpu :], rest + good.price, out=table[good.cpu :])
            idle.append(table)
        return partly, idle

    def _joined(self, table: Values, left: int) -> Values:
        found = table.copy()
        for cpu, worth in self._rises_of(left):
            np.maximum(found[cpu:], table[: self._most_cpu + 1 - cpu] + worth, out=found[cpu:])
        return found

    def _rises_of(self, left: int) -> list[tuple[int, float]]:
        """Where D[left] rises, and to what."""
        if left not in self._rises:
            row = self._of_device[left // self._grain]
            places = np.flatnonzero(np.diff(row, prepend=0.0) > 0)
            self._rises[left] = [(int(c), float(row[c])) for c in places]
        return self._rises[left]

    @cached_property
    def _of_device(self) -> Values:
        """D, by steps of `_grain` thousandths and units of CPU."""
        steps, width = GPU_MILLI // self._grain, self._most_cpu + 1
        table = np.zeros((steps + 1, width))
        for r in range(1, steps + 1):
            row = table[r]
            row[:] = table[r - 1]
            for _, good in self._single:
                before = r - good.milli // self._grain
                if before >= 0 and good.cpu < width:
                    rest = table[before][: width - good.cpu]
                    np.maximum(row[good.cpu :], rest + good.price, out=row[good.cpu :])
        return table

    @cached_property
    def _of_cpu(self) -> Values:
        """The best of CPU-only goods in so many units; those that take none are worth nothing."""
        table = np.zeros(self._most_cpu + 1)
        goods = [(good.cpu, good.price) for _, good in self._cpu_only if good.cpu]
        for c in range(1, self._most_cpu + 1):
            best = table[c - 1]
            for cpu, price in goods:
                if cpu <= c:
                    best = max(best, table[c - cpu] + price)
            table[c] = best
        return table

    def _leave(self, before: Values, worth: float, left: int, at: int, counts: list[int]) -> int:
        """Undo one device: count what is on it; the CPU that is left for the others."""
        if before[at] == worth:
            return at
        for cpu, gain in self._rises_of(left):
            if cpu <= at and before[at - cpu] + gain == worth:
                self._trace_device(left // self._grain, cpu, counts)
                return at - cpu
        raise AssertionError("a table was made of something else than it says")

    def _trace_device(self, r: int, c: int, counts: list[int]) -> None:
        table = self._of_device
        while table[r, c] > 0:
            if table[r - 1, c] == table[r, c]:
                r -= 1
                continue
            for k, good in self._single:
                before = r - good.milli // self._grain
                if (
                    before >= 0
                    and good.cpu <= c
                    and table[before, c - good.cpu] + good.price == table[r, c]
                ):
                    counts[k] += 1
                    r, c = before, c - good.cpu
                    break
            else:
                raise AssertionError("a table was made of something else than it says")

    def _trace_cpu_only(self, c: int, counts: list[int]) -> None:
        table = self._of_cpu
        while table[c] > 0:
            if table[c - 1] == table[c]:
                c -= 1
                continue
            k, good = next(
                (k, g)
                for k, g in self._cpu_only
                if 0 < g.cpu <= c and table[c - g.cpu] + g.price == table[c]
            )
            counts[k] += 1
            c -= good.cpu


def _undominated(goods: list[tuple[int, Good]]) -> list[tuple[int, Good]]:
    """Without goods that another takes no more for and pays no less than."""
    ranked = sorted(goods, key=lambda e: (e[1].milli, e[1].cpu, -e[1].price, e[0]))
    kept: list[tuple[int, Good]] = []
    for k, good in ranked:
        if not any(
            o.milli <= good.milli and o.cpu <= good.cpu and o.price >= good.price for _, o in kept
        ):
            kept.append((k, good))
    return kept
