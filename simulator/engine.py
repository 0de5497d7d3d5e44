"""The engine: lets one moment after another happen; knows no policy and measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from simulator.agenda import Event, Kind
from simulator.judge import Judge
from simulator.lives import Life, State
from simulator.schedulers.base import Scheduler
from simulator.state import Cluster, Unit
from solver.workload import Job


class Observer(Protocol):
    """Something that watches a simulation; it must not change anything."""

    def before(self, cluster: Cluster) -> None:
        """The events of a moment have happened; the scheduler has not decided yet."""

    def after(self, cluster: Cluster, touched: set[int]) -> None:
        """A moment is over; `touched` has the numbers of the nodes that changed."""


class Engine:
    """One simulation.

    Parameters
    ----------
    cluster
        The scenario's machines with nothing submitted yet.
    scheduler
        Who decides.
    """

    def __init__(
        self, cluster: Cluster, scheduler: Scheduler, observers: Sequence[Observer] = ()
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.events = 0
        self._observers = observers
        self._judge = Judge(cluster.problem)
        self._lanes: dict[object, int] = {}
        self._groups: dict[str, list[Life]] = {}
        self._handlers: dict[Kind, Callable[[Event], None]] = {
            Kind.END: self._end,
            Kind.ARRIVAL: self._arrive,
            Kind.LOAD: self._look_at_load,
            Kind.TIMER: lambda event: self.scheduler.remind(event.subject),
        }
        for arrival in cluster.scenario.arrivals:
            cluster.agenda.add(arrival.arrival_ms, Kind.ARRIVAL, arrival.job.name)
        steps = [a.load.step_ms for a in cluster.scenario.everyone if a.load is not None]
        self._step_ms = min(steps, default=0)
        if self._step_ms:
            cluster.agenda.add(0, Kind.LOAD)

    def step(self) -> bool:
        """Let the next moment happen; False where nothing is due any more."""
        cluster = self.cluster
        if cluster.agenda.is_over:
            self._close()
            return False
        moment = cluster.agenda.pop_moment()
        cluster.now_ms = moment[0].time_ms
        for event in moment:
            self._handlers[event.kind](event)
        self.events += len(moment)
        for observer in self._observers:
            observer.before(cluster)
        self.scheduler.round()
        touched = cluster.settle()
        for observer in self._observers:
            observer.after(cluster, touched)
        return True

    def _end(self, event: Event) -> None:
        life = self.cluster.by_name[event.subject]
        if life.version == event.version:
            self.cluster.finish(life)
            self.scheduler.ended(life)

    def _arrive(self, event: Event) -> None:
        life = self.cluster.by_name[event.subject]
        self.cluster.submit(life)
        unit = self._unit(life)
        if unit is None:
            return  # The rest of its start group is still to come.
        verdict = self._judge.verdict(unit)
        if verdict is None:
            self.scheduler.arrive(unit)
        else:
            for member in unit.lives:
                self.cluster.refuse(member, State.UNSCHEDULABLE, verdict)

    def _unit(self, life: Life) -> Unit | None:
        group = life.arrival.job.start_group
        lives = [life]
        if group is not None:
            lives = self._groups.setdefault(group, [])
            lives.append(life)
            if len(lives) < len(self.cluster.problem.start_groups[group]):
                return None
        alike = tuple(_alike(member.arrival.job) for member in lives)
        return Unit(tuple(lives), self._lanes.setdefault(alike, len(self._lanes)))

    def _look_at_load(self, event: Event) -> None:
        self.cluster.agenda.add(event.time_ms + self._step_ms, Kind.LOAD)

    def _close(self) -> None:
        """Nothing will happen any more: who still waits does so for ever."""
        for life in list(self.cluster.waiting.values()):
            reason = "waits for room that never comes: nothing more ends or arrives"
            self.cluster.refuse(life, State.UNSCHEDULABLE, reason)


def _alike(job: Job) -> tuple[object, ...]:
    """Equal for jobs that ask for exactly the same."""
    return (job.roles, job.queue, job.priority, job.kind, job.gang, job.topology, job.spread)
