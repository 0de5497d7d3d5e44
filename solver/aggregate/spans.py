"""How many groups the seated gangs span beyond the fewest possible."""

from __future__ import annotations

from solver.aggregate.packer import Packer
from solver.metrics import FewestGroups, counts_for_spread, spread_counts, topology_levels
from solver.workload import Job


class Spans:
    """Looks at one packer.

    Attributes
    ----------
    levels
        Levels that can make a difference, outermost first.
    """

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._fewest = FewestGroups(packer.problem)
        self.levels = topology_levels(packer.problem)

    def excess(self, job: Job) -> tuple[int, ...]:
        """Groups that a seated job spans beyond the fewest possible, by level."""
        if not spread_counts(job):
            return (0,) * len(self.levels)
        seats = self._packer.seats[job.name]
        counted = [
            (role, seats[role.name])
            for role in job.roles
            if seats.get(role.name) and counts_for_spread(job, role.shape)
        ]
        found = []
        for level in self.levels:
            group_of = self._packer.group_of(level)
            groups = {int(group_of[seat.node]) for _, places in counted for seat in places}
            least = max((self._fewest(r.shape, level, len(p)) for r, p in counted), default=0)
            found.append(max(0, len(groups) - least))
        return tuple(found)
