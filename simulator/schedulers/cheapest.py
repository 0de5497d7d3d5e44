"""Preemption with a price: for priority or a guarantee, the work is stopped that loses least.

`CheapestScheduler` asks `solver.preemption.one_by_one` unit by unit; `EvictingScheduler` lets the
solver decide for all that wait who starts, where, and who is stopped, at the least cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from simulator.lives import Life
from simulator.orders import highest_priority
from simulator.scenario import MS
from simulator.schedulers.guarantees import Guarantees
from simulator.schedulers.line import LineScheduler
from simulator.schedulers.rolling import ChoosingScheduler, minimum
from simulator.state import Cluster, Unit
from solver.api import solve
from solver.cluster import GPU_MILLI
from solver.preemption.one_by_one import make_way
from solver.problem import Problem
from solver.solution import Plan
from solver.tiers import Ruler
from solver.workload import Preemption, RunningJob

OBJECTIVES = ("guarantee", "priority", "preemption_cost", "topology", "stranded")
REASONS = ("priority", "guarantee")


class CheapestScheduler(LineScheduler):
    """Guarantees, then the highest priority; who finds no room stops what loses least.

    What has started at a moment is not stopped at the same.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, highest_priority(cluster.scenario), preempts=True)
        self._guarantees = Guarantees(cluster)
        self._standing: frozenset[str] = frozenset()

    def round(self) -> None:
        """Only what ran before this moment may be stopped."""
        self._standing = frozenset(self.cluster.running)
        super().round()

    def turns(self) -> Iterator[Unit]:
        """Whoever is within the guarantee of its queue comes first."""
        while heads := list(self.line.open_heads()):
            covered = [head for head in heads if self._guarantees.covers(head[1])]
            yield min(covered or heads, key=lambda head: head[0])[1]

    def attempt(self, unit: Unit) -> bool:
        """Start a unit in free room, in surplus, or in the place of cheaper work."""
        if self.attempt_alone(unit):
            return True
        problem = question(self.cluster, [unit], self._standing)
        plan = make_way(problem, Ruler(problem), Plan())
        return carry_out(self.cluster, self, unit, plan)


class EvictingScheduler(ChoosingScheduler):
    """The solver chooses who starts and who is stopped for it."""

    def attempt(self, unit: Unit) -> bool:
        """What the solver has left may still find free room; nobody is stopped for it."""
        return self.attempt_alone(unit)

    def may_choose(self) -> bool:
        """Somebody may be stopped, so there need not be room."""
        return any(True for _ in self.line.open_heads())

    def choose(self) -> None:
        """Ask once for all of the window."""
        units = self.line.in_order()[: self.rolling.window]
        standing = frozenset(self.cluster.running)
        plan = solve(question(self.cluster, units, standing), self.rolling.options).plan
        stop(self.cluster, self, plan)
        chosen = [unit for unit in units if all(job.name in plan.by_job for job in unit.jobs)]
        for unit in chosen:
            self.cluster.start_at(unit, [p for job in unit.jobs for p in plan.by_job[job.name]])
        if chosen:
            self.line.remove(chosen)


def question(cluster: Cluster, units: Sequence[Unit], standing: Collection[str]) -> Problem:
    """Who of these units starts, with what stands as work that may be stopped at its price now."""
    running = [_priced(cluster, job, standing) for job in cluster.running_jobs()]
    jobs = [minimum(job) for unit in units for job in unit.jobs]
    snapshot = cluster.snapshot(jobs, running)
    return replace(snapshot, objectives=OBJECTIVES, preempt_for=REASONS)


def _priced(cluster: Cluster, job: RunningJob, standing: Collection[str]) -> RunningJob:
    life: Life = cluster.by_name[job.name]
    allowed = life.name in standing and life.arrival.preemptible and not life.is_service
    if not allowed:
        return replace(job, preemption=Preemption(allowed=False))
    life.advance(cluster.now_ms)
    cost_gpu_s = -(-life.would_lose_gpu_ms() // (GPU_MILLI * MS))
    return replace(job, preemption=Preemption(cost_gpu_s=cost_gpu_s))


def stop(cluster: Cluster, scheduler: LineScheduler, plan: Plan) -> None:
    """Stop what the plan evicts, always whole jobs; they wait again."""
    for eviction in plan.evictions:
        life = cluster.by_name[eviction.job]
        cluster.evict(life)
        scheduler.line.add(Unit((life,), lane=-1 - life.order))


def carry_out(cluster: Cluster, scheduler: LineScheduler, unit: Unit, plan: Plan) -> bool:
    """Stop and start as the plan says; False where the unit is not in it."""
    if not all(job.name in plan.by_job for job in unit.jobs):
        return False
    stop(cluster, scheduler, plan)
    cluster.start_at(unit, [p for job in unit.jobs for p in plan.by_job[job.name]])
    return True
