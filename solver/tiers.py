"""The lexicographic order: which step comes when, what a plan is worth in it, and a first bound.

Knows no engine. Every step is an integer, so plans compare exactly and a gap of 0 means 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from solver import metrics
from solver.fair_share import member_entitlements
from solver.fit import UNLIMITED
from solver.geometry import recut_gpus, stranded_slices
from solver.preemption.measures import all_kept_milli, displaced, kept_milli
from solver.problem import Problem, RoleKey
from solver.result import ObjectiveTerm
from solver.solution import Plan
from solver.state import states_after
from solver.stock import Stock
from solver.stranding import Stranded, StrandingMeter, stranded_scale
from solver.workload import RESOURCES, Job, ResourceName, Role, Shape

StepKind = Literal[
    "must", "guarantee", "kept", "fairness", "started", "surplus", "cpu-only", "oldest",
    "preemption_cost", "recut", "groups", "bandwidth", "stranded", "slices",
]  # fmt: skip

UNITS: dict[ResourceName, str] = {
    "gpu_milli": "milli-GPU",
    "cpu_milli": "milli-CPU",
    "memory_mib": "MiB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One objective of the order.

    Parameters
    ----------
    tier, step, level
        As they appear in results; `level` is the priority level inside ``priority``.
    kind
        What is measured.
    detail
        The resource of a guarantee, the group level of ``groups``; empty otherwise.
    rank
        For fairness: this step is about the sum of the `rank` smallest shares.
    scale
        Integer units per `unit`.
    depth
        For guarantees and fairness: the level of the tree of queues, 0 at the top.
    """

    tier: str
    kind: StepKind
    step: str
    sense: Literal["max", "min"]
    unit: str
    level: int | None = None
    detail: str = ""
    rank: int = 0
    scale: int = 1
    depth: int = 0

    def better(self, value: int, other: int) -> bool:
        """Whether `value` is strictly better than `other`."""
        return value > other if self.sense == "max" else value < other

    def term(self, value: int, bound: int) -> ObjectiveTerm:
        """The step with its value and bound (integers) in the unit that is reported."""
        return ObjectiveTerm(
            name=self.tier,
            level=self.level,
            step=self.step,
            sense=self.sense,
            unit=self.unit,
            value=value if self.scale == 1 else value / self.scale,
            bound=bound if self.scale == 1 else bound / self.scale,
        )


def steps(problem: Problem) -> tuple[Step, ...]:
    """All steps in order, outermost first. The default order is that of `problem.objectives`."""
    found: list[Step] = _must_steps(problem)
    for tier in problem.objectives:
        found += {
            "guarantee": _guarantee_steps,
            "priority": _priority_steps,
            "fairness": _fairness_tier_steps,
            "preemption_cost": _preemption_cost_steps,
            "topology": _topology_steps,
            "stranded": _stranded_steps,
        }[tier](problem)
    return tuple(found)


def _must_steps(problem: Problem) -> list[Step]:
    if not any(job.must for job in problem.pending):
        return []
    return [Step(tier="must", kind="must", step="jobs", sense="max", unit="jobs")]


def _guarantee_steps(problem: Problem) -> list[Step]:
    """By resource, and for each from the top queues down."""
    with_quota = [
        (r, depth)
        for r in RESOURCES
        for depth, members in enumerate(problem.queue_tree.levels)
        if any(member.quota.get(r) for member in members)
    ]
    return [
        Step(
            tier="guarantee",
            kind="guarantee",
            step=f"{r}-below-{depth}" if depth else r,
            sense="max",
            unit=UNITS[r],
            detail=r,
            depth=depth,
        )
        for r, depth in with_quota or [("gpu_milli", 0)]
    ]


def _priority_steps(problem: Problem) -> list[Step]:
    order = problem.objectives
    fair_inside = "fairness" in order and order.index("fairness") > order.index("priority")
    fair = {
        level: _fairness_steps(problem, "priority", level) if fair_inside else []
        for level in problem.priorities
    }
    kept = {level: [_priority_step("kept", "milli-GPU", level)] for level in problem.priorities}
    # Where shares may be taken back, being fair is worth more than leaving work alone.
    first, second = (fair, kept) if "fair_share" in problem.preempt_for else (kept, fair)
    found: list[Step] = []
    if problem.preempt_for and "priority" not in problem.preempt_for:
        # Nobody gives way to a higher level, so what is kept of every level comes first.
        found += [step for part in (first, kept) for steps in part.values() for step in steps]
        found = list(dict.fromkeys(found))
    for level in problem.priorities:
        found += [step for step in (*first[level], *second[level]) if step not in found]
        found += [
            _priority_step("started", "milli-GPU", level),
            _priority_step("surplus", "milli-GPU", level),
            _priority_step("cpu-only", "milli-CPU", level),
            _priority_step("oldest", "milli x age rank", level),
        ]
    return found


def _priority_step(kind: StepKind, unit: str, level: int) -> Step:
    return Step(tier="priority", kind=kind, step=kind, sense="max", unit=unit, level=level)


