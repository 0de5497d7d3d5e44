"""The configuration LP: how many nodes of each type get which packing, and what shapes are worth.

Maximise Σ worth_k z_k over z_k <= demand_k, z_k <= Σ_p a_kp x_p, Σ_p x_p <= nodes of the type,
with a column p for every packing of a node. Columns are generated: the packing that is worth most
at trial prices joins, until no packing is worth more than its node. The duals y_k of the second
rows, 0 <= y_k <= worth_k, are the bid prices. For any y,
``Σ_types count * V_type(y) + Σ_k demand_k * max(0, worth_k - y_k)`` bounds the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from solver.cluster import GPU_MILLI
from solver.prices.market import Market
from solver.prices.pricing import Floats, NodeWorth, Packing

_Solver = highspy.Highs.__bases__[0]
"""HiGHS itself: the class around it greets on standard output before it can be hushed."""

INERTIA = 0.7
"""Weight of the best prices so far against the duals of the LP."""

FIRST_PRICES = 0.95
"""Trial prices at first, as a part of the worth."""

MOST_ROUNDS = 200
CLOSE = 2e-4
"""Gap between bound and value, relative, at which prices are good enough."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A solved LP: its value, a bound on it, and the price of every shape.

    In a market that rounds CPU down (`bounds`), no plan is worth more than the bound.
    """

    value: float
    bound: float
    prices: Floats


class ConfigurationLp:
    """The LP of a market, solved for one demand after the other; packings are kept.

    A packing found for one demand or CPU factor serves all others in which it fits.
    """

    def __init__(self, market: Market) -> None:
        self._market = market
        self._worth = np.array(market.worth_milli)
        self._dearest = np.where(self._free(), 0.0, self._worth)
        self._types: list[int] = []
        self._cpu_steps: list[int] = []
        self._seen: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        self._highs: Any = _Solver()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("threads", 1)
        self._build()

    def _free(self) -> list[bool]:
        """Which shapes take no step of anything, and so have no price in a packing."""
        step = self._market.cpu_step_milli
        return [
            self._market.bounds and not shape.wants_gpu and shape.cpu_milli < step
            for shape in self._market.shapes
        ]

    def _build(self) -> None:
        market, highs = self._market, self._highs
        none, no_values = np.array([], np.int32), np.array([])
        for _ in market.shapes:
            highs.addRow(-highspy.kHighsInf, 0.0, 0, none, no_values)
        for kind in market.types:
            highs.addRow(-highspy.kHighsInf, float(kind.count), 0, none, no_values)
        for k, worth in enumerate(market.worth_milli):
            highs.addCol(-worth, 0.0, 0.0, 1, np.array([k], np.int32), np.array([1.0]))

    def solve(self, demand: Floats, cpu_factor: float) -> Priced:
        """Prices for a demand on nodes whose CPU is multiplied by a factor."""
        market, highs = self._market, self._highs
        n_shapes, n_types = len(market.shapes), len(market.types)
        room = [market.cpu_steps(kind.cpu_milli, cpu_factor) for kind in market.types]
        for k in range(n_shapes):
            highs.changeColBounds(k, 0.0, float(demand[k]))
        for p, (t, used) in enumerate(zip(self._types, self._cpu_steps, strict=True)):
            highs.changeColBounds(n_shapes + p, 0.0, highspy.kHighsInf if used <= room[t] else 0.0)
        best, bound, value = FIRST_PRICES * self._dearest, float("inf"), 0.0
        for _ in range(MOST_ROUNDS):
            highs.run()
            dual = -np.array(highs.getSolution().row_dual)
            value = -highs.getInfo().objective_function_value
            prices, rents = np.clip(dual[:n_shapes], 0.0, self._dearest), dual[n_shapes:]
            trials = [INERTIA * best + (1 - INERTIA) * prices, prices]
            joined = 0
            for trial in trials:
                packings = self._price(trial, room)
                total = sum(
                    kind.count * packing.worth
                    for kind, packing in zip(market.types, packings, strict=True)
                ) + float(demand @ np.maximum(0.0, self._worth - trial))
                if total < bound:
                    bound, best = total, trial
                joined = sum(
                    self._join(t, packings[t], prices, float(rents[t])) for t in range(n_types)
                )
                if joined or bound - value <= CLOSE * value:
                    break
            if not joined or bound - value <= CLOSE * value:
                break
        return Priced(value, bound, best)

    def _price(self, prices: Floats, room: list[int]) -> list[Packing]:
        market = self._market
        steps = GPU_MILLI // market.gpu_step_milli
        tables: dict[int, NodeWorth] = {}
        found = []
        for kind, cpu in zip(market.types, room, strict=True):
            if kind.access not in tables:
                most = max(t.gpus for t in market.types if t.access == kind.access)
                access = market.accesses[kind.access]
                tables[kind.access] = NodeWorth(access, prices, steps, most)
            found.append(tables[kind.access].packing(kind.gpus, cpu))
        return found

    def _join(self, t: int, packing: Packing, prices: Floats, rent: float) -> bool:
        """Add a packing that is worth more than its node; whether it was."""
        content = tuple(sorted(packing.shapes.items()))
        if (t, content) in self._seen:
            return False
        if sum(prices[k] * n for k, n in content) <= rent + 1e-6 * GPU_MILLI:
            return False
        self._seen.add((t, content))
        rows = [k for k, _ in content] + [len(self._market.shapes) + t]
        values = [-float(n) for _, n in content] + [1.0]
        self._highs.addCol(
            0.0, 0.0, highspy.kHighsInf, len(rows), np.array(rows, np.int32), np.array(values)
        )
        self._types.append(t)
        self._cpu_steps.append(packing.cpu_steps)
        return True
