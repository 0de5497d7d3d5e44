"""What queues of Kueue may use at most, which follows from the tree of cohorts around them.

For each flavor and resource, of a node X of the tree with quota q, borrowing limit b and lending
limit l (none: without end), and with subtree(X) what it and those below can offer::

    subtree(X)  = q(X) + sum over children of (subtree - kept)
    kept(X)     = max(0, subtree(X) - l(X)), which X lends to nobody; 0 without a lending limit
    reach(root) = subtree(root)
    reach(X)    = min(kept(X) + reach(parent), subtree(X) + b(X))
    limit(X)    = reach(X) + sum of what those below X keep

So a cohort is never worth more than the quotas in it, and a ClusterQueue without a cohort has its
own quota. A ClusterQueue reaches flavors that it lists itself.

References
----------
Kueue, "Cohort" and "Cluster Queue" (concepts); KEP-79 (hierarchical cohorts), KEP-1224 (lending
limits).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from kube.records import Nominal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube.records import Queue, QueueKey

Amount = dict[tuple[str, str], Fraction]
"""Amounts by flavor and resource."""
NONE = Nominal(Fraction(0))


class Cohorts:
    """The tree of Kueue's queues.

    Parameters
    ----------
    queues
        Queues by key; parents are among them and lead to no circle.
    """

    def __init__(self, queues: Mapping[QueueKey, Queue]) -> None:
        self._queues = queues
        self._below: dict[QueueKey | None, list[QueueKey]] = defaultdict(list)
        for queue in queues.values():
            self._below[queue.parent].append(queue.key)

    @cached_property
    def limits(self) -> Mapping[QueueKey, Mapping[str, Fraction]]:
        """The most that each queue may use, by resource, with all queues below it."""
        subtree: dict[QueueKey, Amount] = {}
        kept: dict[QueueKey, Amount] = {}
        reach: dict[QueueKey, Amount] = {}
        below: dict[QueueKey, Amount] = {}
        order = self._from_the_top()
        for key in reversed(order):
            subtree[key] = {pair: n.quota for pair, n in self._queues[key].flavors.items()}
            below[key] = {}
            for child in self._below[key]:
                for pair, amount in subtree[child].items():
                    _add(subtree[key], pair, amount - kept[child][pair])
                    _add(below[key], pair, kept[child][pair] + below[child].get(pair, 0))
            kept[key] = {
                pair: max(Fraction(0), amount - lending)
                if (lending := self._nominal(key, pair).lending) is not None
                else Fraction(0)
                for pair, amount in subtree[key].items()
            }
        for key in order:
            parent = self._queues[key].parent
            reach[key] = dict(subtree[key])
            if parent is None:
                continue
            for pair, own in subtree[key].items():
                borrowing = self._nominal(key, pair).borrowing
                amount = kept[key][pair] + reach[parent].get(pair, Fraction(0))
                reach[key][pair] = amount if borrowing is None else min(amount, own + borrowing)
        limits: dict[QueueKey, dict[str, Fraction]] = {}
        for key in order:
            limits[key] = {}
            for pair, amount in reach[key].items():
                limit = amount + below[key].get(pair, 0)
                limits[key][pair[1]] = limits[key].get(pair[1], Fraction(0)) + limit
        return limits

    @cached_property
    def quotas(self) -> Mapping[QueueKey, Mapping[str, Fraction]]:
        """What each queue and all below it are guaranteed, by resource."""
        totals: dict[QueueKey, dict[str, Fraction]] = {}
        for key in reversed(self._from_the_top()):
            total = totals[key] = dict(self._queues[key].quota)
            for child in self._below[key]:
                for resource, amount in totals[child].items():
                    total[resource] = total.get(resource, Fraction(0)) + amount
        return totals

    def _from_the_top(self) -> list[QueueKey]:
        order = list(self._below[None])
        for key in order:
            order += self._below[key]
        return order

    def _nominal(self, key: QueueKey, pair: tuple[str, str]) -> Nominal:
        return self._queues[key].flavors.get(pair, NONE)


def _add(amounts: Amount, pair: tuple[str, str], more: Fraction) -> None:
    amounts[pair] = amounts.get(pair, Fraction(0)) + more
