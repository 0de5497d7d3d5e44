"""The solver over a rolling horizon: each round decides for the units that wait at that moment.

`ChoosingScheduler`: the order lets anybody go who fits, so the solver chooses among the first
units of the line who starts, and where. `PlacingScheduler`: the order is strict, fair or has
reservations, so it says who starts, and the solver where: all that start at one moment are placed
together again. Whatever the solver has no answer for in its time is left as the greedy placement
has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.agenda import Kind
from simulator.lives import Life
from simulator.schedulers.base import Scheduler
from simulator.schedulers.line import LineScheduler
from simulator.schedulers.reservations import try_places
from simulator.state import Cluster, Unit
from solver.api import solve
from solver.cluster import GPU_MILLI
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import Plan
from solver.state import NodeState
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape

OBJECTIVES = ("priority", "topology", "stranded")
"""What a round is decided by; fairness over time is the order's business."""

HELD_BACK = "(reserved)"
"""Name of what stands for reserved places in the question of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """How the solver is asked over time.

    Parameters
    ----------
    every_ms
        Least time between two rounds; 0 decides at every event.
    window
        Units of the line that a round looks at.
    options
        Limits of one round. With one worker and a deterministic limit that is reached before
        the time limit, runs are the same on every machine.
    """

    every_ms: int = 0
    window: int = 64
    options: SolveOptions = field(
        default_factory=lambda: SolveOptions(time_limit_s=10, deterministic_limit=1, workers=1)
    )


class ChoosingScheduler(LineScheduler):
    """A line from which the solver chooses; what it leaves is offered greedily afterwards."""

    def __init__(self, cluster: Cluster, inner: LineScheduler, rolling: Rolling) -> None:
        super().__init__(cluster, inner.key, preempts=inner.preempts)
        self.rolling = rolling
        self._due_ms = 0
        self._reminded_ms = -1

    def serve(self) -> None:
        """Ask the solver, unless it is too early or nobody would find room."""
        if not self.line:
            self.cluster.gained.clear()
            return
        now_ms = self.cluster.now_ms
        if now_ms < self._due_ms:
            if self._reminded_ms != self._due_ms:
                self._reminded_ms = self._due_ms
                self.cluster.agenda.add(self._due_ms, Kind.TIMER)
            return
        self.open_lanes()
        if self.may_choose():
            self._due_ms = now_ms + self.rolling.every_ms
            self.choose()
        super().serve()

    def may_choose(self) -> bool:
        """Whether it is of any use to ask."""
        return any(try_places(self.cluster, unit) for _, unit in self.line.open_heads())

    def choose(self) -> None:
        """Start who the solver says, where it says."""
        units = self.line.in_order()[: self.rolling.window]
        ranks = sorted({self.key(unit)[:-1] for unit in units}, reverse=True)
        jobs = [
            replace(minimum(job), priority=ranks.index(self.key(unit)[:-1]))
            for unit in units
            for job in unit.jobs
        ]
        running = [replace(job, priority=0) for job in self.cluster.running_jobs()]
        plan = _ask(self.cluster, jobs, running, self.rolling.options)
        chosen = [unit for unit in units if all(job.name in plan.by_job for job in unit.jobs)]
        for unit in chosen:
            places = [p for job in unit.jobs for p in plan.by_job[job.name]]
            self.cluster.start_at(unit, places)
        if chosen:
            self.line.remove(chosen)


class PlacingScheduler(Scheduler):
    """Any scheduler; the solver places again what starts at one moment."""

    def __init__(self, inner: Scheduler, rolling: Rolling) -> None:
        super().__init__(inner.cluster)
        self._inner = inner
        self._rolling = rolling

    @property
    def is_settled(self) -> bool:
        """Placing again may have made room."""
        return False

    def arrive(self, unit: Unit) -> None:
        """The inner scheduler's business."""
        self._inner.arrive(unit)

    def expects(self, subject: str) -> bool:
        """The inner scheduler's business."""
        return self._inner.expects(subject)

    def remind(self, subject: str) -> None:
        """The inner scheduler's business."""
        self._inner.remind(subject)

    def ended(self, life: Life) -> None:
        """The inner scheduler's business."""
        self._inner.ended(life)

    def hold_reserved(self) -> None:
        """The inner scheduler's business."""
        self._inner.hold_reserved()

    def round(self) -> None:
        """Let the inner scheduler decide, then place again who has just started."""
        before = set(self.cluster.running)
        self._inner.round()
        self.deadlocks = self._inner.deadlocks
        fresh = [
            life
            for name, life in self.cluster.running.items()
            if name not in before and not life.is_elastic
        ]
        if fresh:
            self._place_again(fresh)

    def _place_again(self, fresh: Sequence[Life]) -> None:
        cluster = self.cluster
        running = [*cluster.running_jobs(without=fresh), *self._held_back(fresh)]
        jobs = [life.arrival.job for life in fresh]
        plan = _ask(cluster, jobs, running, self._rolling.options)
        for life in fresh:
            places = plan.by_job.get(life.name, ())
            if len(places) < life.held:
                return
            if cluster.stretch.milli(life.arrival.job, places) > life.stretch_milli:
                return
        cluster.place_again({life.name: plan.by_job[life.name] for life in fresh})

    def _held_back(self, fresh: Sequence[Life]) -> list[RunningJob]:
        """What is reserved of the room that is there without the fresh jobs, as running work."""
        draft = self.cluster.draft
        mark = draft.mark()
        for life in fresh:
            draft.release(life.arrival.job)
        nodes = range(len(draft.board.nodes))
        before = [draft.board.state(n) for n in nodes]
        self._inner.hold_reserved()
        shown = [draft.board.state(n) for n in nodes]
        draft.roll_back(mark)
        replicas = [
            replica
            for n in nodes
            if shown[n] != before[n]
            for replica in _difference(draft.board.nodes[n].name, before[n], shown[n])
        ]
        if not replicas:
            return []
        shapes = (Shape(),) * len(replicas)
        queue = self.cluster.scenario.queues[0].name
        return [RunningJob(name=HELD_BACK, replicas=tuple(replicas), shapes=shapes, queue=queue)]


def _difference(node: str, before: NodeState, shown: NodeState) -> list[RunningReplica]:
    """Work that makes a node look as it is shown."""
    found = [
        RunningReplica(
            node=node,
            gpus=(gpu,),
            share_milli=was - now,
            compute_milli=max(
                0, before.compute_left(gpu, GPU_MILLI) - shown.compute_left(gpu, GPU_MILLI)
            ),
        )
        for gpu, (was, now) in enumerate(zip(before.gpu_left, shown.gpu_left, strict=True))
        if was > now
    ]
    cpu = (before.cpu_left or 0) - (shown.cpu_left or 0)
    memory = (before.memory_left or 0) - (shown.memory_left or 0)
    if cpu or memory:
        found.append(RunningReplica(node=node, cpu_milli=cpu, memory_mib=memory))
    return found


def minimum(job: Job) -> Job:
    """The job with no more than its minimum."""
    roles = tuple(_least(role) for role in job.roles if role.min_replicas)
    return replace(job, roles=roles)


def _least(role: Role) -> Role:
    return replace(role, replicas=role.min_replicas)


def _ask(
    cluster: Cluster, jobs: Sequence[Job], running: Sequence[RunningJob], options: SolveOptions
) -> Plan:
    problem: Problem = replace(
        cluster.snapshot(jobs, running), objectives=OBJECTIVES, preempt_for=()
    )
    return solve(problem, options).plan
