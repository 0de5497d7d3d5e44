"""What a node in use is still worth: the mean of V over futures, cheap to ask again and again.

Everything is kept by the leftovers of the node's devices in any order. To try what is left after
a replica has come to one device, the other devices' table is enough: it does not depend on the
replica.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solver.prices.market import Access, Market
from solver.prices.pricing import BELOW, WIDTH, Floats, Ints, NodeWorth, breaks
from solver.prices.scenarios import Future

Leftovers = tuple[int, ...]
"""Steps left of each device that has anything left, most first."""


class Opportunity:
    """Mean worth of what is left on nodes of one access.

    Parameters
    ----------
    gpu_steps
        Steps of a whole GPU.
    most_gpus
        Devices of a node, at most.
    """

    def __init__(
        self,
        market: Market,
        access: Access,
        futures: Sequence[Future],
        gpu_steps: int,
        most_gpus: int,
    ) -> None:
        self._market = market
        self._full = gpu_steps
        self._factors = tuple(future.cpu_factor for future in futures)
        worths = [NodeWorth(access, future.prices, gpu_steps, most_gpus) for future in futures]
        self._devices = np.stack([worth.device for worth in worths], axis=1)
        self._breaks = [breaks(rows) for rows in self._devices]
        self._steep = [rows[:, at] for rows, at in zip(self._devices, self._breaks, strict=True)]
        self._floor = self._equal_below()
        self._idle = [np.stack([worth.idle[n] for worth in worths]) for n in range(most_gpus + 1)]
        self._tables: dict[Leftovers, Floats] = {}
        self._rows: dict[int | None, tuple[tuple[int, ...], Ints]] = {}
        self._flat = (np.arange(len(worths)) * 2 * WIDTH + WIDTH)[:, None]
        self._spare = np.empty((len(worths), WIDTH))
        self._known: dict[tuple[Leftovers, tuple[int, ...]], float] = {}

    def _equal_below(self) -> list[int]:
        """By steps left, the fewest steps that are worth the same."""
        floor = [0]
        for r in range(1, len(self._devices)):
            same = np.array_equal(self._devices[r], self._devices[r - 1])
            floor.append(floor[-1] if same else r)
        floor[self._full] = self._full
        return floor

    def leftovers(self, steps: Sequence[int]) -> Leftovers:
        """What is left of devices, in a form that equal cases share."""
        floor = self._floor
        return tuple(sorted([floor[left] for left in steps if floor[left]], reverse=True))

    def worth(self, left: Leftovers, cpu_left: int | None) -> float:
        """Mean over futures of what a node with this left is worth, in milli-GPU."""
        cpu, offsets = self._cpu(cpu_left)
        key = (left, cpu)
        known = self._known.get(key)
        if known is None:
            if not left or left[-1] == self._full or left in self._tables:
                rows = self._table(left).reshape(-1)[offsets[:, 0]]
                known = float(rows.sum()) / len(cpu)
            else:
                known = self._joined(left, offsets)
            self._known[key] = known
        return known

    def _joined(self, left: Leftovers, offsets: Ints) -> float:
        """The table of all devices but the one with most that is no idle one, and that device."""
        # Which device is taken apart does not matter for the value; the last leaves a table that
        # is most often there already.
        r = left[-1]
        rest = self._table(left[:-1])
        at = self._breaks[r]
        options = rest.reshape(-1)[offsets - at] + self._steep[r]
        return float(options.max(axis=1).sum()) / len(self._factors)

    def _cpu(self, cpu_left: int | None) -> tuple[tuple[int, ...], Ints]:
        known = self._rows.get(cpu_left)
        if known is None:
            steps = tuple(self._market.cpu_steps(cpu_left, factor) for factor in self._factors)
            known = self._rows[cpu_left] = (steps, self._flat + np.array(steps)[:, None])
        return known

    def _table(self, left: Leftovers) -> Floats:
        """Worth by future and CPU; the left half is what less than no CPU is worth."""
        table = self._tables.get(left)
        if table is None:
            table = np.full((len(self._factors), 2 * WIDTH), BELOW)
            idle = left.count(self._full)
            if idle == len(left):
                table[:, WIDTH:] = self._idle[idle]
            else:
                self._join(self._table(left[:-1]), left[-1], table[:, WIDTH:])
            self._tables[left] = table
        return table

    def _join(self, rest: Floats, r: int, out: NDArray[np.float64]) -> None:
        steep, spare = self._steep[r], self._spare
        for i, at in enumerate(self._breaks[r].tolist()):
            np.add(rest[:, WIDTH - at : 2 * WIDTH - at], steep[:, i : i + 1], out=spare)
            np.maximum(out, spare, out=out)
