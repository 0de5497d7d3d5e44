"""What a scheduler is: it hears what happens, and at the end of each moment it decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from simulator.lives import Life
from simulator.state import Cluster, Unit
from solver.workload import Role


class Scheduler(ABC):
    """Decides which of the waiting jobs start.

    Attributes
    ----------
    deadlocks
        How many deadlocks there were.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.deadlocks = 0

    @abstractmethod
    def arrive(self, unit: Unit) -> None:
        """Jobs are there that start together."""

    @abstractmethod
    def round(self) -> None:
        """All events of the moment have happened: decide."""

    def remind(self, subject: str) -> None:  # noqa: B027 (most schedulers set no timer)
        """A moment that the scheduler put on the agenda has come."""

    def hold_reserved(self) -> None:  # noqa: B027 (most reserve nothing)
        """Keep free what is reserved, until the draft is rolled back."""

    def ended(self, life: Life) -> None:  # noqa: B027 (most look at the room only)
        """A job has ended and left its place."""


def with_less_surplus(cluster: Cluster, unit: Unit) -> bool:
    """Start a unit in the room that elastic jobs and services hold above their minimums.

    Of their surplus as little is taken as it takes, from the youngest first.
    """
    surplus = cluster.surplus()
    if not surplus:
        return False
    draft = cluster.draft
    mark = draft.mark()
    taken = [life for life in surplus for _ in range(life.held - life.arrival.job.min_replicas)]
    for life in taken:
        draft.release_one(life.arrival.job, len(draft.seats(life.name)) - 1)
    fits = draft.start(unit.jobs)
    draft.roll_back(mark)
    if not fits:
        return False
    for life in taken:
        cluster.shrink(life)
        if cluster.start(unit):
            return True
    raise AssertionError("what fitted when it was tried fits")


def hand_out_surplus(
    cluster: Cluster, order: Sequence[Life], hold: Callable[[], None] | None = None
) -> None:
    """Let elastic jobs grow into the room that is left, in this order, and services with load.

    Parameters
    ----------
    hold
        Holds back what is not to be taken.
    """
    for life in order:
        while life.held < life.wanted(cluster.now_ms) and _grow(cluster, life, hold):
            pass


def shed_load(cluster: Cluster) -> None:
    """Services let go of the replicas that their load does not ask for any more."""
    for life in list(cluster.elastic.values()):
        least = life.arrival.job.min_replicas
        while life.held > max(least, life.wanted(cluster.now_ms)):
            cluster.shrink(life)


def _grow(cluster: Cluster, life: Life, hold: Callable[[], None] | None) -> bool:
    started: dict[str, int] = {}
    for role, _ in cluster.draft.seats(life.name):
        started[role.name] = started.get(role.name, 0) + 1
    open_: list[Role] = [
        role for role in life.arrival.job.roles if started.get(role.name, 0) < role.replicas
    ]
    return any(cluster.grow(life, role, hold) for role in open_)