def _fairness_tier_steps(problem: Problem) -> list[Step]:
    order = problem.objectives
    if "priority" in order and order.index("fairness") > order.index("priority"):
        return []  # it is step (b) of every priority level
    return _fairness_steps(problem, "fairness", None)


def _fairness_steps(problem: Problem, tier: str, level: int | None) -> list[Step]:
    """Lexicographic max-min over n shares is n sums: of the smallest one, two, … n.

    The top queues come first, then those below them, and so on.
    """
    return [
        Step(
            tier=tier,
            kind="fairness",
            step=f"fairness-below-{depth}-{rank}" if depth else f"fairness-{rank}",
            sense="max",
            unit="weighted share",
            level=level,
            rank=rank,
            scale=metrics.SHARE_SCALE,
            depth=depth,
        )
        for depth, members in enumerate(metrics.competing(problem))
        for rank, _ in enumerate(members, start=1)
    ]


def _preemption_cost_steps(problem: Problem) -> list[Step]:
    """Ties of cost are decided by GPUs, then by replicas."""
    measures = [("cost", "GPU-s"), ("gpus", "milli-GPU"), ("replicas", "replicas")]
    in_question = problem.preempt_for and (
        problem.running or len(problem.pending) < len(problem.jobs)
    )
    return [
        Step(
            tier="preemption_cost",
            kind="preemption_cost",
            step=name,
            sense="min",
            unit=unit,
            detail=name,
        )
        for name, unit in (measures if in_question else measures[:1])
    ] + [
        Step(tier="preemption_cost", kind="recut", step="mig", sense="min", unit="GPUs recut")
        for _ in range(problem.may_recut)
    ]


def _topology_steps(problem: Problem) -> list[Step]:
    by_level = [
        Step(tier="topology", kind="groups", step=level, sense="min", unit="groups", detail=level)
        for level in metrics.topology_levels(problem)
    ]
    links = Step(tier="topology", kind="bandwidth", step="links", sense="min", unit="GB/s")
    return [*by_level, links]


def _stranded_steps(problem: Problem) -> list[Step]:
    scale = stranded_scale(problem)
    return [
        Step(tier="stranded", kind="stranded", step="gpus", sense="min", unit="GPUs", scale=scale)
    ] + [
        Step(tier="stranded", kind="slices", step="slices", sense="min", unit="slices")
        for _ in range(problem.has_slices)
    ]


class Ruler:
    """Measures plans of one problem, step by step, and knows what no plan can beat.

    Parameters
    ----------
    entitled
        What each queue is entitled to, where the problem is a part or a variant of another one.

    Attributes
    ----------
    steps
        The steps in order; all answers are in this order.
    """

    def __init__(self, problem: Problem, entitled: metrics.Entitlements | None = None) -> None:
        self.problem = problem
        self.steps = steps(problem)
        self._entitled = entitled
        self._fewest = metrics.FewestGroups(problem)
        self._stranding = StrandingMeter(problem)

    @cached_property
    def entitled(self) -> metrics.Entitlements:
        """What each queue is entitled to."""
        return self._entitled or member_entitlements(self.problem)

    def measure(self, plan: Plan) -> tuple[int, ...]:
        """Value of a plan in every step."""
        return tuple(self.value(step, plan) for step in self.steps)

    def key(self, plan: Plan) -> tuple[int, ...]:
        """The values with the sign turned where less is better: larger keys are better plans."""
        signed = zip(self.steps, self.measure(plan), strict=True)
        return tuple(value if step.sense == "max" else -value for step, value in signed)

    def stranded(self, plan: Plan) -> tuple[Stranded, ...]:
        """Stranded GPUs of every reference shape after the plan."""
        return self._stranding.measure(states_after(self.problem, plan))

    def value(self, step: Step, plan: Plan) -> int:
        """Value of a plan in one step, from the definitions."""
        problem = self.problem
        match step.kind:
            case "must":
                return sum(must_runs(job, plan) for job in problem.pending if job.must)
            case "guarantee":
                used = metrics.usage(problem, plan)
                return metrics.guaranteed(problem, used, _resource(step.detail), step.depth)
            case "kept":
                return kept_milli(problem, plan, step.level)
            case "fairness":
                used = metrics.usage(problem, plan, from_priority=step.level)
                vector = metrics.fairness_vector(problem, used, self.entitled, step.depth)
                return sum(vector[: step.rank])
            case "started" | "surplus" | "cpu-only" | "oldest":
                return sum(
                    admission_milli(problem, job, plan, step.kind)
                    for job in problem.pending
                    if job.priority == step.level
                )
            case "preemption_cost":
                cost = displaced(problem, plan, step.detail)
                if step.detail == "cost" and problem.recut_cost_gpu_s:
                    cost += problem.recut_cost_gpu_s * recut_gpus(problem, plan)
                return cost
            case "recut":
                return recut_gpus(problem, plan)
            case "slices":
                return stranded_slices(problem, states_after(problem, plan))
            case "groups":
                return metrics.excess_groups(problem, plan, step.detail, self._fewest)
            case "bandwidth":
                return metrics.lost_bandwidth_gb_s(problem, plan)
            case "stranded":
                return self._stranding.weighted_milli(states_after(problem, plan))

    def limit(self, step: Step) -> int:
        """A value that no plan can beat, found without any search.

        What every startable job would give if all of them started; 0 for costs.
        """
        problem = self.problem
        if step.sense == "min":
            return 0
        everything = self._all_startable
        if step.kind == "kept":
            return all_kept_milli(problem, step.level)
        if step.kind == "fairness":
            used = self._capped_usage(step.level)
            vector = metrics.fairness_vector(problem, used, self.entitled, step.depth)
            return sum(vector[: step.rank])
        if step.kind == "guarantee":
            used = metrics.usage(problem, everything)
            return metrics.guaranteed(problem, used, _resource(step.detail), step.depth)
        return self.value(step, everything)

    def _capped_usage(self, level: int | None) -> metrics.Usage:
        return metrics.usage(self.problem, self._all_startable, from_priority=level)

    @cached_property
    def _all_startable(self) -> Plan:
        """A stand-in for "everything that could start does": counts only, no places."""
        return _Counts(self.startable)

    @cached_property
    def startable(self) -> Counter[RoleKey]:
        """Replicas of each role that could start if its job were the only one."""
        return startable(self.problem)


