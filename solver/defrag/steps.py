"""What is done one after the other to carry out a plan. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    """What one step does."""

    EVICT = "evict"
    """Replicas of a running job stop and wait again."""
    MOVE = "move"
    """A replica goes where the plan has it."""
    PARK = "park"
    """A replica of a swap cycle goes to free space for a while; its way on is a ``move``."""
    PAUSE = "pause"
    """A replica of a swap cycle stops at its checkpoint, as nowhere is free space for it."""
    RESUME = "resume"
    """A paused replica goes on where the plan has it."""
    START = "start"
    """Pending jobs start: one, or all of a start group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a replica is: the node, the GPUs, the thousandths held of each."""

    node: str
    gpus: tuple[int, ...]
    share_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step.

    Parameters
    ----------
    replicas
        Numbers of the running replicas; empty for a start.
    origin, target
        From where and to where; None where the replica holds nothing before or after, or where
        the step is about several.
    cost_gpu_s
        What the step costs: of a move, of an eviction and of a pause what is lost by it; a replica
        that was parked or paused restarts once more, or goes on at no further cost.
    """

    kind: StepKind
    jobs: tuple[str, ...]
    replicas: tuple[int, ...] = ()
    origin: Place | None = None
    target: Place | None = None
    cost_gpu_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Moves that wait for each other in a circle, and how the circle is broken.

    Parameters
    ----------
    jobs
        Whose replicas wait for each other's places, by name.
    broken_by
        ``PARK`` where some of them find free space for a while, else ``PAUSE``: without free space
        no order of moves exists, and the alternative is to stop one of them at its checkpoint.
    cost_gpu_s
        What breaking it costs on top of the moves themselves.
    """

    jobs: tuple[str, ...]
    job: str
    replica: int
    broken_by: StepKind
    cost_gpu_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps in order, with the cycles that had to be broken."""

    actions: tuple[Action, ...] = ()
    cycles: tuple[Cycle, ...] = ()

    @property
    def cost_gpu_s(self) -> int:
        """What all steps cost."""
        return sum(action.cost_gpu_s for action in self.actions)
