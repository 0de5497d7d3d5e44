"""A small language for stories over time: machines, jobs that come and go, what becomes of them.

    story = Story().node("n1", gpus=4)
    story.job("a", runs=10, gpus=3).job("wide", at=1, runs=5, gpus=4).job("b", at=2, runs=1, gpus=1)

    told = story.under("fifo-skip+best-fit")

    assert told.start_s("b") == 2

Times are seconds, in and out. Every run is audited (`simulator.audit`): each start is put to
`solver.verify`, and nothing gets lost. Jobs with the same request have the same role, so they
share a lane of the waiting line as jobs of a trace do.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from simulator.audit import Audit
from simulator.policies import SimulationOptions, parse_simulation_policy
from simulator.run import simulate
from simulator.scenario import MS, Arrival, DailyLoad, Scenario, Standing
from simulator.schedulers.per_pod import TIMEOUT_MS
from simulator.schedulers.rolling import Rolling
from solver.cluster import GPU_MILLI, Node
from solver.solution import Placement
from solver.workload import Job, Queue, Role, Shape, TopologyRule
from tests.scenario import amounts, machine, shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.outcome import JobOutcome, Outcome, Summary

ROLE = "worker"

GANG_ORDERS = (
    *("fifo-strict", "fifo-skip", "sjf", "priority", "drf", "reclaim", "preempt", "defrag"),
    *("easy", "conservative"),
)
"""Orders that start gangs whole."""

EVERY_ORDER = (*GANG_ORDERS, "per-pod")


def ms(seconds: float) -> int:
    """Whole milliseconds; a story says no times that are not."""
    exact = Fraction(str(seconds)) * MS
    assert exact.denominator == 1, f"{seconds} s are not whole milliseconds"
    return int(exact)


class Story:
    """Collects machines, queues and work; every method returns the story."""

    def __init__(self, *, lines: str = "cluster", patient: bool = True) -> None:
        self._lines, self._patient = lines, patient
        self._half_life_ms: int | None = None
        self._nodes: list[Node] = []
        self._queues: list[Queue] = []
        self._standing: list[Standing] = []
        self._arrivals: list[Arrival] = []
        self._reference: tuple[tuple[Shape, int], ...] | None = None

    def node(
        self,
        name: str,
        *,
        gpus: int = 0,
        cpu: float | None = None,
        links: Mapping[tuple[int, int], str] | str = "",
        labels: Mapping[str, str] | None = None,
        domain: str | None = None,
    ) -> Story:
        """Add a host; a missing amount is no limit."""
        self._nodes.append(
            Node(
                name=name,
                topology=machine(gpus, links),
                cpu_milli=None if cpu is None else round(cpu * 1000),
                labels=dict(labels or {}),
                location={} if domain is None else {"domain": domain},
            )
        )
        return self

    def queue(
        self,
        name: str,
        *,
        parent: str | None = None,
        weight: int = 1,
        quota: float | None = None,
        limit: float | None = None,
        past_gpu_s: float = 0,
    ) -> Story:
        """Add a queue; its quota and limit are in GPUs."""
        self._queues.append(
            Queue(
                name=name,
                parent=parent,
                weight=weight,
                quota=amounts(quota),
                limit=amounts(limit),
                past_gpu_s=past_gpu_s,
            )
        )
        return self

    def half_life(self, seconds: float) -> Story:
        """Let fair shares look at the past."""
        self._half_life_ms = ms(seconds)
        return self

    def reference(self, *weighted: tuple[Shape, int]) -> Story:
        """Set the workload that "stranded" is relative to."""
        self._reference = weighted
        return self

    def job(
        self,
        name: str,
        *,
        at: float = 0,
        runs: float | None = None,
        replicas: int = 1,
        min: int | None = None,
        queue: str | None = None,
        priority: int = 0,
        kind: str = "training",
        start_group: str | None = None,
        topology: TopologyRule | None = None,
        fails: bool = False,
        **facts: Any,
    ) -> Story:
        """Add a job that arrives `at` and `runs` so long; without `runs` it does not end.

        `facts` are ``preemptible``, ``checkpoint``, ``restart``, the ``peak`` and ``step`` of a
        daily load, and the request of a replica (``gpus``, ``cpu``, ``selector``, …).
        """
        stopping, request = _split(facts)
        least = replicas if min is None else min
        role = Role(name=ROLE, shape=shape(**request), replicas=replicas, min_replicas=least)
        job = Job(
            name=name,
            roles=(role,),
            queue=queue or self._first_queue,
            priority=priority,
            kind=kind,
            start_group=start_group,
            topology=topology,
        )
        self._arrivals.append(
            Arrival(
                job=job,
                arrival_ms=ms(at),
                duration_ms=None if runs is None else ms(runs),
                outcome="failed" if fails else "finished",
                **stopping,
            )
        )
        return self

    def standing(
        self,
        name: str,
        on: str,
        gpus: Sequence[int],
        *,
        runs: float | None = None,
        age: float = 0,
        **facts: Any,
    ) -> Story:
        """Add work that holds these GPUs at time 0, its last checkpoint `age` seconds old."""
        self.job(name, runs=runs, gpus=len(gpus), **facts)
        arrival = self._arrivals.pop()
        place = Placement(name, ROLE, 0, on, tuple(gpus), GPU_MILLI)
        self._standing.append(
            Standing(arrival=arrival, placements=(place,), checkpoint_age_ms=ms(age))
        )
        return self

    @property
    def _first_queue(self) -> str:
        return self._queues[0].name if self._queues else "default"

    def scenario(self, name: str = "story") -> Scenario:
        """Everything said so far."""
        return Scenario(
            name=name,
            nodes=tuple(self._nodes),
            queues=tuple(self._queues or [Queue(name="default")]),
            half_life_ms=self._half_life_ms,
            standing=tuple(self._standing),
            arrivals=tuple(sorted(self._arrivals, key=lambda arrival: arrival.arrival_ms)),
            lines=self._lines,
            patient=self._patient,
            reference_shapes=self._reference,
        )

    def under(
        self,
        policy: str,
        *,
        seed: int = 1,
        penalty: float = 0.0,
        timeout: float = TIMEOUT_MS / MS,
        every: float = 0,
    ) -> Told:
        """Replay it under a policy.

        Parameters
        ----------
        timeout
            Seconds after which a deadlock is broken.
        every
            Least seconds between two rounds of cp-sat.
        """
        options = SimulationOptions(
            penalty=penalty,
            deadlock_timeout_ms=ms(timeout),
            rolling=Rolling(every_ms=ms(every)),
        )
        audit = Audit(gangs=parse_simulation_policy(policy).order != "per-pod")
        return Told(simulate(self.scenario(), policy, seed, options, observers=[audit]), audit)


def _split(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a job can be stopped and what load it has; and what its replicas ask for."""
    request = dict(facts)
    stopping: dict[str, Any] = {
        "preemptible": request.pop("preemptible", True),
        "restart_ms": ms(request.pop("restart", 60)),
    }
    if (checkpoint := request.pop("checkpoint", None)) is not None:
        stopping["checkpoint_ms"] = ms(checkpoint)
    if (peak := request.pop("peak", None)) is not None:
        stopping["load"] = DailyLoad(peak_ms=ms(peak), step_ms=ms(request.pop("step", 900)))
    return stopping, request


