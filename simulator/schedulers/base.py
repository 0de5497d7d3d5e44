"""What a scheduler is: it hears what happens, and at the end of each moment it decides."""

from __future__ import annotations

from abc import ABC, abstractmethod

from simulator.lives import Life
from simulator.state import Cluster, Unit


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

    @property
    def is_settled(self) -> bool:
        """Whether another round would change nothing as long as nothing happens."""
        return True

    def expects(self, subject: str) -> bool:
        """Whether a reminder still means anything."""
        return True

    def remind(self, subject: str) -> None:  # noqa: B027 (most schedulers set no timer)
        """A moment that the scheduler put on the agenda has come."""

    def hold_reserved(self) -> None:  # noqa: B027 (most reserve nothing)
        """Keep free what is reserved, until the draft is rolled back."""

    def ended(self, life: Life) -> None:  # noqa: B027 (most look at the room only)
        """A job has ended and left its place."""
