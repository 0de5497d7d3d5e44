"""Tier after tier: each step is improved while the ones before keep their value.

The incumbent lives here, outside the solver: CP-SAT may run out of time without a plan or lose
a hint, and the answer is still never worse than the best plan we came with. A step whose incumbent
already reaches what no plan can beat is proved without any search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

from solver.aggregate.bound import Kept
from solver.aggregate.bound import applies as patterns_apply
from solver.aggregate.search import PatternSearch
from solver.cpsat import pooled
from solver.cpsat.extract import extract_plan
from solver.cpsat.model import LOOKS_AT_NODES, PlacementModel, StepExpressions
from solver.cpsat.variables import BuildTimeoutError
from solver.interrupts import held
from solver.linear import NumbersTooLargeError
from solver.options import SolveOptions
from solver.problem import Problem
from solver.progress import Progress, ProgressListener
from solver.result import Improved
from solver.search import Effort, ModelError, Outcome, SearchLimits, search
from solver.solution import Plan
from solver.tiers import Ruler, Step

QUICK_PART, QUICK_S = 0.15, 0.3
"""Part of a step's time, and seconds, that the quick search may use before the thorough one."""

FIRM_PART = 0.4
"""Part of a step's time for one worker, where what starts is counted in pools."""

BUILD_S_PER_COUNT, BUILD_S_PER_SHARE = 25e-6, 120e-6
"""Seconds that building takes per role and node, and per size of share and GPU.

Measured: 0.3 s for 100 roles on 128 nodes, 29 s for 300 on 1,213 nodes with shares of 6,212 GPUs.
"""

PATTERN_S_PER_COUNT = 5e-6
"""Seconds that it takes to find the kinds of nodes, per role and node."""

PATTERN_PART = 0.3
"""Part of a step's time for whole-node patterns; they often decide the step."""


def improve(
    problem: Problem,
    ruler: Ruler,
    incumbent: Plan,
    options: SolveOptions,
    *,
    started_s: float | None = None,
    listener: ProgressListener | None = None,
) -> Improved:
    """Improve `incumbent` step by step until everything is proved or the time is up.

    Parameters
    ----------
    started_s
        `time.monotonic()` at which the clock of ``options.time_limit_s`` started.
    """
    run = _Run(problem, ruler, incumbent, options, started_s or time.monotonic(), listener)
    return run.improve()


