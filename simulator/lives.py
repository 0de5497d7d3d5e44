"""A job through time: what it has done, what is left, what was lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simulator.scenario import Arrival
from solver.cluster import GPU_MILLI


class State(StrEnum):
    """Where a job is in its life; who waits at the end of a run has found no room in it."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    UNSCHEDULABLE = "unschedulable"


@dataclass(slots=True, eq=False)
class Life:
    """One job while a simulation runs.

    Work is counted in whole units, of which a replica does `unit` in a millisecond in the best
    place, and ``unit * 1000 / stretch_milli`` where it is stretched; so no time is rounded but the
    end, up to the next millisecond.

    Attributes
    ----------
    order
        Its place among the arrivals.
    unit
        A thousand divides it, and so does every stretch there can be.
    left
        Units of work left at `updated_ms`; None where it does not end by itself.
    overhead_ms
        Time that only brings the job back to where it was stopped, before it goes on.
    progress_ms
        Time for which it has worked since it was started last, `overhead_ms` apart.
    done, saved
        Units of work done since then, and those that the last checkpoint has.
    unsaved_gpu_ms
        Milli-GPU times milliseconds of work since the last checkpoint.
    held
        Replicas that run now.
    holding_milli
        GPU-milli that it holds, whether it runs or not.
    busy_milli
        The same where it runs, else 0.
    wanting_milli
        GPU-milli of its minimum that it waits for.
    stretch_milli
        How much longer it runs where it is than in the best place, in thousandths.
    lost_gpu_ms
        Milli-GPU times milliseconds of work lost by being stopped, and of starting again.
    version
        Changes whenever the time of its end does.
    """

    arrival: Arrival
    order: int
    unit: int = GPU_MILLI
    state: State = State.WAITING
    reason: str = ""
    first_start_ms: int | None = None
    updated_ms: int = 0
    end_ms: int | None = None
    left: int | None = None
    overhead_ms: int = 0
    progress_ms: int = 0
    done: int = 0
    saved: int = 0
    unsaved_gpu_ms: int = 0
    held: int = 0
    holding_milli: int = 0
    busy_milli: int = 0
    wanting_milli: int = 0
    stretch_milli: int = GPU_MILLI
    preemptions: int = 0
    lost_gpu_ms: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        if self.arrival.duration_ms is not None:
            full = 1 if self.is_service else self.arrival.job.replicas
            self.left = self.arrival.duration_ms * full * self.unit

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

    def _speed(self, replicas: int, stretch_milli: int) -> int:
        """Units of work per millisecond."""
        busy = min(replicas, 1) if self.is_service else replicas
        return self.unit * busy * GPU_MILLI // stretch_milli

    def wanted(self, now_ms: int) -> int:
        """Replicas that it would like to hold."""
        job = self.arrival.job
        if self.arrival.load is None:
            return job.replicas
        return self.arrival.load.replicas(job.min_replicas, job.replicas, now_ms)

    def advance(self, now_ms: int) -> None:
        """Do the work up to now, and take the checkpoints on the way."""
        span_ms = now_ms - self.updated_ms
        self.updated_ms = now_ms
        again_ms = min(span_ms, self.overhead_ms)
        self.overhead_ms -= again_ms
        self.lost_gpu_ms += again_ms * self.holding_milli
        span_ms -= again_ms
        if not span_ms:
            return
        speed = self._speed(self.held, self.stretch_milli)
        before_ms = self.progress_ms
        self.progress_ms += span_ms
        done = span_ms * speed
        if self.left is not None:
            done = min(done, self.left)
            self.left -= done
        self.unsaved_gpu_ms += span_ms * self.holding_milli
        every_ms = self.arrival.checkpoint_ms
        if every_ms and (last_ms := self.progress_ms // every_ms * every_ms) > before_ms:
            self.saved = self.done + min(done, (last_ms - before_ms) * speed)
            self.unsaved_gpu_ms = (self.progress_ms - last_ms) * self.holding_milli
        self.done += done

    def run_before(self, checkpoint_age_ms: int) -> None:
        """It ran before time 0, and that is how long ago its last checkpoint was."""
        self.progress_ms = checkpoint_age_ms
        self.done = checkpoint_age_ms * self._speed(self.held, self.stretch_milli)
        self.unsaved_gpu_ms = checkpoint_age_ms * self.holding_milli

    def ends_at_ms(self) -> int | None:
        """When it ends if nothing changes any more."""
        needs_ms = self.needs_ms(self.held, self.stretch_milli)
        return None if needs_ms is None else self.updated_ms + needs_ms

    def needs_ms(self, replicas: int, stretch_milli: int) -> int | None:
        """How long it will run with so many replicas; None where it does not end by itself."""
        speed = self._speed(replicas, stretch_milli)
        if self.left is None or not speed:
            return None
        return self.overhead_ms - (-self.left // speed)

    def would_lose_gpu_ms(self) -> int:
        """What stopping it now costs: work since its last checkpoint, and starting again."""
        again_ms = max(0, self.arrival.restart_ms - self.overhead_ms)
        return self.unsaved_gpu_ms + self.holding_milli * again_ms

    def stop(self, now_ms: int) -> None:
        """Be stopped: what came after the last checkpoint is lost, and starting again costs."""
        self.advance(now_ms)
        if self.left is not None:
            self.left += self.done - self.saved
        self.lost_gpu_ms += self.unsaved_gpu_ms
        self.overhead_ms = self.arrival.restart_ms
        self.progress_ms = self.done = self.saved = self.unsaved_gpu_ms = self.held = 0
        self.preemptions += 1
