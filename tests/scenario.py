"""A small language for scheduling stories: machines, work, then what must come of it.

    story = Scenario()
    story.node("n16", gpus=8, cpu=16).node("n32", gpus=8, cpu=32)
    story.job("md", gpus=1, cpu=12).job("many", replicas=15, gang=False, gpus=1, cpu=1)

    outcome = story.solve()

    outcome.expect("md").on("n32")
    outcome.expect("many").placed(15)

Nodes and queues are handed over in a shuffled order, since no answer may depend on it (jobs keep
theirs: it is the order of arrival). pytest-randomly seeds the shuffle, so a failure can be
repeated.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from solver.api import solve
from solver.cluster import Node, Taint, Toleration
from solver.options import SolveOptions
from solver.problem import OBJECTIVES, PREEMPT_FOR, Problem
from solver.solution import Placement, Plan
from solver.verify import explain_violations, verify
from solver.workload import (
    Job,
    LinkRule,
    Preemption,
    Queue,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
    SpreadRule,
    TopologyRule,
)
from topology.graph import NodeTopology
from topology.links import Link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GIB_MIB = 1024

_TOPOLOGIES: dict[tuple[Any, ...], NodeTopology] = {}


def machine(
    gpus: int | Sequence[str | None] = 8,
    links: Mapping[tuple[int, int], str] | str = "",
    memory_gib: int | None = 80,
) -> NodeTopology:
    """GPUs with links; equal arguments give the same object, as nodes of one kind share it.

    Parameters
    ----------
    gpus
        How many (of model "A100"), or the model of each.
    links
        Pair to label (``{(0, 1): "NV12"}``), or one label for every pair; SYS where missing.
    """
    models = ("A100",) * gpus if isinstance(gpus, int) else tuple(gpus)
    if isinstance(links, str):
        pairs = [(a, b) for b in range(len(models)) for a in range(b)] if links else []
        links = dict.fromkeys(pairs, links)
    key = (models, tuple(sorted(links.items())), memory_gib)
    if key not in _TOPOLOGIES:
        memory = None if memory_gib is None else memory_gib * GIB_MIB
        _TOPOLOGIES[key] = NodeTopology(
            f"{len(models)} GPUs",
            models,
            [memory] * len(models),
            {pair: Link.parse(label) for pair, label in links.items()},
        )
    return _TOPOLOGIES[key]


def shape(
    gpus: float = 0,
    *,
    cpu: float = 0,
    memory_gib: float = 0,
    gpu_memory_gib: float = 0,
    models: Sequence[str] = (),
    selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Toleration] = (),
    link: str = "none",
) -> Shape:
    """One replica's request; a broken number of GPUs is a share."""
    return Shape(
        gpus=int(gpus) if gpus == int(gpus) else 0,
        share_milli=0 if gpus == int(gpus) else round(gpus * 1000),
        share_memory_mib=int(gpu_memory_gib * GIB_MIB),
        cpu_milli=round(cpu * 1000),
        memory_mib=int(memory_gib * GIB_MIB),
        gpu_models=tuple(sorted(models)),
        node_selector=tuple(sorted((selector or {}).items())),
        tolerations=tuple(tolerations),
        link=LinkRule(link),
    )


def role(name: str, replicas: int = 1, minimum: int | None = None, **request: Any) -> Role:
    """Replicas of a job that are alike."""
    least = replicas if minimum is None else minimum
    return Role(name=name, shape=shape(**request), replicas=replicas, min_replicas=least)


def amounts(gpus: float | None, cpu: float | None = None) -> dict[Any, int]:
    """Amounts of a queue, in GPUs and CPUs; None leaves the resource out."""
    given = {"gpu_milli": gpus, "cpu_milli": cpu}
    return {name: round(amount * 1000) for name, amount in given.items() if amount is not None}


