"""A bound for steps that look at nodes one by one, from a linear program over whole-node patterns.

With ``n[k, p]`` nodes of kind k holding pattern p, ``t_r`` replicas of role r started and ``s_j``
the part of gang j that starts (all continuous)::

    minimise    sum cost_p * n[k, p]  -  sum fewest_j * s_j      (second sum for ``groups`` only)
    subject to  sum_p n[k, p] = nodes of kind k
                sum count_{p,r} * n[k, p] = t_r
                min_r * s_j <= t_r <= replicas_r * s_j           (t_r <= replicas_r if no gang)
                sum_p ceil(count_{p,r} / q) * n[k, p] >= ceil(replicas_r / q) * s_j
                every admission step before keeps its value, as does ``groups`` for ``stranded``

The rows with q = 2, 3, … are Chvátal-Gomory cuts for gangs of fixed size: a gang of 6 on nodes that
take 4 spans two of them, not one and a half.

Columns are priced by dynamic programming (`columns.PatternSpace.best`). At any prices the value of
the restricted program plus ``sum over kinds of nodes * least reduced cost`` is a bound (Lasdon,
"Optimization Theory for Large Systems", 1970), so the generation may stop whenever the time is up.
Everything that patterns leave out only makes the true optimum worse, so the bound holds for the
problem.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortools.linear_solver import pywraplp

from solver.aggregate.columns import Pattern, PatternSpace, Worths
from solver.cluster import GPU_MILLI
from solver.metrics import FewestGroups, counts_for_spread, spread_counts
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.state import initial_states
from solver.tiers import Step, age_weight_milli
from solver.workload import Job, Role

ROUNDS = 2000
TOLERANCE = 1e-6
MOST_PATTERNS = 5_000
"""So many patterns an integer program can still choose from quickly."""

PARTS = (1, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Parts of the reduced cost that matters which are tried until the patterns are few enough."""

SLACK = 1e-4
"""Added to reduced costs when patterns are left out for good: floating point must not lose one.

Relative to the value of the program where that is above 1, and well above `TOLERANCE`.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A step before the one that is bounded, with the value that plans must at least have."""

    step: Step
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternBound:
    """What the linear program says, and the patterns that it used.

    Parameters
    ----------
    value
        Of the linear program, in groups or weighted GPUs.
    bound
        In the integer unit of the step; None where nothing was proved.
    converged
        No further pattern could improve the linear program.
    """

    value: float
    bound: int | None
    converged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Duals:
    """Prices at the present solution of the linear program."""

    worths: Worths
    nodes: tuple[float, ...]
    span_price: float
    stranded_price: float


def applies(problem: Problem, step: Step) -> bool:
    """Whether patterns say something about a step."""
    if len(problem.pending) < len(problem.jobs):
        return False  # patterns are of what starts, and know nothing of what may leave
    if any(role.shape.is_share for _, role in problem.roles()):
        return False  # a share may use up an idle GPU that patterns believe free
    return (step.kind == "groups" and step.detail == "node") or step.kind == "stranded"


