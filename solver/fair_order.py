"""Whose turn it is by fair share: from the top of the tree of queues down to one queue.

At every level the next is the member with the least ``dominant share / weight`` among those in
whose queues anybody waits; weight 0 comes after all others. Ties go to the one that is named first;
where past use has moved weights, to the larger weight before that.

References
----------
A. Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI
2011, algorithm 1 and section 4.3; a level at a time as in A. Bhattacharya et al., "Hierarchical
Scheduling for Diverse Datacenter Workloads", SoCC 2013, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from solver.queues import Member, QueueTree


def poorest(
    tree: QueueTree,
    waiting: Collection[str],
    share: Callable[[Member], float],
    weights: Mapping[str, float] | None = None,
) -> str:
    """The queue whose turn it is.

    Parameters
    ----------
    waiting
        Queues in which anybody waits; at least one.
    share
        Dominant share of a member.
    weights
        Weights by member, where they are not those of the tree.
    """
    moved = weights is not None or tree.weight_unit > 1

    def poverty(member: Member) -> tuple[bool, float, float]:
        weight = member.weight if weights is None else weights[member.name]
        return (not weight, share(member) / (weight or 1), -weight if moved else 0)

    head: str | None = None
    while True:
        open_ = [m for m in tree.families[head] if not set(m.queues).isdisjoint(waiting)]
        chosen = min(open_, key=poverty)  # The first of equal ones.
        if chosen.is_own or chosen.name not in tree.families:
            return chosen.queues[0]
        head = chosen.name
