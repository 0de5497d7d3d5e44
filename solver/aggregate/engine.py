"""The aggregated path: a plan from packing guided by a linear program, bounds from relaxations.

Takes seconds where the model of named nodes cannot even be built. What it proves holds for the
problem itself, not for the aggregate: every program here is a relaxation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from solver.aggregate.blocks import BlockProgram
from solver.aggregate.guided import Guide
from solver.aggregate.patterns import DevicePatterns
from solver.aggregate.relaxation import ADMISSION, Relaxation
from solver.aggregate.wish import Wish, wish_of
from solver.interrupts import held
from solver.options import SolveOptions
from solver.problem import Problem
from solver.progress import Progress, ProgressListener
from solver.result import Improved
from solver.solution import Plan
from solver.stock import Stock
from solver.tiers import Ruler, Step, StepKind
from solver.verify import verify

ROUNDS_PER_SECOND = 20
"""Attempts that count as a second of deterministic time."""

COSTS: tuple[StepKind, ...] = ("groups", "bandwidth", "stranded")
"""Kinds of steps for which the same jobs are seated in other places."""

FEW_COUNTS = 20_000
"""Counts (of replicas by role and node) with which the model of named nodes is done in seconds."""

PLAN_PART, CONSOLIDATED_PART, ADMISSION_PART = 0.5, 0.8, 0.9
"""Parts of the time at which the search for what starts is over, and that for few groups; the last
is that of the former where nothing but admission counts.

