"""Checks every decision of a run: `solver.verify` finds no fault, and nothing gets lost.

Each moment's starts are put to `verify` as the plan for what waits, with what went on running as
the running work. It knows nothing of boards, drafts and schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simulator.lives import Life, State
from simulator.state import Cluster
from solver.cluster import GPU_MILLI
from solver.solution import Placement, Plan
from solver.state import initial_states
from solver.verify import explain_violations, verify
from solver.workload import Job, RunningJob

MORE = "/more"
"""Ends the name of what stands for the replicas by which an elastic job has grown."""


class AuditError(AssertionError):
    """A decision broke a rule, or the books do not balance: our bug."""


class Audit:
    """An observer that raises at the first fault.

    Parameters
    ----------
    gangs
        Whether gangs start whole; a scheduler of single pods does not promise that.
    """

    def __init__(self, *, gangs: bool = True) -> None:
        self._gangs = gangs
        self._before: dict[str, list[Placement]] = {}
        self.decisions = 0

    def begin(self, cluster: Cluster) -> None:
        """Nothing is decided yet."""

    def before(self, cluster: Cluster) -> None:
        """Remember who holds what."""
        self._before = {name: cluster.draft.placements(name) for name in cluster.by_name}

    def after(self, cluster: Cluster, touched: set[int]) -> None:
        """Check what was decided.

        Raises
        ------
        AuditError
            It breaks a rule.
        """
        running: list[RunningJob] = []
        jobs: list[Job] = []
        placements: list[Placement] = []
        for life in cluster.by_name.values():
            held = cluster.draft.placements(life.name)
            kept = _common(self._before.get(life.name, []), held)
            fresh = held[len(kept) :]
            if kept:
                running.append(self._running(cluster, life, len(kept)))
            if fresh:
                self.decisions += 1
                job = self._job(life, grown=bool(kept))
                jobs.append(job)
                placements += _renumbered(job.name, fresh)
        problem = replace(cluster.snapshot(jobs, running), objectives=("priority",))
        if violations := verify(problem, Plan.of(placements)):
            raise AuditError(f"{cluster.now_ms} ms: {explain_violations(violations)}")
        self._balance(cluster)

    def _job(self, life: Life, *, grown: bool) -> Job:
        job = life.arrival.job
        if not grown and self._gangs:
            return replace(job, start_group=None)
        return replace(
            job, name=job.name + MORE, gang=False, topology=None, spread=None, start_group=None
        )

    def _running(self, cluster: Cluster, life: Life, kept: int) -> RunningJob:
        whole = cluster.running_job(life)
        return replace(whole, replicas=whole.replicas[:kept], shapes=whole.shapes[:kept])

    def _balance(self, cluster: Cluster) -> None:
        """Held and free GPUs are all there are; every job is in exactly one place."""
        running = [cluster.running_job(life) for life in cluster.by_name.values()]
        running = [job for job in running if job.replicas]
        states = initial_states(cluster.snapshot((), running))
        board = cluster.draft.board
        for n, node in enumerate(board.nodes):
            if states[node.name] != board.state(n):
                text = f"{cluster.now_ms} ms: {node.name} has {board.state(n)} left"
                raise AuditError(f"{text}, its work leaves {states[node.name]}")
        held = sum(replica.gpu_milli for job in running for replica in job.replicas)
        cut = GPU_MILLI * sum(
            bool(board.state(n).layout(gpu)) and gpu in node.usable_gpus
            for n, node in enumerate(board.nodes)
            for gpu in range(node.n_gpus)
        )
        slices = sum(
            cluster.problem.gpu_milli(role.shape)
            for name in cluster.by_name
            for role, seat in cluster.draft.seats(name)
            if seat.instances
        )
        free = sum(board.free_milli(n) for n in range(len(board.nodes)))
        installed = GPU_MILLI * sum(len(node.usable_gpus) for node in board.nodes)
        ill = _on_ill_gpus(cluster, running)
        booked = sum(cluster.held_milli.values())
        if held - ill + free + cut != installed or held + slices != booked:
            raise AuditError(f"{cluster.now_ms} ms: {held} held, {free} free of {installed}")
        for life in cluster.lives:
            waits, runs = life.name in cluster.waiting, life.name in cluster.running
            if waits != (life.state is State.WAITING and self._has_come(cluster, life)):
                raise AuditError(f"{life.name} is {life.state.value} and in the wrong place")
            if runs != (life.state is State.RUNNING):
                raise AuditError(f"{life.name} is {life.state.value} and in the wrong place")

    @staticmethod
    def _has_come(cluster: Cluster, life: Life) -> bool:
        return life.arrival.arrival_ms <= cluster.now_ms


def _common(before: list[Placement], after: list[Placement]) -> list[Placement]:
    """The replicas that went on where they were: the first ones, in the order of their seats."""
    kept = []
    for old, new in zip(before, after, strict=False):
        if (old.role, old.node, old.gpus, old.share_milli) != (
            new.role,
            new.node,
            new.gpus,
            new.share_milli,
        ):
            break
        kept.append(new)
    return kept


def _renumbered(job: str, placements: Iterable[Placement]) -> list[Placement]:
    number: dict[str, int] = {}
    found = []
    for place in placements:
        at = number.get(place.role, 0)
        number[place.role] = at + 1
        found.append(replace(place, job=job, replica=at))
    return found


def _on_ill_gpus(cluster: Cluster, running: Iterable[RunningJob]) -> int:
    nodes = cluster.problem.node_by_name
    return sum(
        replica.share_milli
        for job in running
        for replica in job.replicas
        for gpu in replica.gpus
        if gpu not in nodes[replica.node].usable_gpus
    )
