"""Bid prices: the node where a replica destroys least of what the rest of the workload would pay.

``cost = phi(after) - phi(before) + 15 * cpu_left / largest_cpu + 10 * gpu_left / largest_gpus +
50 * press(model) * GPUs``, least cost first, with ``phi = R - V + 0.07 F`` in milli-GPU: R what
is left of the devices, V what the best packing of it is worth at bid prices, mean over futures
(see `solver.prices`), F fragmentation (see `solver.fragmentation`), not truncated. A share tries
every feasible device.
"""

from __future__ import annotations

from collections.abc import Sequence

from solver.cluster import GPU_MILLI, Node
from solver.fit import feasible_gpus, pick_gpus, share_milli_on
from solver.fragmentation import TargetWorkload
from solver.greedy.scoring import PlacementPolicy, Scale, Score, ratio
from solver.prices.book import PriceBook, price_book
from solver.prices.market import CPU_WORTH
from solver.prices.observed import Observed
from solver.prices.saved import SavedPrices, book_of
from solver.problem import Problem
from solver.state import NodeState
from solver.workload import Job, Shape

FRAGMENTATION_WEIGHT = 0.07
CPU_LEFT_MILLI = 15.0
GPU_LEFT_MILLI = 10.0
PRESS_MILLI = 50.0


class BidPrice(PlacementPolicy):
    """Least opportunity cost.

    Parameters
    ----------
    book
        Prices, from a workload and the cluster.
    workload
        What fragmentation is relative to.
    scale
        The largest node.
    """

    def __init__(self, book: PriceBook, workload: TargetWorkload, scale: Scale) -> None:
        self._book, self._workload, self._scale = book, workload, scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher the less is lost."""
        return (-self._best(node, state, shape)[0],)

    def pick(self, node: Node, state: NodeState, shape: Shape) -> tuple[int, ...] | None:
        """Whole GPUs by rule; for a share the device where least is lost."""
        return self._best(node, state, shape)[1]

    def _best(
        self, node: Node, state: NodeState, shape: Shape
    ) -> tuple[float, tuple[int, ...] | None]:
        before = self._potential(node, state)
        left = CPU_LEFT_MILLI * ratio(state.cpu_left, self._scale.cpu_milli)
        left += GPU_LEFT_MILLI * ratio(state.free_milli, self._scale.gpu_milli)
        if not shape.is_share:
            gpus = pick_gpus(node, shape, state)
            if gpus is None:
                return 0.0, None
            after = self._potential(node, state.place(shape, gpus, GPU_MILLI))
            return after - before + left + self._press(node, shape.gpus), gpus
        best: tuple[float, tuple[int, ...] | None] = (float("inf"), None)
        tried = set()
        for gpu in feasible_gpus(node, shape, state):
            milli = share_milli_on(node, shape, gpu)
            alike = (state.gpu_left[gpu], milli, node.topology.gpu_models[gpu])
            if alike in tried:
                continue
            tried.add(alike)
            after = self._potential(node, state.place(shape, (gpu,), milli))
            cost = after - before + left + self._press(node, milli / GPU_MILLI)
            if cost < best[0]:
                best = (cost, (gpu,))
        return best

    def _press(self, node: Node, gpus: float) -> float:
        return PRESS_MILLI * self._book.press(node) * gpus

    def _potential(self, node: Node, state: NodeState) -> float:
        fragmented = self._workload.fragmentation_milli(node, state)
        return (
            sum(state.gpu_left)
            - self._book.worth_milli(node, state)
            + FRAGMENTATION_WEIGHT * fragmented
        )


class ObservedBidPrice(BidPrice):
    """Least opportunity cost, at prices that are made anew when the arrivals have drifted.

    Parameters
    ----------
    problem
        Whose nodes are priced.
    observed
        The arrivals.
    few
        Whether to look at a few futures only.
    """

    def __init__(
        self,
        book: PriceBook,
        workload: TargetWorkload,
        problem: Problem,
        observed: Observed,
        *,
        few: bool,
    ) -> None:
        super().__init__(book, workload, Scale.of(problem))
        self._problem, self._observed, self._few = problem, observed, few

    def hear(self, job: Job, at_ms: int) -> None:
        """Count the job, and make prices for what comes now where it is not what came before."""
        drifted = [
            self._observed.hear(role.shape, role.replicas, at_ms)
            for role in job.roles
            if not role.shape.slices
        ]
        if any(drifted):
            coming = self._observed.renew()
            self._book = price_book(self._problem.nodes, coming, few=self._few)
            self._workload = TargetWorkload(coming)
            self.edition += 1


BID_PRICES = ("bid-price", "bid-price-cheap")
"""Its names: with all futures, and with a few."""


def bid_price_policy(
    problem: Problem,
    demand: Sequence[tuple[Shape, int]],
    workload: TargetWorkload,
    name: str,
    saved: SavedPrices | None = None,
    window_ms: int | None = None,
) -> BidPrice:
    """The policy of that name, at saved prices or priced from a demand on a problem's nodes.

    Parameters
    ----------
    window_ms
        Prices are made anew when the arrivals of so long are not those that they were made for.
    """
    if saved is not None:
        book = book_of(saved, problem.nodes)
    else:
        book = price_book(problem.nodes, demand, few=name == BID_PRICES[1])
    if window_ms is None:
        return BidPrice(book, workload, Scale.of(problem))
    observed = Observed(
        window_ms, demand, lambda shape: problem.gpu_milli(shape) + CPU_WORTH * shape.cpu_milli
    )
    return ObservedBidPrice(book, workload, problem, observed, few=name == BID_PRICES[1])
