r"""Prices of shapes: duals of the configuration program, solved by column generation.

A configuration q of a node type is a multiset of shapes that one empty node of the type holds::

    max  sum_k g_k z_k
    s.t. z_k <= d_k,   z_k <= sum_q a_kq x_q        (dual y_k: the price of shape k)
         sum_{q of type t} x_q <= n_t

Configurations are found by `solver.prices.pricing`, one for each type and round, at prices that
move slowly (0.7 of the best so far, 0.3 of the program's). Every round proves the bound
``sum_t n_t V_t(y) + sum_k d_k max(0, g_k - y_k)``, whatever the prices (Dantzig-Wolfe duality).

How it is used
--------------
`solve_configurations(types, demands, ...)` with the node types of the cluster and the workload,
its demand scaled as the question wants it (to the GPUs of the cluster for an online policy, as it
is for a bound). ``result.prices[k]`` belongs to ``demands[k]``; hand these, as `Good`, to `Pricing`
(`goods_of` does so for one type), and a node state is worth ``pricing.value(gpu_left, cpu)``.
CPU-only shapes count with the worth that the caller gives them.

References
----------
P. C. Gilmore and R. E. Gomory, "A linear programming approach to the cutting-stock problem",
Operations Research 9(6), 1961.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from solver.cluster import GPU_MILLI
from solver.lp import LinearProgram
from solver.prices.pricing import Good, Pricing, cpu_units
from solver.workload import Shape

STABLE = 0.7
"""Weight of the best prices so far in the prices at which configurations are looked for."""

FIRST_PRICE = 0.95
"""Part of its worth at which every shape begins."""

ENOUGH = 1e-6
"""Part of the bound by which a configuration or a bound has to improve to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """Nodes that are alike: how many, devices of each, CPU, and the model (any text)."""

    count: int
    gpus: int
    cpu_milli: int
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A shape, how many want it (fractions are fine), and what one is worth in milli-GPU."""

    shape: Shape
    count: float
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What the program says.

    Parameters
    ----------
    value, bound
        Of the program; no packing is worth more than the bound where CPU is rounded down.
    prices
        By demand, the least that one of it has to pay to displace others; 0 to its worth.
    rounds, columns
        Work that was done.
    """

    value: float
    bound: float
    prices: tuple[float, ...]
    rounds: int
    columns: int


def goods_of(
    demands: Sequence[Demand],
    prices: Sequence[float],
    model: str,
    *,
    unit_milli: int,
    up: bool = False,
) -> tuple[Good, ...]:
    """The demands as goods on nodes of a model: those that it cannot host have the price 0."""
    return tuple(
        Good(
            gpus=1 if d.shape.is_share else d.shape.gpus,
            milli=(d.shape.share_milli or GPU_MILLI) if d.shape.wants_gpu else 0,
            cpu=cpu_units(d.shape.cpu_milli, unit_milli, up=up),
            price=price if not d.shape.gpu_models or model in d.shape.gpu_models else 0.0,
        )
        for d, price in zip(demands, prices, strict=True)
    )


def solve_configurations(
    types: Sequence[NodeType],
    demands: Sequence[Demand],
    *,
    unit_milli: int = 500,
    up: bool = False,
    gap: float = 1e-4,
    most_rounds: int = 200,
    time_s: float = 60.0,
) -> Prices:
    """Prices of all demands on empty nodes of these types.

    Parameters
    ----------
    unit_milli, up
        Unit of CPU, and whether requests are rounded up (a packing) or down (a bound).
    gap
        Part of the bound within which the program has to be.
    most_rounds, time_s
        When to stop in any case; what is known then is returned.
    """
    until_s = time.monotonic() + time_s
    worth = [d.worth for d in demands]
    best = [FIRST_PRICE * w for w in worth]
    bound, value, dual = float("inf"), 0.0, list(best)
    columns: dict[tuple[int, tuple[int, ...]], None] = {}
    rounds = 0
    while rounds < most_rounds:
        rounds += 1
        tried = [STABLE * b + (1 - STABLE) * y for b, y in zip(best, dual, strict=True)]
        before = len(columns)
        proved = _round(types, demands, tried, unit_milli, columns, up=up)
        if proved < bound:
            bound, best = proved, tried
        if len(columns) == before:  # misled by stable prices: those of the program itself
            proved = _round(types, demands, dual, unit_milli, columns, up=up)
            if proved < bound:
                bound, best = proved, list(dual)
        value, dual = _master(types, demands, columns, until_s - time.monotonic())
        if bound - value <= gap * max(bound, 1.0) or len(columns) == before:
            break
        if time.monotonic() > until_s:
            break
    return Prices(value=value, bound=bound, prices=tuple(best), rounds=rounds, columns=len(columns))


def _round(
    types: Sequence[NodeType],
    demands: Sequence[Demand],
    prices: Sequence[float],
    unit_milli: int,
    columns: dict[tuple[int, tuple[int, ...]], None],
    *,
    up: bool,
) -> float:
    """Add the best configuration of every type; the bound that the prices prove."""
    most_cpu = max((t.cpu_milli // unit_milli for t in types), default=0)
    pricings: dict[str, Pricing] = {}
    bound = sum(d.count * max(0.0, d.worth - y) for d, y in zip(demands, prices, strict=True))
    for place, kind in enumerate(types):
        if kind.model not in pricings:
            goods = goods_of(demands, prices, kind.model, unit_milli=unit_milli, up=up)
            pricings[kind.model] = Pricing(goods, most_cpu)
        state = (GPU_MILLI,) * kind.gpus, kind.cpu_milli // unit_milli
        bound += kind.count * pricings[kind.model].value(*state)
        columns[place, pricings[kind.model].content(*state)] = None
    return bound


def _master(
    types: Sequence[NodeType],
    demands: Sequence[Demand],
    columns: dict[tuple[int, tuple[int, ...]], None],
    time_s: float,
) -> tuple[float, list[float]]:
    """The program over the configurations so far: its value and the prices of the demands."""
    lp = LinearProgram()
    served = [lp.column(d.count) for d in demands]
    uses = [(place, content, lp.column(float(types[place].count))) for place, content in columns]
    for k, column in enumerate(served):
        supply = [(use, -float(content[k])) for _, content, use in uses if content[k]]
        lp.row([(column, 1.0), *supply], upper=0.0)
    for place, kind in enumerate(types):
        lp.row([(use, 1.0) for at, _, use in uses if at == place], upper=float(kind.count))
    costs = {column: d.worth for column, d in zip(served, demands, strict=True)}
    found = lp.optimise(costs, max(time_s, 1.0), sense="max")
    if found is None:
        return 0.0, [d.worth for d in demands]
    pairs = zip(found.duals, demands, strict=False)
    return found.value, [min(max(float(y), 0.0), d.worth) for y, d in pairs]