class Told:
    """What came of a story under a policy."""

    def __init__(self, outcome: Outcome, audit: Audit) -> None:
        self.outcome, self.audit = outcome, audit
        self._jobs = {job.job: job for job in outcome.jobs}

    @property
    def summary(self) -> Summary:
        """The row of the table."""
        return self.outcome.summary

    def of(self, job: str) -> JobOutcome:
        """All that is known of a job."""
        assert job in self._jobs, f"the story has no job {job!r}"
        return self._jobs[job]

    def start_s(self, job: str) -> float | None:
        """Its first start; None where it never came to that."""
        return _seconds(self.of(job).start_ms)

    def end_s(self, job: str) -> float | None:
        """Its end."""
        return _seconds(self.of(job).end_ms)

    def wait_s(self, job: str) -> float | None:
        """From arrival to first start."""
        return _seconds(self.of(job).wait_ms)

    def lost_gpu_s(self, job: str) -> float:
        """GPU-seconds lost by being stopped."""
        return self.of(job).lost_gpu_ms / MS

    def state(self, job: str) -> str:
        """How it ended, or that it runs."""
        return self.of(job).state.value

    def reason(self, job: str) -> str:
        """Why it ended so."""
        return self.of(job).reason

    def starts(self, *jobs: str) -> dict[str, float | None]:
        """First starts of several jobs."""
        return {job: self.start_s(job) for job in jobs}

    def gpus_at(self, time_s: float, job: str) -> float:
        """GPUs that a job holds once all of a moment has happened."""
        self.of(job)
        held = 0
        for entry in self.outcome.log:
            if entry.job == job and entry.time_ms <= ms(time_s):
                held = entry.gpu_milli
        return held / GPU_MILLI

    def times_s(self, what: str, job: str) -> list[float]:
        """When something happened to a job: ``start``, ``evict``, ``grow``, ``shrink``, …."""
        entries = [e for e in self.outcome.log if (e.what, e.job) == (what, job)]
        return [entry.time_ms / MS for entry in entries]

    def held_gpu_s(self, job: str) -> float:
        """GPU-seconds that a job held until its end."""
        total = held = since = 0
        for entry in self.outcome.log:
            if entry.job == job:
                total += held * (entry.time_ms - since)
                held, since = entry.gpu_milli, entry.time_ms
        assert held == 0, f"{job} does not end"
        return total / GPU_MILLI / MS


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / MS