class PatternProgram:
    """The linear program for one step, generated column by column.

    Attributes
    ----------
    columns
        The patterns generated so far, by place of their kind.
    fewest
        Fewest nodes that each job could span.
    """

    def __init__(self, problem: Problem, step: Step, kept: Sequence[Kept], incumbent: Plan) -> None:
        self.problem = problem
        self.step = step
        self.kept = tuple(kept)
        self.space = PatternSpace(problem, initial_states(problem))
        self.columns: dict[tuple[int, Pattern], pywraplp.Variable] = {}
        self.fewest: dict[str, int] = {}
        self._priced_at: Duals | None = None
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        self._build()
        self._add_plan(incumbent)

    def solve(self, deadline_s: float) -> PatternBound:
        """Generate columns until none improves or `time.monotonic` reaches `deadline_s`."""
        best = -math.inf
        converged = False
        for _ in range(ROUNDS):
            if self._lp.Solve() != pywraplp.Solver.OPTIMAL:
                break
            value = self._lp.Objective().Value()
            slack = self._price()
            best = max(best, value + slack)
            if slack > -TOLERANCE * max(1.0, abs(value)):
                converged = True
                break
            if time.monotonic() > deadline_s:
                break
        whole = self._rounded(best)
        bound = None if whole is None else self.in_step_units(whole)
        return PatternBound(value=best, bound=bound, converged=converged)

    def complete(self, found: PatternBound, upper: int) -> bool:
        """Add every pattern that a plan better than `upper` could use; whether that was possible.

        In such a plan no pattern's reduced cost exceeds ``upper - 1 - value of the program``, so an
        integer program over all of those decides what the best plan is. Where there are too
        many, the most promising part of them is added.
        """
        if not found.converged:
            return False
        slack = SLACK * max(1.0, abs(found.value))
        needed = self._in_program_units(upper) - 1 - found.value + slack
        duals = self._priced_at
        assert duals is not None
        columns: list[tuple[int, Pattern]] = []
        whole = True
        order = sorted(range(len(self.space.kinds)), key=lambda k: self.space.kinds[k].idle)
        for done, place in enumerate(order):
            quota = (MOST_PATTERNS - len(columns)) // (len(order) - done)
            part, patterns = self._enumerate(duals, place, needed, quota)
            whole = whole and part == 1
            columns += [(place, pattern) for pattern in patterns]
        for place, pattern in columns:
            self._add(place, pattern)
        return whole

    def _enumerate(
        self, duals: Duals, place: int, needed: float, quota: int
    ) -> tuple[float, list[Pattern]]:
        """Patterns of one kind up to `needed`, or up to the part of it that the quota allows."""
        prices = (duals.span_price, duals.stranded_price)
        for part in PARTS:
            below = needed * part + duals.nodes[place]
            kind = self.space.kinds[place]
            patterns = self.space.enumerate(kind, duals.worths, prices, below, quota)
            if patterns is not None:
                return part, patterns
        return 0.0, []

    def _rounded(self, best: float) -> int | None:
        """The least integer that a plan can reach, rounded only in the safe direction."""
        if not math.isfinite(best):
            return None
        return math.ceil(best - TOLERANCE * max(1.0, abs(best)))

    def in_step_units(self, value: int) -> int:
        """From the program's integers (groups, weighted GPUs) to those of the step."""
        return value if self.step.kind == "groups" else value * GPU_MILLI + self._partial

    def _in_program_units(self, value: int) -> int:
        if self.step.kind == "groups":
            return value
        return -(-(value - self._partial) // GPU_MILLI)

    # -- building -----------------------------------------------------------------------------

    def _build(self) -> None:
        lp, space = self._lp, self.space
        infinity = lp.infinity()
        self._objective = lp.Objective()
        self._objective.SetMinimization()
        self._partial = self._stranded_parts() if self.step.kind == "stranded" else 0
        self._kind_rows = [lp.Constraint(len(k.nodes), len(k.nodes)) for k in space.kinds]
        self._role_rows = {key: lp.Constraint(0, 0) for key in space.roles}
        self._cuts: dict[RoleKey, list[tuple[int, pywraplp.Constraint]]] = {}
        self._kept_rows = [(kept, self._kept_row(kept)) for kept in self.kept]
        fewest = FewestGroups(self.problem)
        starts: dict[str, pywraplp.Variable] = {}
        for name, keys in space.jobs.items():
            job = self.problem.job_by_name[name]
            start = lp.NumVar(0, 1, "")
            starts[name] = start
            for key in keys:
                role = self.problem.role_by_key[key]
                started = lp.NumVar(0, role.replicas, "")
                self._role_rows[key].SetCoefficient(started, -1)
                if job.gang:
                    row = lp.Constraint(-infinity, 0)
                    row.SetCoefficient(started, 1)
                    row.SetCoefficient(start, -role.replicas)
                    row = lp.Constraint(0, infinity)
                    row.SetCoefficient(started, 1)
                    row.SetCoefficient(start, -role.min_replicas)
                    if role.min_replicas == role.replicas:
                        self._add_cuts(key, role, start)
                self._count_for_kept(job, role, start, started)
            least = self.fewest[name] = self._fewest(job, keys, fewest)
            if self.step.kind == "groups":
                self._objective.SetCoefficient(start, -least)
            for kept, row in self._kept_rows:
                if row is not None and kept.step.kind == "groups":
                    row.SetCoefficient(start, -least)
        for first, *others in self.problem.start_groups.values():
            for job in others:
                if first.name in starts and job.name in starts:
                    row = lp.Constraint(0, 0)
                    row.SetCoefficient(starts[first.name], 1)
                    row.SetCoefficient(starts[job.name], -1)

    def _add_cuts(self, key: RoleKey, role: Role, start: pywraplp.Variable) -> None:
        for part in range(2, self.space.most_on_a_node(key) + 1):
            row = self._lp.Constraint(0, self._lp.infinity())
            row.SetCoefficient(start, -math.ceil(role.replicas / part))
            self._cuts.setdefault(key, []).append((part, row))

    def _fewest(self, job: Job, keys: Sequence[RoleKey], fewest: FewestGroups) -> int:
        """The fewest nodes of the whole job: no less than that of what starts of it."""
        if not spread_counts(job):
            return 0
        roles = [self.problem.role_by_key[key] for key in keys]
        return max(
            (fewest(r.shape, "node", r.replicas) for r in roles if counts_for_spread(job, r.shape)),
            default=0,
        )

    def _kept_row(self, kept: Kept) -> pywraplp.Constraint | None:
        lp = self._lp
        if kept.step.kind in ("started", "surplus", "oldest"):
            other = self._not_in_patterns(kept.step)
            return lp.Constraint(kept.value - other, lp.infinity())
        if kept.step.kind == "groups" and kept.step.detail == "node":
            return lp.Constraint(-lp.infinity(), kept.value)
        return None

    def _not_in_patterns(self, step: Step) -> int:
        """The most that roles without whole GPUs can add to an admission step."""
        if step.kind != "oldest":
            return 0
        return sum(
            role.replicas * age_weight_milli(self.problem, job, role.name)
            for job, role in self.problem.roles()
            if job.priority == step.level and not role.shape.gpus
        )

    def _count_for_kept(
        self, job: Job, role: Role, start: pywraplp.Variable, started: pywraplp.Variable
    ) -> None:
        milli = self.problem.gpu_milli(role.shape)
        for kept, row in self._kept_rows:
            if row is None or job.priority != kept.step.level:
                continue
            if kept.step.kind == "oldest":
                weight = age_weight_milli(self.problem, job, role.name)
                row.SetCoefficient(started, weight)
            elif kept.step.kind == "started" and job.gang:
                before = row.GetCoefficient(start)
                row.SetCoefficient(start, before + role.min_replicas * milli)
            elif kept.step.kind == "started":
                row.SetCoefficient(started, milli)
            elif kept.step.kind == "surplus" and job.gang:
                before = row.GetCoefficient(start)
                row.SetCoefficient(start, before - role.min_replicas * milli)
                row.SetCoefficient(started, milli)

    def _stranded_parts(self) -> int:
        """Milli-GPU left on GPUs in part use, which no whole-GPU shape can use, weighted."""
        total = 0
        for kind in self.space.kinds:
            weight = sum(w for _, w in kind.reference)
            for node in kind.nodes:
                state = self.space.states[node.name]
                total += weight * (state.free_milli - GPU_MILLI * len(state.idle_gpus))
        return total

    # -- columns ------------------------------------------------------------------------------

    def _add_plan(self, plan: Plan) -> None:
        """The patterns of a plan, so that the restricted program has a solution."""
        for place, pattern in self.patterns_of(plan):
            self._add(place, pattern)

    def patterns_of(self, plan: Plan) -> Iterator[tuple[int, Pattern]]:
        """The pattern that a plan has on each node, with the place of the node's kind."""
        for place, kind in enumerate(self.space.kinds):
            for node in kind.nodes:
                counts = Counter(RoleKey(p.job, p.role) for p in plan.by_node.get(node.name, ()))
                whole = {key: n for key, n in counts.items() if key in self.space.roles}
                yield place, self.space.pattern(kind, whole)

    def _add(self, place: int, pattern: Pattern) -> None:
        if (place, pattern) in self.columns:
            return
        column = self._lp.NumVar(0, self._lp.infinity(), "")
        self.columns[place, pattern] = column
        self._kind_rows[place].SetCoefficient(column, 1)
        for key, count in pattern.counts:
            self._role_rows[key].SetCoefficient(column, count)
            for part, row in self._cuts.get(key, ()):
                row.SetCoefficient(column, -(-count // part))
        cost = pattern.spans if self.step.kind == "groups" else pattern.stranded
        self._objective.SetCoefficient(column, cost)
        for kept, row in self._kept_rows:
            if row is not None and kept.step.kind == "groups":
                row.SetCoefficient(column, pattern.spans)

    def _price(self) -> float:
        """Add patterns that improve the program; returns the sum of nodes times reduced cost."""
        duals = self._priced_at = self._duals()
        best = self.space.best(duals.worths, duals.span_price, duals.stranded_price)
        slack = 0.0
        for place, patterns in enumerate(best):
            reduced = [(cost - duals.nodes[place], pattern) for cost, pattern in patterns]
            slack += len(self.space.kinds[place].nodes) * min(0.0, reduced[0][0])
            for cost, pattern in reduced:
                if cost < -1e-9:
                    self._add(place, pattern)
        return slack

    def _duals(self) -> Duals:
        """All duals, read before a column is added: adding one invalidates them.

        What a column adds to rows that must be reached is worth their duals; a kept limit on spans
        makes spanning dearer by minus its dual.
        """
        groups = self.step.kind == "groups"
        limits = [row for kept, row in self._kept_rows if row and kept.step.kind == "groups"]
        return Duals(
            worths={key: self._worths(key) for key in self.space.roles},
            nodes=tuple(row.dual_value() for row in self._kind_rows),
            span_price=float(groups) - sum(row.dual_value() for row in limits),
            stranded_price=float(not groups),
        )

    def _worths(self, key: RoleKey) -> list[float]:
        """What 0, 1, 2, … replicas of a role in one pattern are worth at the present duals."""
        each = self._role_rows[key].dual_value()
        cuts = [(part, row.dual_value()) for part, row in self._cuts.get(key, ())]
        return [
            each * count + sum(dual * -(-count // part) for part, dual in cuts)
            for count in range(self.space.most_on_a_node(key) + 1)
        ]
