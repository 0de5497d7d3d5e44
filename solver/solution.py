"""A plan: what starts where, and what running work gives way or moves for it. Pure data."""

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


@dataclass(frozen=True, slots=True, order=True)
class Eviction:
    """Replicas of a running job that stop; the job waits again for them.

    `replicas` are their numbers among the job's running replicas, ascending.
    """

    job: str
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """A running replica that stops where it is and goes on elsewhere."""

    job: str
    replica: int
    node: str
    gpus: tuple[int, ...] = ()
    share_milli: int = GPU_MILLI


@dataclass(frozen=True)
class Plan:
    """All that one decision changes, each part in canonical order.

    Parameters
    ----------
    placements
        New starts, sorted by job, role and replica.
    evictions, moves
        What running work gives way: at most one eviction for each job.
    """

    placements: tuple[Placement, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(
        cls,
        placements: Iterable[Placement],
        evictions: Iterable[Eviction] = (),
        moves: Iterable[Move] = (),
    ) -> Plan:
        """A plan of these parts in canonical order."""
        return cls(tuple(sorted(placements)), tuple(sorted(evictions)), tuple(sorted(moves)))

    @property
    def leaves_running_alone(self) -> bool:
        """Whether nothing that runs is stopped or moved."""
        return not self.evictions and not self.moves

    @cached_property
    def displaced(self) -> Mapping[str, frozenset[int]]:
        """Running replicas that do not stay where they are, by job."""
        table: dict[str, set[int]] = {}
        for eviction in self.evictions:
            table.setdefault(eviction.job, set()).update(eviction.replicas)
        for move in self.moves:
            table.setdefault(move.job, set()).add(move.replica)
        return {job: frozenset(numbers) for job, numbers in table.items()}

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
