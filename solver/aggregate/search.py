"""Bound and improve one step by whole-node patterns: relax, round, complete, round again.

First the linear program gives a bound and its patterns a plan. Then all patterns that a still
better plan could use are added: if they are few enough, the integer program over them decides the
step for good; if not, the most promising ones often give a better plan, and then fewer are needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from solver.aggregate.bound import Kept, PatternBound, PatternProgram
from solver.aggregate.rounding import Rounded, round_patterns
from solver.solution import Plan
from solver.tiers import Ruler, Step
from solver.verify import verify

ROUNDS = 4

GLANCE_S, GLANCE_DETERMINISTIC = 4.0, 2.0
"""What a rounding may use that cannot decide the step: seconds, or CP-SAT's deterministic time."""


class PatternSearch:
    """The search for one step; `plan` and `bound` are what it has reached.

    Parameters
    ----------
    kept
        The steps before with the values that must not get worse.
    time_s, deterministic
        Limits for everything together.
    """

    def __init__(
        self,
        ruler: Ruler,
        step: Step,
        kept: Sequence[Kept],
        plan: Plan,
        *,
        time_s: float,
        seed: int,
        deterministic: float | None,
    ) -> None:
        self._ruler = ruler
        self._step = step
        self._deadline_s = time.monotonic() + time_s
        self._seed = seed
        self._deterministic = deterministic
        self._program = PatternProgram(ruler.problem, step, kept, plan)
        self.plan = plan
        self.bound: int | None = None
        self._found = PatternBound(value=-math.inf, bound=None, converged=False)

    def glance(self) -> None:
        """The bound of the linear program, and the plan that its patterns make up."""
        self._found = self._program.solve(self._deadline_s)
        self._prove(self._found.bound)
        if not self.decided():
            self._round(decides=False)

    def look(self, plan: Plan) -> None:
        """Add the patterns that a plan better than `plan` could use, as long as that helps."""
        self._take(plan)
        for _ in range(ROUNDS):
            if self.decided() or time.monotonic() > self._deadline_s:
                return
            upper = self._value()
            complete = self._program.complete(self._found, upper)
            rounded = self._round(decides=complete)
            if complete:  # nothing but these patterns could beat `upper`
                if rounded.exhausted:
                    self._prove(upper)
                elif rounded.bound is not None:
                    self._prove(min(upper, rounded.bound))
            if complete or self._value() == upper:
                return

    def decided(self) -> bool:
        """Whether the plan is proved to be the best for the step."""
        return self.bound is not None and not self._step.better(self.bound, self._value())

    def _value(self) -> int:
        return self._ruler.value(self._step, self.plan)

    def _prove(self, bound: int | None) -> None:
        if bound is not None and (self.bound is None or self._step.better(self.bound, bound)):
            self.bound = bound

    def _round(self, *, decides: bool) -> Rounded:
        time_s, deterministic = self._deadline_s - time.monotonic(), self._deterministic
        if not decides and deterministic is None:
            time_s = min(time_s, GLANCE_S)
        elif not decides and deterministic is not None:
            deterministic = min(deterministic, GLANCE_DETERMINISTIC)
        rounded = round_patterns(
            self._program,
            self.plan,
            decides=decides,
            time_s=time_s,
            seed=self._seed,
            deterministic=deterministic,
        )
        plan = rounded.plan
        if plan is not None and not verify(self._ruler.problem, plan):
            self._take(plan)
        if rounded.interrupted:
            raise KeyboardInterrupt
        return rounded

    def _take(self, plan: Plan) -> None:
        if self._ruler.key(plan) > self._ruler.key(self.plan):
            self.plan = plan
