"""Defragmentation over time: running work moves together where a unit finds its room in pieces.

Moves have to pay: what moved work loses (since its last checkpoint, and starting again) is less
than the GPU-time for which the unit would wait for the place that it could be promised now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.lives import Life
from simulator.orders import first_come
from simulator.scenario import MS
from simulator.schedulers.line import LineScheduler
from simulator.schedulers.reservations import reserve
from simulator.schedulers.rolling import Rolling, minimum
from simulator.schedulers.surplus import drop_surplus
from simulator.state import Cluster, Unit
from solver.cluster import GPU_MILLI
from solver.defrag.api import defragment
from solver.problem import Problem
from solver.solution import Placement, Plan
from solver.workload import Preemption, RunningJob, is_tied

MOST_FAILURES = 3
"""Units, at a moment, for which no moves are found; then no more are looked for."""


class MovingScheduler(LineScheduler):
    """First come, first served; who finds no room in one piece has others moved together."""

    def __init__(self, cluster: Cluster, rolling: Rolling) -> None:
        super().__init__(cluster, first_come(cluster.scenario))
        self._rolling = rolling
        self._failures = 0

    def round(self) -> None:
        """A new moment: moves may be found that were not before."""
        self._failures = 0
        super().round()

    def open_lanes(self) -> None:
        """Room anywhere may be of use to anybody: what is in the way may move there."""
        if self.cluster.gained:
            self.line.open_all()
            self.cluster.gained.clear()

    def attempt(self, unit: Unit) -> bool:
        """Start a unit in free room or in surplus, or make room by moves that pay."""
        if self.attempt_alone(unit):
            return True
        if self._failures == MOST_FAILURES:
            return False
        question = self._question(unit)
        if question is None:
            return False
        gain_gpu_ms = _gain_gpu_ms(self.cluster, unit)
        budget_gpu_s = None if gain_gpu_ms is None else gain_gpu_ms // (GPU_MILLI * MS)
        best = None
        if budget_gpu_s != 0:
            options = self._rolling.options
            best = defragment(
                question, target=unit.life.name, budget_gpu_s=budget_gpu_s, options=options
            ).best
        if best is None or not self._pays(best.plan, gain_gpu_ms):
            self._failures += 1
            return False
        self._carry_out(unit, best.plan)
        return True

    def _question(self, unit: Unit) -> Problem | None:
        """What may move, with surplus out of the way.

        None: there is too little, in any pieces, or a limit stands in the way.
        """
        cluster, draft = self.cluster, self.cluster.draft
        mark = draft.mark()
        drop_surplus(cluster)
        free_milli = sum(draft.board.free_milli(n) for n in range(len(draft.board.nodes)))
        found = None
        jobs = [minimum(job) for job in unit.jobs]
        enough = free_milli >= sum(life.wanting_milli for life in unit.lives)
        # A running share of some memory counts for what it holds in the question, and may be
        # counted for more here, as on the smallest card: the limit has to hold both ways.
        if enough and draft.allows(jobs):
            running = [_movable(cluster, job) for job in cluster.running_jobs()]
            found = replace(cluster.snapshot(jobs, running), preempt_for=())
        draft.roll_back(mark)
        return found

    def _pays(self, plan: Plan, gain_gpu_ms: int | None) -> bool:
        """Whether moves lose less than they gain; a job moves whole, whatever part of it does."""
        moved = [self.cluster.by_name[name] for name in plan.displaced]
        return gain_gpu_ms is None or gain_gpu_ms > sum(life.would_lose_gpu_ms() for life in moved)

    def _carry_out(self, unit: Unit, plan: Plan) -> None:
        cluster = self.cluster
        for life in cluster.surplus():  # It grows again, where there is still room for it.
            while life.held > life.arrival.job.min_replicas:
                cluster.shrink(life)
        cluster.move({name: _places_after(cluster, name, plan) for name in plan.displaced})
        cluster.start_at(unit, [p for job in unit.jobs for p in plan.by_job[job.name]])


def _gain_gpu_ms(cluster: Cluster, unit: Unit) -> int | None:
    """Milli-GPU times milliseconds for which a unit waits without moves; None: for ever."""
    promised = reserve(cluster, unit)
    if promised is None:
        return None
    wanted_milli = sum(life.wanting_milli for life in unit.lives)
    return wanted_milli * (promised.at_ms - cluster.now_ms)


def _movable(cluster: Cluster, job: RunningJob) -> RunningJob:
    """A running job with what a move loses now; services, fixed work and instances stay.

    So does work whose replicas have to be together or apart: moves know each replica alone.
    """
    life: Life = cluster.by_name[job.name]
    cut = any(seat.instances for _, seat in cluster.draft.seats(job.name))
    asked = life.arrival.job
    tied = is_tied(asked.topology, asked.spread, job.shapes, gang=asked.gang)
    if not life.arrival.preemptible or life.is_service or cut or tied:
        return replace(job, preemption=Preemption(allowed=False))
    life.advance(cluster.now_ms)
    cost_gpu_s = -(-life.would_lose_gpu_ms() // (GPU_MILLI * MS))
    stop = Preemption(allowed=False, movable=True, cost_gpu_s=cost_gpu_s)
    return replace(job, preemption=stop)


def _places_after(cluster: Cluster, name: str, plan: Plan) -> Sequence[Placement]:
    """Where all replicas of a job are once some have moved."""
    places = cluster.draft.placements(name)
    for move in plan.moves:
        if move.job == name:
            places[move.replica] = replace(
                places[move.replica],
                node=move.node,
                gpus=move.gpus,
                share_milli=move.share_milli,
            )
    return places
