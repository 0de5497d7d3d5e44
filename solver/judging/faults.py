"""What a plan can break, and how that is said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What a plan can break."""

    IDENTITY = "identity"
    """A placement is of a pending job, a role of it and a replica of that role, and only once."""
    NODE = "node"
    """The node exists, is ready and is not cordoned."""
    TAINT = "taint"
    LABEL = "label"
    GPU = "gpu"
    """The GPUs are distinct, installed, healthy, not cut into MIG, as many as requested."""
    MODEL = "model"
    SHARE = "share"
    """A share is of one GPU with memory enough, and of the requested size."""
    SHARE_GROUP = "share-group"
    """Shares of one GPU are of one group."""
    COMPUTE = "compute"
    """The compute of a GPU's shares adds up to no more than its node allows."""
    HELD = "held"
    """What replicas hold of one GPU adds up to one GPU at most."""
    CPU = "cpu"
    MEMORY = "memory"
    MIG = "mig"
    """Instances are of requested profiles, at legal starts, on healthy GPUs that may be cut, and
    overlap neither each other nor an instance in use."""
    RECUT = "recut"
    """A plan changes the geometry of no more GPUs than it may."""
    LINK = "link"
    GANG = "gang"
    START_GROUP = "start-group"
    TOPOLOGY = "topology"
    SPREAD = "spread"
    QUEUE_LIMIT = "queue-limit"
    DISPLACED = "displaced"
    """What is evicted or moved runs, may be, and leaves no less than the job's minimum."""
    GIVING_WAY = "giving-way"
    """Running work is displaced for a reason that the problem lists."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the plan breaks.

    Parameters
    ----------
    subject
        The job, node, start group or queue whose rule it is.
    text
        One line with the objects and numbers.
    """

    rule: Rule
    subject: str
    text: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.text}"
