"""What running jobs leave of a node: no GPU, CPU or memory is held twice.

Slurm lets jobs share what is oversubscribed, and two lists written one after the other need not fit
together; in a spec everything has one holder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from specs.importers.slurm.nodes import total

if TYPE_CHECKING:
    from specs.importers.slurm.jobs import OnNode
    from specs.importers.slurm.nodes import SlurmNode


@dataclass(slots=True)
class Room:
    """What is left of a node for the next running job."""

    n_gpus: int
    free: set[int]
    """GPUs that nobody named; `unnamed` of them are held all the same."""

    cpus: Fraction
    memory_mib: Fraction
    unnamed: int = 0

    @classmethod
    def of(cls, node: SlurmNode) -> Room:
        """All of the node that jobs may have."""
        return cls(
            n_gpus=total(node.gpus),
            free=set(range(total(node.gpus))),
            cpus=Fraction(node.cpus_usable),
            memory_mib=Fraction(max(0, node.memory_mib - node.memory_reserved_mib)),
        )

    def take(self, part: OnNode) -> tuple[OnNode, bool]:
        """What the job gets of what it says to hold there, and whether that is all of it."""
        left = len(self.free) - self.unnamed
        gpus = None
        if part.gpus and max(part.gpus) < self.n_gpus:
            gpus = tuple(gpu for gpu in part.gpus if gpu in self.free)[:left]
        count = min(part.count, left) if gpus is None else len(gpus)
        held = replace(
            part,
            gpus=gpus,
            count=count,
            cpus=min(part.cpus, self.cpus),
            memory_mib=min(part.memory_mib, self.memory_mib),
        )
        self.free -= set(gpus or ())
        self.unnamed += count if gpus is None else 0
        self.cpus -= held.cpus
        self.memory_mib -= held.memory_mib
        wanted = (part.count, part.cpus, part.memory_mib)
        return held, (held.count, held.cpus, held.memory_mib) == wanted
