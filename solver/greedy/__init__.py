"""Greedy baselines: fast, with a plan for every problem and no proof for any.

`POLICIES` has the ones with a name of their own; `parse_policy` also understands
``ORDER+PLACEMENT``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from solver.fragmentation import TargetWorkload
from solver.greedy.best_fit import BestFit
from solver.greedy.bid_price import BID_PRICES, bid_price_policy
from solver.greedy.dominant_fit import DominantFit
from solver.greedy.dot_product import DotProduct
from solver.greedy.drf import DrfOrder
from solver.greedy.fgd import FragmentationGradient
from solver.greedy.first_fit import FirstFit
from solver.greedy.gpu_clustering import GpuClustering
from solver.greedy.gpu_packing import GpuPacking
from solver.greedy.orders import ArrivalOrder, PriorityOrder
from solver.greedy.philly_pack import PhillyPack
from solver.greedy.policy import (
    OrderFactory,
    PlacementFactory,
    Policy,
    UnknownPolicyError,
)
from solver.greedy.random_fit import RandomFit
from solver.greedy.scoring import Scale
from solver.greedy.topology_aware import TopologyAware
from solver.greedy.worst_fit import WorstFit
from solver.prices.saved import SavedPrices
from solver.problem import Problem
from solver.solution import Plan

__all__ = [
    "ORDERS",
    "PLACEMENTS",
    "POLICIES",
    "Policy",
    "UnknownPolicyError",
    "parse_policy",
    "place",
]


def _at_bid_prices(name: str, saved: SavedPrices | None = None) -> PlacementFactory:
    """At saved prices, or priced from the reference of the problem."""
    return lambda problem, _: bid_price_policy(
        problem, problem.reference, TargetWorkload(problem.reference), name, saved
    )


PLACEMENTS: Mapping[str, PlacementFactory] = MappingProxyType(
    {
        "first-fit": lambda _, __: FirstFit(),
        "best-fit": lambda problem, _: BestFit(Scale.of(problem)),
        "worst-fit": lambda problem, _: WorstFit(Scale.of(problem)),
        "dominant-fit": lambda problem, _: DominantFit(Scale.of(problem)),
        "dot-product": lambda problem, _: DotProduct(Scale.of(problem)),
        "gpu-packing": lambda _, __: GpuPacking(),
        "gpu-clustering": lambda problem, _: GpuClustering(Scale.of(problem)),
        "fgd": lambda problem, _: FragmentationGradient(TargetWorkload(problem.reference)),
        "random": lambda _, seed: RandomFit(seed),
        "topology-aware": lambda _, __: TopologyAware(),
        "philly-pack": lambda _, __: PhillyPack(),
        **{name: _at_bid_prices(name) for name in BID_PRICES},
    }
)
"""Where a replica goes, by name."""

ON_REQUEST = ("philly-pack", *BID_PRICES)
"""Placements that are no baselines by themselves: philly-pack only makes sense for its trace, and
prices take seconds to make."""

ORDERS: Mapping[str, OrderFactory] = MappingProxyType(
    {"priority": PriorityOrder, "fifo-skip": ArrivalOrder, "drf": DrfOrder}
)
"""Who is next, by name: the orders that mean something without time."""

NEEDS_TIME = ("fifo-strict", "sjf", "easy", "conservative")
"""Queue orders that only a simulation can follow."""

DRF_PLACEMENT = "best-fit"
"""What ``drf`` alone places by."""

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        **{
            name: Policy(name=name, order=PriorityOrder, placement=placement)
            for name, placement in PLACEMENTS.items()
            if name not in ON_REQUEST
        },
        "drf": Policy(name="drf", order=DrfOrder, placement=PLACEMENTS[DRF_PLACEMENT]),
    }
)
"""All baselines by name. A placement alone takes jobs by priority, then in order of arrival."""


def parse_policy(name: str) -> Policy:
    """The greedy policy of that name, or of that ``ORDER+PLACEMENT``.

    Raises
    ------
    UnknownPolicyError
        There is no such policy, order or placement, or the order needs time.

    Examples
    --------
    >>> parse_policy("fifo-skip+fgd").name
    'fifo-skip+fgd'
    """
    if name in POLICIES:
        return POLICIES[name]
    if name in ON_REQUEST:
        return Policy(name=name, order=PriorityOrder, placement=PLACEMENTS[name])
    order, plus, placement = name.partition("+")
    if not plus:
        raise UnknownPolicyError(name, POLICIES)
    if order in NEEDS_TIME:
        why = f"policy {name!r}: the order {order!r} needs time, so only a simulation can follow it"
        raise UnknownPolicyError(order, ORDERS, why)
    if order not in ORDERS:
        raise UnknownPolicyError(order, ORDERS, f"policy {name!r}: no order {order!r}")
    if placement not in PLACEMENTS:
        why = f"policy {name!r}: no placement {placement!r}"
        raise UnknownPolicyError(placement, PLACEMENTS, why)
    return Policy(name=name, order=ORDERS[order], placement=PLACEMENTS[placement])


def place(problem: Problem, name: str, seed: int = 1, prices: SavedPrices | None = None) -> Plan:
    """The plan of a greedy policy.

    Parameters
    ----------
    seed
        For policies that draw; the others do not look at it.
    prices
        What ``bid-price`` places by instead of prices of its own; the others do not look at it.

    Raises
    ------
    UnknownPolicyError
        There is no such policy.
    """
    policy = parse_policy(name)
    placement = name.rpartition("+")[2]
    if prices is not None and placement in BID_PRICES:
        policy = replace(policy, placement=_at_bid_prices(placement, prices))
    return policy.place(problem, seed)
