"""Why each waiting job waits: one reason, one line, and the numbers behind it.

The reason is the rule that the cheapest fix lifts: rules about *where* are tried one by one, first
against what the plan leaves, then against what was there when the job's turn came. If no single
one helps, it is a matter of amounts: ``gpu-short``, ``gpu-fragmented``, ``cpu-short``,
``mem-short``; ``impossible`` only where the plain amounts do not fit the empty cluster.
"""

from solver.reasons.pending import pending
from solver.reasons.turn import rank, waiting_part

__all__ = ["pending", "rank", "waiting_part"]
