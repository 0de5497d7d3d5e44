"""Plausible futures: the workload with noise, on nodes with more or less CPU; prices for each.

One set of duals is degenerate, and blind to CPU where CPU is not short on average. The mean worth
over several futures is what a piece of a node may be expected to earn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.prices.configuration_lp import ConfigurationLp
from solver.prices.market import Market
from solver.prices.pricing import Floats

SPREAD = (1.3, 1.3, 1.25, 1.18, 1.18, 1.1, 1.1, 1.03, 1.03, 1.0, 0.92, 0.85)
"""CPU factors of the futures, as multiples of the critical one."""

FEW_SPREAD = (1.3, 1.15, 1.03, 0.92)
"""The same where set-up is to be short."""

MOST_CPU_FACTOR = 1.3
LEAST_CPU_FACTOR = 0.3
LOSS_RATIO = 0.003
"""What of the cluster's GPUs may be lost at the critical CPU factor."""

NOISE = 5.0
"""Variance over mean of a shape's demand in the futures (Gamma): 1 would be mere chance.

Much noise makes the prices of the futures differ, which is what their mean lives off.
"""

NOISE_SEED = 42

OVERLOAD = 1.1
"""Demand of the futures over the GPUs of the cluster.

Prices only say what to do without where more is asked for than there is. Where work leaves again,
futures that just fill the cluster drop more large pods than FGD does; where CPU is scarce, those
that overfill it give up half a point.
"""


@dataclass(frozen=True, slots=True)
class Future:
    """A factor of every node's CPU, and the price of every shape in milli-GPU."""

    cpu_factor: float
    prices: Floats


def futures(market: Market, *, few: bool = False) -> tuple[float, tuple[Future, ...]]:
    """The critical CPU factor, and the futures around it: all, or a few."""
    lp = ConfigurationLp(market)
    mean = OVERLOAD * np.array(market.demand)
    critical = critical_factor(lp, market, mean)
    random = np.random.default_rng(NOISE_SEED)
    found = []
    for spread in FEW_SPREAD if few else SPREAD:
        factor = min(MOST_CPU_FACTOR, critical * spread)
        demand = random.gamma(np.maximum(mean, 1e-9) / NOISE, NOISE)
        found.append(Future(factor, lp.solve(demand, factor).prices))
    return critical, tuple(found)


def critical_factor(lp: ConfigurationLp, market: Market, demand: Floats) -> float:
    """The least factor of all CPU at which hardly anything of a demand is lost, to 0.02."""
    enough = lp.solve(demand, MOST_CPU_FACTOR).value - LOSS_RATIO * market.capacity_milli
    low, high = LEAST_CPU_FACTOR, MOST_CPU_FACTOR
    while high - low > 0.02:
        middle = (low + high) / 2
        if lp.solve(demand, middle).value >= enough:
            high = middle
        else:
            low = middle
    return high
