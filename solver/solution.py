"""A plan: which replica starts on which GPUs of which node. Pure data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from solver.cluster import GPU_MILLI
from solver.problem import RoleKey


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """One replica and its place.

    Parameters
    ----------
    replica
        Number of the replica within its role, from 0.
    gpus
        Indices of the GPUs on the node; one for a share, none for a CPU-only replica.
    share_milli
        Thousandths taken of each of these GPUs.
    """

    job: str
    role: str
    replica: int
    node: str
    gpus: tuple[int, ...] = ()
    share_milli: int = GPU_MILLI


@dataclass(frozen=True)
class Plan:
    """All new starts of one decision, sorted by job, role and replica."""

    placements: tuple[Placement, ...] = ()

    @classmethod
    def of(cls, placements: Iterable[Placement]) -> Plan:
        """A plan of these placements in canonical order."""
        return cls(tuple(sorted(placements)))

    @cached_property
    def started(self) -> Mapping[RoleKey, int]:
        """Replicas started, by role; roles without any are missing."""
        return Counter(RoleKey(p.job, p.role) for p in self.placements)

    @cached_property
    def by_job(self) -> Mapping[str, tuple[Placement, ...]]:
        """Placements by job; jobs that do not start are missing."""
        table: dict[str, list[Placement]] = {}
        for placement in self.placements:
            table.setdefault(placement.job, []).append(placement)
        return {job: tuple(places) for job, places in table.items()}

    @cached_property
    def by_node(self) -> Mapping[str, tuple[Placement, ...]]:
        """Placements by node; nodes without any are missing."""
        table: dict[str, list[Placement]] = {}
        for placement in self.placements:
            table.setdefault(placement.node, []).append(placement)
        return {node: tuple(places) for node, places in table.items()}
