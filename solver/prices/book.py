"""The price book: the prices of a workload on a cluster, ready to be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from solver.cluster import GPU_MILLI, Node
from solver.prices.market import Access, Market, NodeType, access_of, make_market
from solver.prices.opportunity import Opportunity
from solver.prices.scenarios import Future, futures
from solver.state import NodeState
from solver.workload import Shape

MOST_PRESS = 2.0


class PriceBook:
    """Prices of every shape in every future, and what a node is worth at them."""

    def __init__(self, market: Market, critical: float, futures: Sequence[Future]) -> None:
        self.market, self.critical, self.futures = market, critical, tuple(futures)
        self._step = market.gpu_step_milli
        self._by_access: dict[Access, Opportunity] = {}
        self._by_node: dict[Node, Opportunity] = {}
        self._press: dict[Node, float] = {}
        self._lists = self._model_lists()

    def worth_milli(self, node: Node, state: NodeState) -> float:
        """V of a node in a state, in milli-GPU."""
        known = self._by_node.get(node) or self._opportunity(node)
        step = self._step
        left = known.leftovers([milli // step for milli in state.gpu_left])
        return known.worth(left, state.cpu_left)

    def cost_milli(self, shape: int, kind: NodeType) -> float | None:
        """What the first replica of a shape destroys on an idle node of a type, in milli-GPU.

        None where it does not fit.
        """
        access = self.market.accesses[kind.access]
        item = next((item for item in access.items if item.shape == shape), None)
        cpu = self.market.shapes[shape].cpu_milli
        short = kind.cpu_milli is not None and cpu > kind.cpu_milli
        if item is None or short or item.gpus > kind.gpus:
            return None
        full = GPU_MILLI // self._step
        left = [full] * (kind.gpus - item.gpus)
        if item.gpus:
            left += [full - item.gpu_steps] * item.gpus
        worth = self._of(access)
        cpu_after = None if kind.cpu_milli is None else kind.cpu_milli - cpu
        before = worth.worth(worth.leftovers([full] * kind.gpus), kind.cpu_milli)
        return before - worth.worth(worth.leftovers(left), cpu_after)

    def _opportunity(self, node: Node) -> Opportunity:
        market = self.market
        access = access_of(node.kind, market.shapes, self._step, market.cpu_step_milli)
        found = self._by_node[node] = self._of(access)
        return found

    def _of(self, access: Access) -> Opportunity:
        if access not in self._by_access:
            most = max((t.gpus for t in self.market.types), default=0)
            self._by_access[access] = Opportunity(
                self.market, access, self.futures, GPU_MILLI // self._step, most
            )
        return self._by_access[access]

    def _model_lists(self) -> dict[tuple[str, ...], float]:
        """By list of models that shapes ask for, demand over devices."""
        asked: Counter[tuple[str, ...]] = Counter()
        for shape, demand, worth in zip(
            self.market.shapes, self.market.demand, self.market.worth_milli, strict=True
        ):
            if shape.gpu_models:
                asked[shape.gpu_models] += demand * worth / GPU_MILLI  # type: ignore[assignment]
        pressed = {}
        for models, gpus in asked.items():
            there = sum(t.gpus * t.count for t in self.market.types if set(t.models) & set(models))
            if there:
                pressed[models] = gpus / there
        return pressed

    def press(self, node: Node) -> float:
        """How much work depends on the node's models: demand over devices of lists with them."""
        known = self._press.get(node)
        if known is None:
            models = set(node.topology.gpu_models)
            total = sum(part for listed, part in self._lists.items() if models & set(listed))
            known = self._press[node] = min(MOST_PRESS, total)
        return known


@lru_cache(maxsize=4)
def _book(market: Market, few: bool) -> PriceBook:
    return PriceBook(market, *futures(market, few=few))


def price_book(
    nodes: Iterable[Node], workload: Sequence[tuple[Shape, float]], *, few: bool = False
) -> PriceBook:
    """The prices of a workload on a cluster, from all futures or from a few."""
    return _book(make_market(nodes, workload), few)
