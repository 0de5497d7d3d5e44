"""No gangs: replicas are placed one by one as they fit, each job in turn, and wait for the others.

So jobs can hold GPUs while each waits for GPUs that another holds. Such a deadlock is counted,
and broken after a timeout: the youngest of its jobs lets go of what it has, and stands back until
some job has ended, or nobody else is there. While the rest are still stuck, the next one follows
after the same time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from simulator.agenda import Kind
from simulator.lives import Life
from simulator.orders import OrderKey
from simulator.scenario import MS
from simulator.schedulers.base import Scheduler
from simulator.schedulers.surplus import hand_out_surplus, shed_load
from simulator.state import Cluster, Unit
from solver.workload import Role

TIMEOUT_MS = 600 * MS
"""How long a deadlock lasts before it is broken."""


class PerPodScheduler(Scheduler):
    """What a cluster does that knows pods and no jobs."""

    def __init__(self, cluster: Cluster, key: OrderKey, timeout_ms: int = TIMEOUT_MS) -> None:
        super().__init__(cluster)
        self._key = key
        self._timeout_ms = timeout_ms
        self._line: list[Unit] = []
        self._back: set[str] = set()
        self._stuck: list[Life] = []
        self._watched = 0

    def arrive(self, unit: Unit) -> None:
        """The members of a start group wait each for itself."""
        self._line += [Unit((life,), unit.lane) for life in unit.lives]
        self._line.sort(key=self._key)

    def ended(self, life: Life) -> None:
        """Who stood back may try again."""
        self._back.clear()

    def expects(self, subject: str) -> bool:
        """Whether it is the same deadlock still."""
        return int(subject) == self._watched and bool(self._stuck)

    def remind(self, subject: str) -> None:
        """A deadlock has lasted long enough."""
        victim = max(self._stuck, key=lambda life: life.order)
        self.cluster.drop_pods(victim)
        self._back.add(victim.name)
        self._watch()

    def round(self) -> None:
        """Place what fits, pod by pod; then see whether anybody can still get on."""
        cluster = self.cluster
        if cluster.elastic:
            shed_load(cluster)
        self._place_pods()
        if cluster.elastic:
            hand_out_surplus(cluster)
        cluster.gained.clear()
        before = self._stuck
        self._stuck = self._deadlocked()
        if self._stuck and not before:
            self.deadlocks += 1
            self._watch()

    def _watch(self) -> None:
        self._watched += 1
        at_ms = self.cluster.now_ms + self._timeout_ms
        self.cluster.agenda.add(at_ms, Kind.TIMER, str(self._watched))

    def _place_pods(self) -> None:
        """One pod of each job in turn, the oldest job first, until no pod finds room."""
        others = [unit for unit in self._line if unit.life.name not in self._back]
        if not others and not self.cluster.running:
            self._back.clear()
        full: set[object] = set()
        placed = True
        while placed:
            placed = False
            left = []
            for unit in self._line:
                life = unit.life
                if life.name not in self._back:
                    placed = self._place_one(life, full) or placed
                    if not self._missing(life):
                        self.cluster.launch(life)
                        continue
                left.append(unit)
            self._line = left

    def _place_one(self, life: Life, full: set[object]) -> bool:
        """Place one pod of a job, whichever role has room; `full` has shapes that have none."""
        job = life.arrival.job
        for role in dict.fromkeys(self._missing(life)):
            alike = (role.shape, job.queue)
            if alike in full:
                continue
            if self.cluster.take_pod(life, role):
                return True
            if job.spread is None:
                full.add(alike)
        return False

    def _missing(self, life: Life) -> list[Role]:
        """A role for every replica that the job still needs before it can run."""
        has = Counter(role.name for role, _ in self.cluster.draft.seats(life.name))
        roles = life.arrival.job.roles
        return [role for role in roles for _ in range(role.min_replicas - has[role.name])]

    def _deadlocked(self) -> list[Life]:
        """Jobs that hold GPUs and can never get the rest, whatever ends: at least two, or none.

        All that runs is taken to end. Then again and again a job that can be completed is, runs
        and ends; those that are left wait for each other (Dijkstra's banker).
        """
        partial = [u.life for u in self._line if u.life.holding_milli]
        if len(partial) < 2:
            return []
        draft = self.cluster.draft
        mark = draft.mark()
        for life in self.cluster.running.values():
            if life.end_ms is not None:
                draft.release(life.arrival.job)
        progress = True
        while progress and partial:
            progress = False
            for life in list(partial):
                job = replace(life.arrival.job, gang=False, topology=None)
                point = draft.mark()
                if all(draft.add(job, role) for role in self._missing(life)):
                    draft.release(job)
                    partial.remove(life)
                    progress = True
                else:
                    draft.roll_back(point)
        draft.roll_back(mark)
        return partial if len(partial) > 1 else []