class _Counts(Plan):
    """A plan of which only the number of replicas per role is known."""

    def __init__(self, counts: Counter[RoleKey]) -> None:
        super().__init__()
        object.__setattr__(self, "started", counts)


def _resource(detail: str) -> ResourceName:
    return next(r for r in RESOURCES if r == detail)


def must_runs(job: Job, plan: Plan) -> bool:
    """Whether the job starts: a gang its minimum, independent replicas all of them."""
    started = [plan.started.get(RoleKey(job.name, role.name), 0) for role in job.roles]
    return any(started) if job.gang else sum(started) == job.replicas


def admission_milli(problem: Problem, job: Job, plan: Plan, kind: StepKind) -> int:
    """What one job adds to an admission step."""
    counts = {r.name: plan.started.get(RoleKey(job.name, r.name), 0) for r in job.roles}
    return admitted(problem, job, counts, kind)


def admitted(problem: Problem, job: Job, counts: Mapping[str, int], kind: StepKind) -> int:
    """What so many replicas of a job, by role, add to an admission step.

    ``started``: GPU-milli of gangs' minimums and of independent replicas; ``surplus``: of
    replicas above the minimum; ``cpu-only``: CPU-milli of replicas without GPUs; ``oldest``:
    GPU-milli (CPU-milli of CPU-only jobs) times the number of jobs that arrived no earlier.
    """
    total = 0
    for role in job.roles:
        count = counts.get(role.name, 0)
        floor = min(count, role.min_replicas) if job.gang else count
        gpu_milli = problem.gpu_milli(role.shape)
        if kind == "started":
            total += floor * gpu_milli
        elif kind == "surplus":
            total += (count - floor) * gpu_milli
        elif kind == "cpu-only" and not role.shape.wants_gpu:
            total += count * role.shape.cpu_milli
        elif kind == "oldest":
            total += count * age_weight_milli(problem, job, role.name)
    return total


def age_weight_milli(problem: Problem, job: Job, role_name: str) -> int:
    """What one replica of a role adds to the step ``oldest``."""
    shape = problem.role_by_key[RoleKey(job.name, role_name)].shape
    size = shape.cpu_milli if job.cpu_only else problem.gpu_milli(shape)
    return size * (len(problem.pending) - problem.position[job.name])


def startable(problem: Problem, stock: Stock | None = None) -> Counter[RoleKey]:
    """An upper bound of the replicas of each role that could start: each job on its own.

    A gang one of whose roles has no room for its minimum (in one group, where it has to stay in
    one) cannot start, nor can its start group.
    """
    stock = stock or Stock(problem)
    alike: dict[Shape, list[tuple[Job, Role]]] = {}
    for job, role in problem.roles():
        alike.setdefault(role.shape, []).append((job, role))
    rooms: dict[RoleKey, int] = {}
    # Shape by shape: what all nodes take of all shapes at once would not fit into memory.
    for shape, pairs in alike.items():
        by_node = np.minimum(stock.most(shape), UNLIMITED)
        for job, role in pairs:
            if role.held:
                rooms[RoleKey(job.name, role.name)] = role.replicas
                continue
            room = by_node
            rule = job.topology
            if job.gang and rule is not None and rule.required:
                level = "node" if rule.within == "island" else rule.within
                room = np.bincount(stock.group_of(level), weights=by_node)
                rooms[RoleKey(job.name, role.name)] = min(int(room.max()), role.replicas)
            else:
                rooms[RoleKey(job.name, role.name)] = min(int(room.sum()), role.replicas)
    blocked = {
        job.name
        for job, role in problem.roles()
        if job.gang and rooms[RoleKey(job.name, role.name)] < role.min_replicas
    }
    for members in problem.start_groups.values():
        if any(job.name in blocked for job in members):
            blocked |= {job.name for job in members}
    return Counter({key: room for key, room in rooms.items() if key.job not in blocked})
