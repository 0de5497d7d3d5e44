"""A plan from whole-node patterns: the integer program over the patterns that were generated.

The patterns that the linear program found are good building blocks; CP-SAT chooses how many nodes
of a kind hold which, with whole gangs. What comes out is a proposal: patterns know only whole GPUs,
so the plan has to be verified before anybody believes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ortools.sat.python import cp_model

from solver.aggregate.bound import Kept, PatternProgram
from solver.aggregate.columns import NodeKind, Pattern
from solver.cluster import Node
from solver.fit import fit, pick_gpus, share_milli_on
from solver.linear import Expr, weighted
from solver.problem import RoleKey
from solver.search import Effort, NoSolutionError, SearchLimits, search
from solver.solution import Placement, Plan
from solver.tiers import age_weight_milli
from solver.workload import Job, Role

WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """What the integer program found.

    Parameters
    ----------
    plan
        A plan to be verified; None where there is none (in time, or for links, CPU or memory).
    bound
        Of the integer program, in the unit of the step: it holds for plans made of these patterns.
    exhausted
        These patterns make up no plan at all.
    interrupted
        Somebody pressed Ctrl-C.
    """

    plan: Plan | None
    bound: int | None
    exhausted: bool
    interrupted: bool


def round_patterns(
    program: PatternProgram,
    incumbent: Plan,
    *,
    decides: bool,
    time_s: float,
    seed: int,
    deterministic: float | None = None,
) -> Rounded:
    """The best plan that the generated patterns make up.

    Replicas that take no whole GPU stay where the incumbent has them.

    Parameters
    ----------
    decides
        The bound is to hold for every plan of these patterns, whatever other replicas it starts:
        then all of them count for the steps before, not only those of the incumbent.
    time_s, deterministic
        Limits of the search; with the second one a single worker makes it repeatable.
    """
    choice = _Choice(program, incumbent, decides=decides)
    limits = SearchLimits(
        effort=Effort.THOROUGH,
        time_s=time_s,
        deterministic=deterministic,
        workers=WORKERS if deterministic is None else 1,
        seed=seed,
        gap=0.0,
    )
    try:
        outcome = search(choice.model, choice.objective, "min", limits)
    except NoSolutionError:
        return Rounded(plan=None, bound=None, exhausted=True, interrupted=False)
    plan = None
    if outcome.found:
        chosen = [(kind, pattern, outcome.value_of(use)) for kind, pattern, use in choice.uses]
        plan = _expand(program, chosen, incumbent)
    bound = None if outcome.bound is None else program.in_step_units(outcome.bound)
    return Rounded(plan=plan, bound=bound, exhausted=False, interrupted=outcome.interrupted)


class _Choice:
    """How many nodes of each kind hold each pattern, as a CP-SAT model."""

    def __init__(self, program: PatternProgram, incumbent: Plan, *, decides: bool) -> None:
        self._program = program
        self._decides = decides
        self._problem = program.problem
        self.model = cp_model.CpModel()
        hinted = Counter(program.patterns_of(incumbent))
        self.uses: list[tuple[NodeKind, Pattern, cp_model.IntVar]] = []
        self._starts = {
            job.name: self.model.new_bool_var(f"start[{job.name}]") for job in self._problem.jobs
        }
        per_kind: dict[int, list[cp_model.IntVar]] = {}
        for place, pattern in program.columns:
            kind = program.space.kinds[place]
            use = self.model.new_int_var(0, len(kind.nodes), f"use[{place}]")
            self.model.add_hint(use, hinted[place, pattern])
            self.uses.append((kind, pattern, use))
            per_kind.setdefault(place, []).append(use)
        for place, uses in per_kind.items():
            nodes = program.space.kinds[place].nodes
            self.model.add(cp_model.LinearExpr.sum(uses) == len(nodes))
        self._started = {
            RoleKey(job.name, role.name): self._count(job, role, incumbent)
            for job, role in self._problem.roles()
        }
        for name, start in self._starts.items():
            self.model.add_hint(start, name in incumbent.by_job)
        for first, *others in self._problem.start_groups.values():
            for job in others:
                self.model.add(self._starts[job.name] == self._starts[first.name])
        for kept in program.kept:
            self._keep(kept)
        self.objective = self._spans() if program.step.kind == "groups" else self._stranded()

    def _stranded(self) -> Expr:
        return weighted((use, pattern.stranded) for _, pattern, use in self.uses)

    def _spans(self) -> Expr:
        spans = [(use, pattern.spans) for _, pattern, use in self.uses]
        fewest = self._program.fewest
        least = [(start, -fewest.get(name, 0)) for name, start in self._starts.items()]
        return weighted([*spans, *least])

    def _count(self, job: Job, role: Role, incumbent: Plan) -> Expr:
        key = RoleKey(job.name, role.name)
        if key not in self._program.space.roles:
            return role.replicas if self._decides else incumbent.started.get(key, 0)
        parts: list[tuple[Expr, int]] = [
            (use, count)
            for _, pattern, use in self.uses
            for owner, count in pattern.counts
            if owner == key
        ]
        if job.gang:
            start = self._starts[job.name]
            self._require(weighted([*parts, (start, -role.min_replicas)]), 0, None)
            self._require(weighted([*parts, (start, -role.replicas)]), None, 0)
        else:
            self._require(weighted(parts), None, role.replicas)
        return weighted(parts)

    def _require(self, expr: Expr, low: int | None, high: int | None) -> None:
        bottom = cp_model.INT_MIN if low is None else low
        top = cp_model.INT_MAX if high is None else high
        self.model.add_linear_constraint(expr, bottom, top)

    def _keep(self, kept: Kept) -> None:
        step = kept.step
        if step.kind == "groups" and step.detail == "node":
            self._require(self._spans(), None, kept.value)
        elif step.kind in ("started", "surplus", "oldest"):
            admitted = weighted(
                term
                for job, role in self._problem.roles()
                if job.priority == step.level
                for term in self._admitted(kept, job, role)
            )
            if not isinstance(admitted, int):
                self._require(admitted, kept.value, None)

    def _admitted(self, kept: Kept, job: Job, role: Role) -> list[tuple[Expr, int]]:
        count = self._started[RoleKey(job.name, role.name)]
        if kept.step.kind == "oldest":
            return [(count, age_weight_milli(self._problem, job, role.name))]
        milli = self._problem.gpu_milli(role.shape)
        if not job.gang:
            return [(count, milli)] if kept.step.kind == "started" else []
        floor = (self._starts[job.name], milli * role.min_replicas)
        if kept.step.kind == "started":
            return [floor]
        return [(count, milli), (floor[0], -floor[1])]


def _expand(
    program: PatternProgram, chosen: list[tuple[NodeKind, Pattern, int]], incumbent: Plan
) -> Plan | None:
    """Named nodes and GPUs for the patterns; None where links, CPU or memory say no."""
    others = [p for p in incumbent.placements if RoleKey(p.job, p.role) not in program.space.roles]
    numbers: Counter[RoleKey] = Counter()
    placements = list(others)
    free = {id(kind): iter(kind.nodes) for kind, _, _ in chosen}
    for kind, pattern, count in chosen:
        for _ in range(count):
            seated = _seat(program, next(free[id(kind)]), pattern)
            if seated is None:
                return None
            for key, node, gpus, milli in seated:
                number = numbers[key]
                numbers[key] += 1
                placements.append(Placement(key.job, key.role, number, node.name, gpus, milli))
    return Plan.of(placements)


def _seat(
    program: PatternProgram, node: Node, pattern: Pattern
) -> list[tuple[RoleKey, Node, tuple[int, ...], int]] | None:
    """Where the replicas of a pattern sit on a node; None where one has no room."""
    state = program.space.states[node.name]
    seats = []
    for key, replicas in pattern.counts:
        shape = program.problem.role_by_key[key].shape
        for _ in range(replicas):
            gpus = pick_gpus(node, shape, state)
            if not gpus or not fit(node, shape, state):
                return None
            milli = share_milli_on(node, shape, gpus[0])
            state = state.place(shape, gpus, milli)
            seats.append((key, node, gpus, milli))
    return seats