The rest is for bounds.
"""


def improve(
    problem: Problem,
    ruler: Ruler,
    incumbent: Plan,
    options: SolveOptions,
    *,
    start: Plan | None = None,
    started_s: float | None = None,
    listener: ProgressListener | None = None,
    patterns: DevicePatterns | None = None,
) -> Improved:
    """Improve `incumbent`, and bound every step.

    Parameters
    ----------
    start
        What is left of the last plan: then that is improved, and nothing is packed from scratch.
    started_s
        `time.monotonic()` at which the clock of ``options.time_limit_s`` started.
    patterns
        Device patterns of the problem, where somebody has made some already.
    """
    began = started_s or time.monotonic()
    run = _Run(problem, ruler, incumbent, options, began, listener, start or Plan(), patterns)
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
        start: Plan,
        patterns: DevicePatterns | None,
    ) -> None:
        self._problem = problem
        self._start = start
        self._ruler = ruler
        self._options = options
        self._started_s = started_s
        self._deadline_s = started_s + options.time_limit_s
        self._listener = listener
        self._plan = incumbent
        self._key = ruler.key(incumbent)
        self._bounds = [ruler.limit(step) for step in ruler.steps]
        self._notes: list[str] = []
        self._patterns = patterns

    def improve(self) -> Improved:
        began = time.monotonic()
        stock = Stock(self._problem)
        self._patterns = self._patterns or DevicePatterns.of(self._ruler, stock, self._options.seed)
        build_s = time.monotonic() - began
        try:
            wish = self._find_plan(stock)
            self._bound_costs(self._bound_admission(stock, wish), stock)
        except KeyboardInterrupt:
            self._notes.append("interrupted: the best plan so far")
        else:
            self._notes += self._what_is_open()
        return Improved(
            plan=self._plan,
            bounds=tuple(self._bounds),
            build_s=build_s,
            solve_s=time.monotonic() - began - build_s,
            notes=tuple(self._notes),
        )

    def _what_is_open(self) -> list[str]:
        """Where the other model would say more, that is said."""
        counts = len(self._problem.role_by_key) * len(self._problem.nodes)
        values = self._ruler.measure(self._plan)
        triples = zip(self._ruler.steps, self._bounds, values, strict=True)
        names = [_name(step) for step, bound, value in triples if step.better(bound, value)]
        if not names or counts > FEW_COUNTS:
            return []
        return [
            f"not proved: {', '.join(names)}; the aggregated model is for large clusters, and "
            "on one of this size --model direct proves more"
        ]

    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    def _rounds(self) -> int | None:
        """Attempts to improve, where the clock must not decide how many."""
        limit = self._options.deterministic_limit
        return None if limit is None else math.ceil(limit * ROUNDS_PER_SECOND)

    def _find_plan(self, stock: Stock) -> Wish | None:
        """Look for a better plan; what the linear program would have started."""
        if not self._problem.jobs:
            return None
        costs = any(step.kind in COSTS for step in self._ruler.steps)
        part = PLAN_PART if costs else ADMISSION_PART
        until = self._started_s + self._options.time_limit_s * part
        guide = Guide(self._ruler, until, self._options.seed)
        if self._start.placements:
            guide.resume(self._start)
        else:
            if self._patterns is not None:
                guide.by_patterns(self._patterns)
            if guide.best is None:
                guide.by_size()
        self._adopt(guide)
        program = Relaxation(self._ruler, stock)
        wish = wish_of(self._ruler, program, self._left_s)
        if wish is not None:
            if not self._start.placements:
                guide.by_program(wish)
                self._adopt(guide)
            guide.anew(wish, self._rounds())
            self._adopt(guide)
        if costs:
            until = self._started_s + self._options.time_limit_s * CONSOLIDATED_PART
            guide.consolidate(until, self._rounds())
            self._adopt(guide)
        return wish

    def _adopt(self, guide: Guide) -> None:
        """Take the plan of a guide if it is better, and in order."""
        assert guide.best is not None
        plan = guide.best.plan()
        key = self._ruler.key(plan)
        if key > self._key and not verify(self._problem, plan):
            with held():
                self._plan, self._key = plan, key
        self._tell("plan")

    def _bound_costs(self, program: Relaxation | None, stock: Stock) -> None:
        """The bounds of topology and stranded GPUs, given all admission steps of the plan."""
        if program is None:
            return
        blocks = BlockProgram(program, stock)
        values = self._ruler.measure(self._plan)
        for place, step in enumerate(self._ruler.steps):
            if self._left_s() <= 0:
                return
            if not step.better(self._bounds[place], values[place]) or step.sense == "max":
                continue
            bound = blocks.bound(step, self._left_s())
            if bound is not None:
                with held():
                    self._bounds[place] = max(self._bounds[place], bound)
                self._tell(_name(step))

    def _bound_admission(self, stock: Stock, wish: Wish | None) -> Relaxation | None:
        """The bounds of the admission steps, each given what the plan has in those before.

        As long as the plan has what the program wished, the wish is the bound.
        """
        program = Relaxation(self._ruler, stock)
        values = self._ruler.measure(self._plan)
        wished = iter(wish.worth if wish is not None else ())
        granted = wish is not None
        for place in range(len(values)):  # they are known by now, also where time is up
            self._bound_by_patterns(place, values)
        for place, step in enumerate(self._ruler.steps):
            if step.kind not in ADMISSION:
                continue
            if self._left_s() <= 0:
                return None
            bound = next(wished, None) if granted else None
            if bound is None and step.better(self._bounds[place], values[place]):
                found = program.bound(step, self._left_s())
                if found is None:
                    return None
                bound = found.bound
            if bound is not None:
                with held():
                    self._bounds[place] = min(self._bounds[place], bound)
                self._tell(_name(step))
                granted = granted and bound == values[place]
            program.keep(step, values[place])
        return program

    def _bound_by_patterns(self, place: int, values: Sequence[int]) -> None:
        """The bound of a step by device patterns, where they apply and it is open."""
        step = self._ruler.steps[place]
        if self._patterns is None or not step.better(self._bounds[place], values[place]):
            return
        pairs = zip(self._ruler.steps, values, strict=True)
        same_level = {s.kind: value for s, value in pairs if s.level == step.level}
        bound = self._patterns.bound(step, same_level, self._left_s())
        if bound is not None:
            with held():
                self._bounds[place] = min(self._bounds[place], bound)
            self._tell(_name(step))

    def _tell(self, what: str) -> None:
        if self._listener is None:
            return
        for step, key, bound in zip(self._ruler.steps, self._key, self._bounds, strict=True):
            value = key if step.sense == "max" else -key
            if value != bound:
                shown, proved = value / step.scale + 0.0, bound / step.scale + 0.0
                message = f"{_name(step)} {shown:g} {step.unit}, bound {proved:g}"
                break
        else:
            shown = proved = 0.0
            message = "all steps proved"
        elapsed_s = time.monotonic() - self._started_s
        self._listener(
            Progress(elapsed_s=elapsed_s, tier=what, value=shown, bound=proved, message=message)
        )


def _name(step: Step) -> str:
    level = "" if step.level is None else f"[{step.level}]"
    return f"{step.tier}{level}/{step.step}"
