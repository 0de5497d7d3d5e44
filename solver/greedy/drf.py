"""DRF, dominant resource fairness, by progressive filling.

The next job is always one of the queue with the least ``dominant share / weight``, where the
dominant share is the largest of a queue's shares of the cluster's GPUs, CPU and memory. Queues of
weight 0 come after all others. Within a queue the highest priority comes first, then the order of
arrival; ties between queues go to the one named first. A job that does not fit is passed over.

References
----------
A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
2011, algorithm 1; weights as in its section 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from solver.greedy.orders import ItemT, Order
from solver.ledger import Ledger
from solver.problem import Problem
from solver.workload import Job


class DrfOrder(Order):
    """The poorest queue is next."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._place = {queue.name: place for place, queue in enumerate(problem.queues)}

    def rank(self, job: Job) -> tuple[int, ...]:
        """Among the jobs of one queue: priority, then arrival."""
        return (-job.priority, self._problem.position[job.name])

    def sequence(self, items: Iterable[ItemT], ledger: Ledger) -> Iterator[ItemT]:
        """Ask the ledger again before every item."""
        waiting: dict[str, deque[ItemT]] = {}
        for item in sorted(items, key=lambda item: self.rank(item.job)):
            waiting.setdefault(item.job.queue, deque()).append(item)

        def poverty(queue: str) -> tuple[bool, float, int]:
            weight = self._problem.queue_by_name[queue].weight
            share = ledger.dominant_share(queue)
            return (weight == 0, share / (weight or 1), self._place[queue])

        while waiting:
            queue = min(waiting, key=poverty)
            yield waiting[queue].popleft()
            if not waiting[queue]:
                del waiting[queue]
