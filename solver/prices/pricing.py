"""V: the most that what is left on a node is worth at given prices.

A device with r steps left and c steps of CPU is worth ``D[r, c] = max over items of
(price + D[r - size, c - cpu])``, an unbounded knapsack in two dimensions. Devices of a node share
its CPU: they are joined by ``(T + D)[c] = max over c' of T[c - c'] + D[c']``, at the break points
of D alone. Pods of several GPUs take that many idle devices at once; work without GPUs is where
the joining starts. Memory and links are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.prices.market import CPU_STEPS, Access, Item

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDTH = CPU_STEPS + 1
NOTHING = -1
BELOW = -1e18
"""Worth of what cannot be."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What fills a node best: its worth, and the items (by shape) in it."""

    worth: float
    shapes: dict[int, int]
    cpu_steps: int


class NodeWorth:
    """The tables of one access at one set of prices, with the way back to the packing.

    Parameters
    ----------
    prices
        By shape, in milli-GPU.
    gpu_steps
        Steps of a whole GPU.
    most_gpus
        Idle devices of a node, at most.
    """

    def __init__(
        self, access: Access, prices: Sequence[float] | Floats, gpu_steps: int, most_gpus: int
    ) -> None:
        priced = [(item, float(prices[item.shape])) for item in access.items]
        priced = [(item, price) for item, price in priced if price > 0]
        self._single = _undominated([pair for pair in priced if pair[0].gpus == 1])
        self._several = _undominated([pair for pair in priced if pair[0].gpus > 1])
        self._alone = _undominated([pair for pair in priced if not pair[0].gpus])
        self.device, self._device_choice = _device_table(self._single, gpu_steps)
        self._gpu_steps = gpu_steps
        self.idle: list[Floats] = []
        self._idle_choice: list[tuple[Ints, Ints]] = []
        self._without_gpus()
        for n in range(1, most_gpus + 1):
            self._one_more(n)

    def _without_gpus(self) -> None:
        table, choice = np.zeros(WIDTH), np.full(WIDTH, NOTHING)
        for c in range(1, WIDTH):
            table[c] = table[c - 1]
            for i, (item, price) in enumerate(self._alone):
                if item.cpu_steps <= c and table[c - item.cpu_steps] + price > table[c]:
                    table[c], choice[c] = table[c - item.cpu_steps] + price, i
        self.idle.append(table)
        self._idle_choice.append((choice, np.zeros(WIDTH, np.int64)))

    def _one_more(self, n: int) -> None:
        """One idle device more: taken by itself, or with others by a pod of several GPUs."""
        row = self.device[self._gpu_steps]
        steps = breaks(row[None, :])
        padded = np.concatenate([np.full(WIDTH, BELOW), self.idle[n - 1]])
        options = padded[np.arange(WIDTH)[None, :] + WIDTH - steps[:, None]] + row[steps][:, None]
        first = options.argmax(axis=0)
        table, spent = options[first, np.arange(WIDTH)], steps[first]
        choice = np.full(WIDTH, NOTHING)
        for i, (item, price) in enumerate(self._several):
            if item.gpus <= n:
                with_it = np.full(WIDTH, BELOW)
                with_it[item.cpu_steps :] = (
                    self.idle[n - item.gpus][: WIDTH - item.cpu_steps] + price
                )
                better = with_it > table
                table = np.where(better, with_it, table)
                choice[better] = i
        self.idle.append(table)
        self._idle_choice.append((choice, spent))

    def packing(self, gpus: int, cpu_steps: int) -> Packing:
        """The best packing of an idle node."""
        found: dict[int, int] = {}
        n, c, used = gpus, cpu_steps, 0

        def add(item: Item) -> None:
            nonlocal used
            found[item.shape] = found.get(item.shape, 0) + 1
            used += item.cpu_steps

        while n:
            choice, spent = self._idle_choice[n]
            if choice[c] != NOTHING:
                item = self._several[choice[c]][0]
                add(item)
                n, c = n - item.gpus, c - item.cpu_steps
                continue
            r, within = self._gpu_steps, int(spent[c])
            n, c = n - 1, c - within
            while r:
                chosen = self._device_choice[r, within]
                if chosen == NOTHING:
                    r -= 1
                    continue
                item = self._single[chosen][0]
                add(item)
                r, within = r - item.gpu_steps, within - item.cpu_steps
        choice, _ = self._idle_choice[0]
        while c:
            if choice[c] == NOTHING:
                c -= 1
                continue
            item = self._alone[choice[c]][0]
            add(item)
            c -= item.cpu_steps
        return Packing(float(self.idle[gpus][cpu_steps]), found, used)


def breaks(rows: Floats) -> Ints:
    """Amounts of CPU at which any of the rows rises, and 0."""
    return np.concatenate([[0], 1 + np.flatnonzero((rows[:, 1:] > rows[:, :-1]).any(axis=0))])


def _undominated(priced: Sequence[tuple[Item, float]]) -> list[tuple[Item, float]]:
    """Items that no other beats or equals in size, CPU and price; small ones first."""
    kept: list[tuple[Item, float]] = []
    for item, price in sorted(
        priced, key=lambda pair: (pair[0].gpus, pair[0].gpu_steps, pair[0].cpu_steps, -pair[1])
    ):
        if not any(
            other.gpus <= item.gpus
            and other.gpu_steps <= item.gpu_steps
            and other.cpu_steps <= item.cpu_steps
            and worth >= price
            for other, worth in kept
        ):
            kept.append((item, price))
    return kept


def _device_table(
    priced: Sequence[tuple[Item, float]], gpu_steps: int
) -> tuple[Floats, NDArray[np.int64]]:
    table = np.zeros((gpu_steps + 1, WIDTH))
    choice = np.full((gpu_steps + 1, WIDTH), NOTHING)
    if not priced:
        return table, choice
    wide = 2 * WIDTH
    padded = np.full((gpu_steps + 1, wide), BELOW)
    padded[0, WIDTH:] = 0.0
    flat = padded.reshape(-1)
    sizes = np.array([item.gpu_steps for item, _ in priced])
    cpu = np.array([item.cpu_steps for item, _ in priced])
    price = np.array([worth for _, worth in priced])[:, None]
    offset = (WIDTH - cpu - sizes * wide)[:, None] + np.arange(WIDTH)[None, :]
    columns = np.arange(WIDTH)
    for r in range(1, gpu_steps + 1):
        many = int(np.searchsorted(sizes, r, side="right"))
        table[r] = table[r - 1]
        if many:
            options = flat[offset[:many] + r * wide] + price[:many]
            best = options.argmax(axis=0)
            worth = options[best, columns]
            better = worth > table[r]
            table[r][better] = worth[better]
            choice[r][better] = best[better]
        padded[r, WIDTH:] = table[r]
    return table, choice
