"""The engine: lets one moment after another happen; knows no policy and measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from simulator.agenda import Event, Kind
from simulator.judge import Judge
from simulator.lives import Life, State
from simulator.load import Looks
from simulator.scenario import DAY_MS, Arrival
from simulator.schedulers.base import Scheduler
from simulator.state import Cluster, Unit


class Observer(Protocol):
    """Something that watches a simulation; it must not change anything."""

    def begin(self, cluster: Cluster) -> None:
        """The first moment is about to come; work that stands is in place."""

    def before(self, cluster: Cluster) -> None:
        """A moment has come (`now_ms`), and nothing of it has happened yet."""

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
            Kind.LOAD: lambda event: None,  # Schedulers look in every round.
            Kind.TIMER: lambda event: self.scheduler.remind(event.subject),
        }
        for arrival in cluster.scenario.arrivals:
            cluster.agenda.add(arrival.arrival_ms, Kind.ARRIVAL, arrival.job.name)
        everyone = cluster.scenario.everyone
        first_ms = min((arrival.arrival_ms for arrival in everyone), default=0)
        cluster.now_ms = self._changed_ms = first_ms
        self._looks = Looks(cluster)
        self._look_ms: int | None = None
        self._look = 0
        if self._looks:
            self._look_at(self._looks.first_ms())
        self._waiting = 0
        for observer in observers:
            observer.begin(cluster)

    def step(self) -> bool:
        """Let the next moment happen; False where nothing is due any more."""
        cluster = self.cluster
        moment: list[Event] = []
        while not moment:  # Events that were overtaken are no moment.
            if self._is_over():
                self._close()
                return False
            moment = [event for event in cluster.agenda.pop_moment() if self._holds(event)]
        cluster.now_ms = moment[0].time_ms
        for observer in self._observers:
            observer.before(cluster)
        for event in moment:
            if self._holds(event):
                self._handlers[event.kind](event)
        self.events += len(moment)
        self.scheduler.round()
        touched = cluster.settle()
        if len(cluster.waiting) != self._waiting:
            self._waiting, self._changed_ms = len(cluster.waiting), cluster.now_ms
        if self._looks:
            patience_ms, settled = self._changed_ms + DAY_MS, self.scheduler.is_settled
            self._look_at(self._looks.next_ms(patience_ms, settled=settled))
        for observer in self._observers:
            observer.after(cluster, touched)
        return True

    def _is_over(self) -> bool:
        """Whether nothing can change any more; a load that falls may still let work in."""
        cluster = self.cluster
        if not cluster.agenda.is_over:
            return False
        idle_ms = cluster.now_ms - self._changed_ms
        return not cluster.agenda or not cluster.waiting or idle_ms > DAY_MS

    def _holds(self, event: Event) -> bool:
        """Whether an event has not been overtaken."""
        if event.kind is Kind.END:
            return self.cluster.by_name[event.subject].version == event.version
        if event.kind is Kind.LOAD:
            return event.version == self._look
        return event.kind is not Kind.TIMER or self.scheduler.expects(event.subject)

    def _end(self, event: Event) -> None:
        life = self.cluster.by_name[event.subject]
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
        alike = tuple(_alike(member.arrival) for member in lives)
        return Unit(tuple(lives), self._lanes.setdefault(alike, len(self._lanes)))

    def _look_at(self, time_ms: int | None) -> None:
        """Let services look at their load next at that moment, and not where they meant to."""
        if time_ms != self._look_ms:
            self._look_ms = time_ms
            self._look += 1
            if time_ms is not None:
                self.cluster.agenda.add(time_ms, Kind.LOAD, version=self._look)

    def _close(self) -> None:
        """Nothing will happen any more: who still waits does so for ever."""
        for life in self.cluster.waiting.values():
            life.reason = "waits for room that never comes: nothing more ends or arrives"


def _alike(arrival: Arrival) -> tuple[object, ...]:
    """Equal for jobs that ask for exactly the same, and have the same claim to it."""
    job = arrival.job
    what = (job.roles, job.gang, job.topology, job.spread)
    return (what, job.queue, job.priority, job.kind, arrival.preemptible)