class _Run:
    def __init__(
        self,
        problem: Problem,
        ruler: Ruler,
        incumbent: Plan,
        options: SolveOptions,
        started_s: float,
        listener: ProgressListener | None,
    ) -> None:
        self._problem = problem
        self._ruler = ruler
        self._options = options
        self._started_s = started_s
        self._listener = listener
        self._plan = incumbent
        self._values = list(ruler.measure(incumbent))
        self._limits_of_all = tuple(ruler.limit(step) for step in ruler.steps)
        self._bounds = list(self._limits_of_all)
        self._model: PlacementModel | None = None
        # What runs already is on very definite nodes.
        self._in_question = len(problem.pending) < len(problem.jobs)
        self._named = False  # whether the model knows every node, or only classes of them
        self._kept: dict[int, int] = {}  # place of a step to the value that the model keeps
        self._pools: pooled.PooledModel | None = None
        self._pools_apply = pooled.applies(problem)
        self._pools_kept: dict[int, int] = {}
        self._build_s = 0.0
        self._solve_s = 0.0
        self._deterministic_left = options.deterministic_limit
        self._notes: list[str] = []

    def improve(self) -> Improved:
        try:
            self._improve_steps()
        except KeyboardInterrupt:
            self._notes.append("interrupted: the best plan so far")
        return Improved(
            plan=self._plan,
            bounds=tuple(self._bounds),
            build_s=self._build_s,
            solve_s=self._solve_s,
            notes=tuple(self._notes),
        )

    def _improve_steps(self) -> None:
        for place, step in enumerate(self._ruler.steps):
            if not self._open(place):
                continue
            if self._time_left() <= 0:
                return
            try:
                self._improve_step(place, step)
            except BuildTimeoutError as error:
                size = f" ({error})" if str(error) else ""
                self._notes.append(
                    f"{_name(step)}: the model that knows every node{size} is too large for the "
                    "time limit; from there on values are those of the best plan so far"
                )
                return
            except NumbersTooLargeError:
                self._notes.append(
                    f"{_name(step)}: amounts or weights of the spec are too large to count with in "
                    "64 bits; from there on values are those of the best plan so far"
                )
                return

    def _open(self, place: int) -> bool:
        """Whether the step could still be improved by more than the gap that is good enough."""
        step = self._ruler.steps[place]
        if not step.better(self._bounds[place], self._values[place]):
            return False
        return step.term(self._values[place], self._bounds[place]).gap_ratio > self._options.gap

    def _time_left(self) -> float:
        if self._deterministic_left is not None and self._deterministic_left <= 0:
            return 0.0
        return self._options.time_limit_s - (time.monotonic() - self._started_s)

    def _expect_in_time(self) -> None:
        """Do not begin a model that would only be built and never searched."""
        counts = len(self._problem.role_by_key) * len(self._problem.nodes)
        shapes = {role.shape for role in self._problem.role_by_key.values()}
        sizes = {(s.share_milli, s.share_memory_mib, s.gpu_models) for s in shapes if s.is_share}
        shares = len(sizes) * sum(node.n_gpus for node in self._problem.nodes)
        build_s = counts * BUILD_S_PER_COUNT + shares * BUILD_S_PER_SHARE
        if build_s > self._time_left() / 2:
            raise BuildTimeoutError(f"{counts:,} counts of replicas by node")

    def _check_time(self) -> None:
        if self._time_left() <= 0:
            raise BuildTimeoutError

    def _reach(self, place: int) -> None:
        """Have a model in which all steps before `place` keep their value."""
        began = time.monotonic()
        try:
            named = self._in_question or any(
                s.kind in LOOKS_AT_NODES for s in self._ruler.steps[: place + 1]
            )
            if self._model is None or named != self._named:
                if named:
                    self._expect_in_time()
                self._model = PlacementModel(
                    self._problem, self._ruler, self._check_time, merge=not named
                )
                self._named = named
                self._kept = {}
            self._keep_earlier(self._model, self._kept, place)
        finally:
            self._build_s += time.monotonic() - began

    def _keep_earlier(self, model: StepExpressions, kept: dict[int, int], place: int) -> None:
        """Have all steps before `place` keep their value in a model, and know that of `place`."""
        for earlier in range(place):
            if kept.get(earlier) != self._values[earlier]:
                model.keep(self._ruler.steps[earlier], self._values[earlier])
                kept[earlier] = self._values[earlier]
        model.expression(self._ruler.steps[place])

    def _improve_step(self, place: int, step: Step) -> None:
        """Cheap ways first, each only while the step is open."""
        if self._pools_apply and pooled.decides(step) and self._improve_pooled(place, step):
            return
        patterns = self._patterns(place, step)
        if patterns is not None:
            self._learn(place, step, patterns, patterns.glance)
        for effort in (Effort.QUICK, Effort.THOROUGH):
            if not self._open(place) or self._time_left() <= 0:
                return
            self._reach(place)
            self._search_once(place, step, self._limits(place, step, effort))
            if patterns is not None and effort is Effort.QUICK and self._open(place):
                self._learn(place, step, patterns, partial(patterns.look, self._plan))

    def _improve_pooled(self, place: int, step: Step) -> bool:
        """Search with what starts counted in pools; False where only named nodes can tell more."""
        began = time.monotonic()
        if self._pools is None:
            self._pools = pooled.PooledModel(self._problem, self._ruler)
            self._pools_kept = {}
        self._keep_earlier(self._pools, self._pools_kept, place)
        self._build_s += time.monotonic() - began
        fits = True
        for effort in (Effort.FIRM, Effort.THOROUGH):
            if not fits or not self._open(place) or self._time_left() <= 0:
                break
            fits = self._search_pools(self._pools, place, step, self._limits(place, step, effort))
        return fits

    def _search_pools(
        self, model: pooled.PooledModel, place: int, step: Step, limits: SearchLimits
    ) -> bool:
        """One search; False where a better plan was counted and no nodes were found for it."""
        outcome = self._run(model, step, limits)
        with held():
            self._take_bound(place, step, outcome.bound)
            plan = model.named(outcome.value_of) if outcome.found else None
            if plan is not None:
                self._adopt(place, plan)
        self._check(place, step)
        if outcome.interrupted:
            raise KeyboardInterrupt
        return plan is not None or not outcome.found

    def _patterns(self, place: int, step: Step) -> PatternSearch | None:
        """Whole-node patterns for a step that looks at nodes one by one."""
        if not patterns_apply(self._problem, step):
            return None
        limits = self._limits(place, step, Effort.THOROUGH)
        counts = len(self._problem.role_by_key) * len(self._problem.nodes)
        if counts * PATTERN_S_PER_COUNT > limits.time_s * PATTERN_PART:
            return None
        kept = [Kept(s, v) for s, v in zip(self._ruler.steps[:place], self._values, strict=False)]
        return PatternSearch(
            self._ruler,
            step,
            kept,
            self._plan,
            time_s=limits.time_s * PATTERN_PART,
            seed=limits.seed,
            deterministic=limits.deterministic and limits.deterministic * PATTERN_PART,
        )

    def _learn(
        self, place: int, step: Step, patterns: PatternSearch, search_by: Callable[[], None]
    ) -> None:
        began = time.monotonic()
        try:
            search_by()
        finally:
            self._solve_s += time.monotonic() - began
            with held():
                self._take_bound(place, step, patterns.bound)
                self._adopt(place, patterns.plan)

    def _search_once(self, place: int, step: Step, limits: SearchLimits) -> None:
        assert self._model is not None
        model = self._model
        outcome = self._run(model, step, limits)
        with held():
            self._take_bound(place, step, outcome.bound)
            if outcome.found:
                self._adopt(place, extract_plan(model.variables, model.devices, outcome.value_of))
        self._check(place, step)
        if outcome.interrupted:
            raise KeyboardInterrupt

    def _run(self, model: StepExpressions, step: Step, limits: SearchLimits) -> Outcome:
        model.variables.hint(self._plan)
        began = time.monotonic()
        outcome = search(
            model.variables.model,
            model.expression(step),
            step.sense,
            limits,
            self._tell(step) if self._listener else None,
        )
        self._solve_s += time.monotonic() - began
        if self._deterministic_left is not None:
            self._deterministic_left -= outcome.deterministic_time
        return outcome

    def _check(self, place: int, step: Step) -> None:
        if step.better(self._values[place], self._bounds[place]):
            raise ModelError(
                f"step {_name(step)}: a plan is worth {self._values[place]}, "
                f"beyond the proved bound {self._bounds[place]}"
            )

    def _take_bound(self, place: int, step: Step, bound: int | None) -> None:
        if bound is not None and step.better(self._bounds[place], bound):
            self._bounds[place] = bound

    def _adopt(self, place: int, plan: Plan) -> None:
        """Take a plan if it is better in the lexicographic order; it is found in step `place`.

        One that patterns propose may be better in a step that ran out of time, and pay for it in a
        later one. What was proved after that, and the model, took the old value for granted.
        """
        if self._ruler.key(plan) <= self._ruler.key(self._plan):
            return
        before, self._plan = self._values, plan
        self._values = list(self._ruler.measure(plan))
        for earlier, step in enumerate(self._ruler.steps[:place]):
            if step.better(before[earlier], self._values[earlier]):
                self._bounds[earlier + 1 :] = self._limits_of_all[earlier + 1 :]
                self._model = None
                self._pools = None
                return

    def _limits(self, place: int, step: Step, effort: Effort) -> SearchLimits:
        """A step may use half of what is left as long as others wait for their turn."""
        others = any(self._open(later) for later in range(place + 1, len(self._values)))
        share = 0.5 if others else 1.0
        time_s = self._time_left() * share
        deterministic = self._deterministic_left
        parts = {Effort.QUICK: QUICK_PART, Effort.FIRM: FIRM_PART}
        if deterministic is not None:  # the clock must not decide how far a search gets
            deterministic *= share * parts.get(effort, 1.0)
        elif effort is Effort.QUICK:
            time_s = min(time_s * QUICK_PART, QUICK_S)
        elif effort is Effort.FIRM:
            time_s *= FIRM_PART
        return SearchLimits(
            effort=effort,
            time_s=time_s,
            deterministic=deterministic,
            workers=self._options.workers,
            seed=self._options.seed,
            gap=self._options.gap,
            gap_abs=self._options.gap * step.scale,  # what is less than one unit counts as one
        )

    def _tell(self, step: Step) -> Callable[[float, float], None]:
        def tell(value: float, bound: float) -> None:
            assert self._listener is not None
            if not math.isfinite(value) or not math.isfinite(bound):
                return  # nothing found or nothing proved yet
            shown, proved = value / step.scale + 0.0, bound / step.scale + 0.0  # no minus zero
            elapsed_s = time.monotonic() - self._started_s
            self._listener(
                Progress(
                    elapsed_s=elapsed_s,
                    tier=_name(step),
                    value=shown,
                    bound=proved,
                    message=f"{_name(step)}: {shown:g} {step.unit}, bound {proved:g}",
                )
            )

        return tell


def _name(step: Step) -> str:
    level = "" if step.level is None else f"[{step.level}]"
    return f"{step.tier}{level}/{step.step}"
