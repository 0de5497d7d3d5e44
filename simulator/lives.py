"""A job through time: what it has done, what is left, what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simulator.scenario import Arrival
from solver.cluster import GPU_MILLI

UNIT = 1000
"""Units of work that one replica does in a millisecond in the best place."""


class State(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    UNSCHEDULABLE = "unschedulable"


@dataclass(slots=True, eq=False)
class Life:
    """One job while a simulation runs.

    Attributes
    ----------
    order
        Its place among the arrivals.
    left
        Units of work left at `updated_ms`; None where it does not end by itself.
    overhead
        The part of `left` that only brings the job back to where it was stopped.
    done
        Units of work done since it was started last, the overhead apart.
    held
        Replicas that run now.
    holding_milli
        GPU-milli that it holds, whether it runs or not.
    stretch_milli
        How much longer it runs where it is than in the best place, in thousandths.
    lost_gpu_ms
        GPU-milliseconds of work lost by being stopped, and of starting again.
    version
        Changes whenever the time of its end does.
    """

    arrival: Arrival
    order: int
    state: State = State.WAITING
    reason: str = ""
    first_start_ms: int | None = None
    started_ms: int = 0
    updated_ms: int = 0
    end_ms: int | None = None
    left: int | None = None
    overhead: int = 0
    done: int = 0
    held: int = 0
    holding_milli: int = 0
    stretch_milli: int = GPU_MILLI
    preemptions: int = 0
    lost_gpu_ms: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        if self.arrival.duration_ms is not None:
            self.left = self.arrival.duration_ms * self._full * UNIT

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.arrival.job.name

    @property
    def is_service(self) -> bool:
        """Whether its run time does not depend on how many replicas it has."""
        return self.arrival.job.kind == "inference"

    @property
    def is_elastic(self) -> bool:
        """Whether it may hold more than its minimum."""
        job = self.arrival.job
        return job.replicas > job.min_replicas

    @property
    def _full(self) -> int:
        return 1 if self.is_service else self.arrival.job.replicas

    @property
    def speed(self) -> int:
        """Units of work per millisecond."""
        busy = min(self.held, 1) if self.is_service else self.held
        return UNIT * busy * GPU_MILLI // self.stretch_milli

    def wanted(self, now_ms: int) -> int:
        """Replicas that it would like to hold."""
        job = self.arrival.job
        if self.arrival.load is None:
            return job.replicas
        return self.arrival.load.replicas(job.min_replicas, job.replicas, now_ms)

    def advance(self, now_ms: int) -> None:
        """Do the work up to now."""
        worked = (now_ms - self.updated_ms) * self.speed
        self.updated_ms = now_ms
        if self.left is None:
            self.done += worked
            return
        worked = min(worked, self.left)
        self.left -= worked
        again = min(worked, self.overhead)
        self.overhead -= again
        self.done += worked - again

    def run_before(self, checkpoint_age_ms: int) -> None:
        """It ran before time 0, and that is how much of it would be lost."""
        self.started_ms -= checkpoint_age_ms
        self.done += checkpoint_age_ms * self.speed

    def ends_at_ms(self) -> int | None:
        """When it ends if nothing changes any more."""
        if self.left is None or not self.speed:
            return None
        return self.updated_ms + -(-self.left // self.speed)

    def needs_ms(self, replicas: int, stretch_milli: int) -> int | None:
        """How long it will run with so many replicas; None where it does not end by itself."""
        if self.left is None:
            return None
        busy = 1 if self.is_service else replicas
        return -(-self.left // (UNIT * busy * GPU_MILLI // stretch_milli))

    def stop(self, now_ms: int) -> None:
        """Be stopped: what came after the last checkpoint is lost, and starting again costs."""
        self.advance(now_ms)
        ran_ms = now_ms - self.started_ms
        every_ms = self.arrival.checkpoint_ms
        saved_ms = ran_ms // every_ms * every_ms if every_ms else 0
        kept = self.done * saved_ms // ran_ms if ran_ms else 0
        restart = self.arrival.restart_ms * self._full * UNIT
        if self.left is not None:
            self.left += self.done - kept - self.overhead + restart
        self.overhead = restart
        self.done, self.held = 0, 0
        self.preemptions += 1
        lost_ms = ran_ms - saved_ms + self.arrival.restart_ms
        self.lost_gpu_ms += self.holding_milli * lost_ms // GPU_MILLI
