"""Nobody waits: who does not fit on arrival is dropped for good."""

from __future__ import annotations

from simulator.lives import State
from simulator.schedulers.base import Scheduler
from simulator.state import Unit


class ImpatientScheduler(Scheduler):
    """The arrivals-only experiment of Weng et al., "Beware of Fragmentation", ATC 2023."""

    def arrive(self, unit: Unit) -> None:
        """Start at once, or never."""
        if not self.cluster.start(unit):
            for life in unit.lives:
                self.cluster.refuse(life, State.FAILED, "no room when it arrived")

    def round(self) -> None:
        """Everything is decided on arrival."""
