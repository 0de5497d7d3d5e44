"""What reservations promise of the limits of queues: the least that is left at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.lives import Life
from simulator.state import Cluster
from solver.workload import ResourceName


@dataclass(frozen=True, slots=True)
class Claim:
    """A job counts on its queue with its minimums, from one time up to another (ms)."""

    life: Life
    start_ms: float
    end_ms: float


def hold_limits(cluster: Cluster, claims: Iterable[Claim], start_ms: float, end_ms: float) -> None:
    """Let limited queues show the least that is left of their limits at any time in a span.

    At equal times ends come first. The draft rolls it back like everything else.

    Parameters
    ----------
    claims
        Of all that runs and all that is reserved.
    start_ms, end_ms
        The span; `end_ms` itself is not in it.
    """
    ledger = cluster.draft.ledger
    changes: list[tuple[float, bool, str, ResourceName, int]] = []
    for claim in claims:
        if claim.end_ms <= start_ms or claim.start_ms >= end_ms:
            continue
        job = claim.life.arrival.job
        for above in ledger.limited(job.queue):
            for role in job.roles:
                for resource, amount in ledger.amounts(role.shape).items():
                    if amount := amount * role.min_replicas:
                        begin_ms = max(claim.start_ms, start_ms)
                        changes.append((begin_ms, True, above, resource, amount))
                        changes.append((claim.end_ms, False, above, resource, -amount))
    used: Counter[tuple[str, ResourceName]] = Counter()
    most: dict[tuple[str, ResourceName], int] = {}
    for at_ms, _, above, resource, amount in sorted(changes):
        key = (above, resource)
        used[key] += amount
        if at_ms < end_ms:
            most[key] = max(most.get(key, 0), used[key])
    for (above, resource), amount in most.items():
        missing = amount - ledger.used_below(above, resource)
        if missing > 0:
            cluster.draft.promise(above, resource, missing)
