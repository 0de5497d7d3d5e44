"""DRF, dominant resource fairness, by progressive filling.

The next job is always one of the queue with the least ``dominant share / weight``, where the
dominant share is the largest of a queue's shares of the cluster's GPUs, CPU and memory; of nested
queues, level by level (`solver.fair_order`). Queues of weight 0 come after all others. Within a
queue the highest priority comes first, then the order of arrival; ties between queues go to the one
named first. A job that does not fit is passed over.

References
----------
A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
2011, algorithm 1; weights as in its section 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from solver.fair_order import poorest
from solver.greedy.orders import ItemT, Order
from solver.ledger import Ledger
from solver.workload import Job


class DrfOrder(Order):
    """The poorest queue is next."""

    def rank(self, job: Job) -> tuple[int, ...]:
        """Among the jobs of one queue: priority, then arrival."""
        return (-job.priority, self._problem.position[job.name])

    def sequence(self, items: Iterable[ItemT], ledger: Ledger) -> Iterator[ItemT]:
        """Ask the ledger again before every item."""
        waiting: dict[str, deque[ItemT]] = {}
        for item in sorted(items, key=lambda item: self.rank(item.job)):
            waiting.setdefault(item.job.queue, deque()).append(item)

        while waiting:
            queue = poorest(self._problem.queue_tree, waiting, ledger.dominant_share)
            yield waiting[queue].popleft()
            if not waiting[queue]:
                del waiting[queue]