class Scenario:
    """Collects nodes, queues, running and pending work; every method returns the scenario."""

    def __init__(self, *, levels: Sequence[str] = (), shuffle: bool = True) -> None:
        self._levels = tuple(levels)
        self._shuffle = shuffle
        self._nodes: list[Node] = []
        self._queues: list[Queue] = []
        self._running: list[RunningJob] = []
        self._jobs: list[Job] = []
        self._preempt_for: tuple[str, ...] = PREEMPT_FOR
        self._objectives: tuple[str, ...] = OBJECTIVES
        self._reference: tuple[tuple[Shape, int], ...] | None = None

    def node(
        self,
        name: str,
        *,
        gpus: int | Sequence[str | None] = 0,
        links: Mapping[tuple[int, int], str] | str = "",
        gpu_memory_gib: int | None = 80,
        cpu: float | None = None,
        memory_gib: float | None = None,
        at: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        ready: bool = True,
        cordoned: bool = False,
        unhealthy: Sequence[int] = (),
        mig: Sequence[int] = (),
    ) -> Scenario:
        """Add a host; `at` is its place, e.g. ``{"rack": "r1"}``; missing amounts are no limit."""
        self._nodes.append(
            Node(
                name=name,
                topology=machine(gpus, links, gpu_memory_gib),
                cpu_milli=None if cpu is None else round(cpu * 1000),
                memory_mib=None if memory_gib is None else int(memory_gib * GIB_MIB),
                location=dict(at or {}),
                labels=dict(labels or {}),
                taints=tuple(taints),
                ready=ready,
                cordoned=cordoned,
                unhealthy_gpus=frozenset(unhealthy),
                mig_gpus=frozenset(mig),
            )
        )
        return self

    def queue(
        self,
        name: str,
        *,
        parent: str | None = None,
        priority: int = 0,
        weight: int = 1,
        quota: float | None = None,
        limit: float | None = None,
        cpu_limit: float | None = None,
        demand: float | None = None,
        past_gpu_s: float = 0,
    ) -> Scenario:
        """Add a queue; quota, limit and demand are in GPUs."""
        self._queues.append(
            Queue(
                name=name,
                parent=parent,
                priority=priority,
                weight=weight,
                quota=amounts(quota),
                limit=amounts(limit, cpu_limit),
                demand=amounts(demand),
                past_gpu_s=past_gpu_s,
            )
        )
        return self

    def running(
        self,
        name: str,
        on: str | Sequence[tuple[str, Sequence[int]]],
        gpus: Sequence[int] = (),
        *,
        share: float = 1,
        cpu: float = 0,
        memory_gib: float = 0,
        queue: str | None = None,
        priority: int = 0,
        **facts: Any,
    ) -> Scenario:
        """Add running work: one replica on a node, or several as (node, GPUs) pairs."""
        places = [(on, gpus)] if isinstance(on, str) else on
        replicas = tuple(
            RunningReplica(
                node=node,
                gpus=tuple(held),
                share_milli=round(share * 1000),
                cpu_milli=round(cpu * 1000),
                memory_mib=int(memory_gib * GIB_MIB),
            )
            for node, held in places
        )
        shapes = tuple(
            shape(len(r.gpus) if share == 1 else share, cpu=cpu, memory_gib=memory_gib)
            for r in replicas
        )
        job = RunningJob(
            name=name,
            replicas=replicas,
            shapes=shapes,
            queue=queue or self._first_queue,
            priority=priority,
            preemption=facts.pop("preemption", Preemption()),
            **facts,
        )
        self._running.append(job)
        return self

    def job(
        self,
        name: str,
        *,
        replicas: int = 1,
        minimum: int | None = None,
        roles: Sequence[Role] = (),
        queue: str | None = None,
        priority: int = 0,
        gang: bool = True,
        within: str | None = None,
        prefer_within: str | None = None,
        spread_over: str | None = None,
        max_per: int = 1,
        start_group: str | None = None,
        must: bool = False,
        **request: Any,
    ) -> Scenario:
        """Add a pending job; its one role has its name unless `roles` are given."""
        rule = TopologyRule(within=within) if within else None
        if prefer_within:
            rule = TopologyRule(within=prefer_within, required=False)
        self._jobs.append(
            Job(
                name=name,
                roles=tuple(roles) or (role(name, replicas, minimum, **request),),
                queue=queue or self._first_queue,
                priority=priority,
                gang=gang,
                topology=rule,
                spread=SpreadRule(over=spread_over, max_per=max_per) if spread_over else None,
                start_group=start_group,
                must=must,
            )
        )
        return self

    def objectives(self, *names: str) -> Scenario:
        """Set the order of the tiers."""
        self._objectives = names
        return self

    def preempt_for(self, *reasons: str) -> Scenario:
        """Set the reasons for which running work gives way; none leaves it alone."""
        self._preempt_for = reasons
        return self

    def reference(self, *weighted: tuple[Shape, int]) -> Scenario:
        """Set the workload that "stranded" is relative to."""
        self._reference = weighted
        return self

    @property
    def _first_queue(self) -> str:
        return self._queues[0].name if self._queues else "default"

    def problem(self) -> Problem:
        """Everything said so far, as a problem."""
        nodes, queues = list(self._nodes), list(self._queues or [Queue(name="default")])
        if self._shuffle:
            random.shuffle(nodes)
            random.shuffle(queues)
        return Problem(
            name="story",
            levels=self._levels,
            nodes=tuple(nodes),
            queues=tuple(queues),
            running=tuple(self._running),
            jobs=tuple(self._jobs),
            objectives=self._objectives,
            preempt_for=self._preempt_for,
            reference_shapes=self._reference,
        )

    def solve(self, policy: str = "cp-sat", *, seed: int = 1, time_limit_s: float = 20) -> Outcome:
        """Solve, check the plan, and give what there is to expect."""
        problem = self.problem()
        options = SolveOptions(seed=seed, workers=1, time_limit_s=time_limit_s)
        result = solve(problem, options, policy)
        broken = verify(problem, result.plan)
        assert not broken, explain_violations(broken)
        return Outcome(problem, result)


