"""Policies by name: ``ORDER+PLACEMENT``, freely combined.

A placement alone means ``fifo-skip+PLACEMENT``, an order alone ``ORDER+best-fit``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from simulator import orders
from simulator.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.schedulers.cheapest import CheapestScheduler, EvictingScheduler
from simulator.schedulers.conservative import ConservativeScheduler
from simulator.schedulers.easy import EasyScheduler
from simulator.schedulers.fair import FairScheduler
from simulator.schedulers.impatient import ImpatientScheduler
from simulator.schedulers.line import LineScheduler
from simulator.schedulers.moving import MovingScheduler
from simulator.schedulers.per_pod import TIMEOUT_MS, PerPodScheduler
from simulator.schedulers.reclaim import ReclaimScheduler
from simulator.schedulers.rolling import ChoosingScheduler, PlacingScheduler, Rolling
from simulator.state import Cluster
from solver.greedy import PLACEMENTS, UnknownPolicyError
from solver.greedy.bid_price import BID_PRICES, bid_price_policy
from solver.greedy.fgd import FragmentationGradient
from solver.greedy.scoring import PlacementPolicy
from solver.prices.saved import SavedPrices

CP_SAT = "cp-sat"
DEFAULT_ORDER = "fifo-skip"
DEFAULT_PLACEMENT = "best-fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """What a run may be told besides its scenario, policy and seed.

    Parameters
    ----------
    penalty
        A job whose GPUs are in more NVLink islands than needed runs ``1 + penalty`` times as long.
    deadlock_timeout_ms
        How long a deadlock of `per-pod` lasts before it is broken.
    rolling
        How ``cp-sat`` is asked.
    prices
        What ``bid-price`` places by instead of prices of its own.
    price_window_ms
        ``bid-price`` makes its prices anew when the arrivals of so long are no more those that
        they were made for; None: never.
    """

    penalty: float = 0.0
    deadlock_timeout_ms: int = TIMEOUT_MS
    rolling: Rolling = field(default_factory=Rolling)
    prices: SavedPrices | None = None
    price_window_ms: int | None = None


SchedulerFactory = Callable[[Cluster, SimulationOptions], Scheduler]

ORDERS: Mapping[str, SchedulerFactory] = MappingProxyType(
    {
        "fifo-strict": lambda cluster, _: LineScheduler(
            cluster, orders.first_come(cluster.scenario), strict=True
        ),
        "fifo-skip": lambda cluster, _: LineScheduler(cluster, orders.first_come(cluster.scenario)),
        "sjf": lambda cluster, _: LineScheduler(
            cluster, orders.shortest_first(cluster.scenario), strict=True
        ),
        "priority": lambda cluster, _: LineScheduler(
            cluster, orders.highest_priority(cluster.scenario), preempts=True
        ),
        "drf": lambda cluster, _: FairScheduler(cluster),
        "reclaim": lambda cluster, _: ReclaimScheduler(cluster),
        "preempt": lambda cluster, _: CheapestScheduler(cluster),
        "defrag": lambda cluster, options: MovingScheduler(cluster, options.rolling),
        "easy": lambda cluster, _: EasyScheduler(cluster, orders.first_come(cluster.scenario)),
        "conservative": lambda cluster, _: ConservativeScheduler(
            cluster, orders.first_come(cluster.scenario)
        ),
        "per-pod": lambda cluster, options: PerPodScheduler(
            cluster, orders.first_come(cluster.scenario), options.deadlock_timeout_ms
        ),
    }
)
"""Who is next, by name."""

CHOOSES = ("fifo-skip", "priority")
"""Orders in which the solver may choose who starts; in the others it only says where."""


@dataclass(frozen=True, slots=True)
class SimulationPolicy:
    """An order and a placement; `name` is as it was typed."""

    name: str
    order: str
    placement: str

    def cluster(self, scenario: Scenario, seed: int, options: SimulationOptions) -> Cluster:
        """The scenario's machines under this policy's placement."""
        placement = placement_of(scenario, self.placement, seed, options)
        return Cluster(scenario, placement, options.penalty)

    def scheduler(self, cluster: Cluster, options: SimulationOptions) -> Scheduler:
        """Who decides on a cluster."""
        if not cluster.scenario.patient:
            return ImpatientScheduler(cluster)
        scheduler = ORDERS[self.order](cluster, options)
        if self.placement != CP_SAT:
            return scheduler
        if self.order == "preempt":
            assert isinstance(scheduler, LineScheduler)
            return EvictingScheduler(cluster, scheduler, options.rolling)
        if self.order in CHOOSES:
            assert isinstance(scheduler, LineScheduler)
            return ChoosingScheduler(cluster, scheduler, options.rolling)
        return PlacingScheduler(scheduler, options.rolling)


def placement_of(
    scenario: Scenario, name: str, seed: int, options: SimulationOptions | None = None
) -> PlacementPolicy:
    """Where replicas go; under ``cp-sat``, those that it has no answer for."""
    if name == "fgd":
        return FragmentationGradient(scenario.workload)
    if name in BID_PRICES:
        asked = options or SimulationOptions()
        return bid_price_policy(
            scenario.problem,
            scenario.offered,
            scenario.workload,
            name,
            asked.prices,
            asked.price_window_ms,
        )
    return PLACEMENTS[DEFAULT_PLACEMENT if name == CP_SAT else name](scenario.problem, seed)


def parse_simulation_policy(name: str) -> SimulationPolicy:
    """The policy of that name.

    Raises
    ------
    UnknownPolicyError
        There is no such order or placement.

    Examples
    --------
    >>> parse_simulation_policy("fgd").order, parse_simulation_policy("easy").placement
    ('fifo-skip', 'best-fit')
    """
    placements = (*PLACEMENTS, CP_SAT)
    order, plus, placement = name.partition("+")
    if not plus:
        if name in placements:
            return SimulationPolicy(name, DEFAULT_ORDER, name)
        if name in ORDERS:
            return SimulationPolicy(name, name, DEFAULT_PLACEMENT)
        raise UnknownPolicyError(name, (*ORDERS, *placements))
    if order not in ORDERS:
        raise UnknownPolicyError(order, ORDERS, f"policy {name!r}: no order {order!r}")
    if placement not in placements:
        why = f"policy {name!r}: no placement {placement!r}"
        raise UnknownPolicyError(placement, placements, why)
    return SimulationPolicy(name, order, placement)
