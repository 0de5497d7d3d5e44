"""The hierarchy of queues: who shares with whom, with which weight, what each is guaranteed.

Those that share are *members* of a family. A queue with all below it is one; so is the work of an
inner queue itself, beside the queues below it.

What a queue used before moves its weight. Let u be a member's part of what its family has used
(decayed, see `decayed_gpu_s`), and s its part of the family's weights::

    weight now = weight * 2 ** (-u / s)

Who has used its due counts half, who has used nothing in full, who has used twice its due a
quarter: that is Slurm's classic fair-share factor, taken within one family.

References
----------
SchedMD, "Classic Fairshare Algorithm" (the factor) and "Multifactor Priority Plugin" (the half
life), Slurm documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from solver.workload import RESOURCES, Queue, ResourceName

WEIGHT_UNIT = 1000
"""Weights are counted in so many parts of one where past use has moved them."""

OWN = "/"
"""Ends the name of the member that is the work of an inner queue itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One of those that share.

    Parameters
    ----------
    family
        The queue that its family is part of; None at the top.
    depth
        How many queues are above it.
    weight
        Its weight now, in the unit of its tree.
    quota
        What it is guaranteed: what the queue says, or the sum of those below it; of an inner
        queue's own work what the queue says beyond that sum.
    queues
        The queues whose jobs are its own.
    past_gpu_s
        What they have used, decayed.
    is_own
        Whether it is the work of an inner queue itself.
    """

    name: str
    family: str | None
    depth: int
    priority: int
    weight: int
    quota: Mapping[ResourceName, int] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    past_gpu_s: float = 0.0
    is_own: bool = False


@dataclass(frozen=True)
class QueueTree:
    """All queues of a cluster, from the top down."""

    queues: Sequence[Queue]

    @cached_property
    def weight_unit(self) -> int:
        """What a weight of 1 is counted as."""
        return WEIGHT_UNIT if any(queue.past_gpu_s for queue in self.queues) else 1

    @cached_property
    def families(self) -> Mapping[str | None, tuple[Member, ...]]:
        """Members by the queue that they are part of, the outermost families first."""
        found: dict[str | None, tuple[Member, ...]] = {}
        heads: list[str | None] = [None]
        depth: dict[str | None, int] = {None: 0}
        for head in heads:
            found[head] = self._weighted(self._family(head, depth[head]))
            for member in found[head]:
                if not member.is_own and self._below.get(member.name):
                    heads.append(member.name)
                    depth[member.name] = depth[head] + 1
        return found

    @cached_property
    def levels(self) -> tuple[tuple[Member, ...], ...]:
        """Members by depth."""
        table: dict[int, list[Member]] = {}
        for members in self.families.values():
            for member in members:
                table.setdefault(member.depth, []).append(member)
        return tuple(tuple(table[depth]) for depth in sorted(table))

    @cached_property
    def by_name(self) -> Mapping[str, Member]:
        """Members by name."""
        return {member.name: member for level in self.levels for member in level}

    @cached_property
    def path(self) -> Mapping[str, tuple[Member, ...]]:
        """For every queue, the members that its own jobs count for, the outermost first."""
        table: dict[str, list[Member]] = {queue.name: [] for queue in self.queues}
        for level in self.levels:
            for member in level:
                for name in member.queues:
                    table[name].append(member)
        return {name: tuple(members) for name, members in table.items()}

    def own(self, queue: str) -> Member:
        """The member that a queue's own jobs, and nobody else's, count for."""
        return self.path[queue][-1]

    def parting(self, queue: str, other: str) -> tuple[Member, Member]:
        """The members of one family, the first on the way down, that two queues count for apart.

        Raises
        ------
        ValueError
            It is twice the same queue.
        """
        for mine, theirs in zip(self.path[queue], self.path[other], strict=False):
            if mine is not theirs:
                return mine, theirs
        raise ValueError(f'queue "{queue}" does not part from itself')

    @cached_property
    def _below(self) -> Mapping[str | None, list[Queue]]:
        table: dict[str | None, list[Queue]] = {}
        for queue in self.queues:
            table.setdefault(queue.parent, []).append(queue)
        return table

    def _family(self, head: str | None, depth: int) -> list[Member]:
        members = [
            Member(
                name=queue.name,
                family=head,
                depth=depth,
                priority=queue.priority,
                weight=queue.weight,
                quota=self._quota(queue),
                queues=subtree(self.queues, queue.name),
            )
            for queue in self._below.get(head, ())
        ]
        for queue in self.queues:
            if queue.name == head:
                said = self._quota(queue)
                below = {r: sum(m.quota.get(r, 0) for m in members) for r in RESOURCES}
                own = {r: most - below[r] for r, most in said.items() if most > below[r]}
                members.append(
                    Member(
                        name=queue.name + OWN,
                        family=head,
                        depth=depth,
                        priority=0,
                        weight=1,
                        quota=own,
                        queues=(queue.name,),
                        is_own=True,
                    )
                )
        past = {queue.name: queue.past_gpu_s for queue in self.queues}
        return [replace(m, past_gpu_s=sum(past[name] for name in m.queues)) for m in members]

    def _quota(self, queue: Queue) -> dict[ResourceName, int]:
        below = [self._quota(child) for child in self._below.get(queue.name, ())]
        found: dict[ResourceName, int] = {}
        for resource in RESOURCES:
            if resource in queue.quota:
                found[resource] = queue.quota[resource]
            elif any(resource in quota for quota in below):
                found[resource] = sum(quota.get(resource, 0) for quota in below)
        return found

    def _weighted(self, members: Sequence[Member]) -> tuple[Member, ...]:
        now = weights_now({m.name: (m.weight, m.past_gpu_s) for m in members})
        unit = self.weight_unit
        if unit == 1:
            return tuple(members)
        return tuple(
            replace(m, weight=max(1, round(now[m.name] * unit)) if m.weight else 0) for m in members
        )


def weights_now(family: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    """Weights of a family, given each one's weight and decayed use; 0 stays 0.

    Examples
    --------
    Two peers of weight 1, one of which has used everything so far:

    >>> weights_now({"a": (1, 30.0), "b": (1, 0.0)})
    {'a': 0.25, 'b': 1.0}
    """
    total = sum(weight for weight, _ in family.values())
    used = sum(past for weight, past in family.values() if weight)
    if not used:
        return {name: float(weight) for name, (weight, _) in family.items()}
    return {
        name: weight * 2.0 ** (-(past / used) * total / weight) if weight else 0.0
        for name, (weight, past) in family.items()
    }


def decayed_gpu_s(gpu_s: float, age_s: float, half_life_s: float) -> float:
    """What is left of past use after so much time: half of it for every half life.

    Examples
    --------
    >>> decayed_gpu_s(100.0, age_s=20, half_life_s=10)
    25.0
    """
    return float(gpu_s * 2.0 ** (-age_s / half_life_s))


def subtree(queues: Iterable[Queue], root: str) -> tuple[str, ...]:
    """Names of a queue and of all queues below it, in the order given."""
    parent = {queue.name: queue.parent for queue in queues}

    def below(name: str) -> bool:
        seen: set[str] = set()
        above: str | None = name
        while above is not None and above not in seen:
            if above == root:
                return True
            seen.add(above)
            above = parent.get(above)
        return False

    return tuple(name for name in parent if below(name))