class Outcome:
    """A solved scenario."""

    def __init__(self, problem: Problem, result: Any) -> None:
        self.problem, self.result = problem, result

    def expect(self, job: str, role: str | None = None) -> Expectation:
        """What must be true of a job, or of one role of it."""
        assert job in self.problem.job_by_name, f"the story has no job {job!r}"
        return Expectation(self, job, role)


class Expectation:
    """Statements about one job; each fails with what happened instead."""

    def __init__(self, outcome: Outcome, job: str, role: str | None) -> None:
        self._outcome, self._job = outcome, job
        places = outcome.result.plan.by_job.get(job, ())
        self._places: list[Placement] = [p for p in places if role in (None, p.role)]
        self._what = f"job {job!r}" + (f", role {role!r}" if role else "")

    def placed(self, replicas: int) -> Expectation:
        """So many replicas start."""
        assert len(self._places) == replicas, (
            f"{self._what}: {len(self._places)} replicas start, not {replicas}: {self._places}"
        )
        return self

    def on(self, *nodes: str) -> Expectation:
        """Replicas start on exactly these nodes (a node once per replica on it)."""
        there = Counter(p.node for p in self._places)
        assert there == Counter(nodes), f"{self._what}: is on {dict(there)}, not on {nodes}"
        return self

    def in_one(self, level: str) -> Expectation:
        """All replicas are in one group of the level."""
        problem = self._outcome.problem
        groups = {problem.node_by_name[p.node].group(level, problem.levels) for p in self._places}
        assert len(groups) == 1, f"{self._what}: is in {len(groups)} groups of {level}: {groups}"
        return self

    def gpus(self, *acceptable: Sequence[int]) -> Expectation:
        """Every replica has one of these GPU sets."""
        for place in self._places:
            assert list(place.gpus) in [sorted(s) for s in acceptable], (
                f"{self._what}: has GPUs {place.gpus}, none of {acceptable}"
            )
        return self

    def waits(self, reason: str | None = None, **facts: Any) -> Expectation:
        """Nothing of the job starts, for this reason and with these facts."""
        self.placed(0)
        pending = {p.job: p for p in self._outcome.result.pending}
        assert self._job in pending, f"{self._what}: is not reported as pending"
        told = pending[self._job]
        assert reason in (None, told.reason), f"{self._what}: waits for {told.reason}: {told.text}"
        for name, value in facts.items():
            assert told.facts.get(name) == value, f"{self._what}: {name} is {told.facts.get(name)}"
        return self


def place(
    job: str,
    node: str,
    gpus: Sequence[int] = (),
    *,
    replica: int = 0,
    role: str | None = None,
    share: float = 1,
) -> Placement:
    """One placement of a hand-written plan; the role has the job's name unless said."""
    milli = round(share * 1000)
    return Placement(job, role or job, replica, node, tuple(gpus), milli)


def plan(*placements: Placement) -> Plan:
    """A hand-written plan."""
    return Plan.of(placements)
