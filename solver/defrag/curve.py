"""The fewest stranded GPUs for a price, and the curve of all prices worth paying.

Two values matter, so each point takes two searches: the fewest stranded GPUs within the budget,
then the least cost at which they are reached. The curve is walked from its cheap end: the least
cost at which anything is better than before, then the best that this money buys.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from solver.cpsat.extract import extract_plan
from solver.cpsat.model import PlacementModel
from solver.defrag.question import lifted
from solver.interrupts import held
from solver.options import SolveOptions
from solver.preemption.cost import plan_cost_gpu_s
from solver.preemption.lift import Lift
from solver.problem import Problem
from solver.progress import Progress, ProgressListener
from solver.search import Effort, SearchLimits, search
from solver.solution import Plan
from solver.tiers import Ruler, Step

MOST_POINTS = 12
"""Points of the curve at most; beyond them only its end is added."""

MOST_GPU_S = 2**62
"""The search counts in 64 bits; no moves cost as much as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """A plan, and what was proved of it."""

    plan: Plan
    cost_gpu_s: int
    cost_bound_gpu_s: int
    stranded_milli: int
    stranded_bound_milli: int

    @property
    def proved(self) -> bool:
        """Whether nothing better exists."""
        proved = self.cost_gpu_s == self.cost_bound_gpu_s
        return proved and self.stranded_milli == self.stranded_bound_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What can be bought, the cheapest first.

    Parameters
    ----------
    complete
        No point is missing.
    proved
        Nothing better than the last point exists.
    interrupted
        Ctrl-C ended the search: these are the best so far.
    """

    points: tuple[Bought, ...]
    complete: bool
    proved: bool
    interrupted: bool


def fewest_stranded(
    question: Problem,
    budget_gpu_s: int | None,
    options: SolveOptions,
    ends_at_s: float,
    listener: ProgressListener | None = None,
) -> Offers:
    """The fewest stranded GPUs within the budget, reached at the least cost."""
    market = _Market(question, options, listener)
    best = market.best(budget_gpu_s, ends_at_s)
    return Offers(points=(best,), complete=True, proved=best.proved, interrupted=market.interrupted)


def stranding_curve(
    question: Problem,
    options: SolveOptions,
    ends_at_s: float,
    listener: ProgressListener | None = None,
) -> Offers:
    """Points from "nothing moves" to the fewest stranded GPUs."""
    market = _Market(question, options, listener)
    now = time.monotonic()
    last = market.best(None, now + (ends_at_s - now) / 2)
    points = [market.nothing()]
    complete = True
    while points[-1].stranded_milli > last.stranded_milli:
        left_s = ends_at_s - time.monotonic()
        if len(points) > MOST_POINTS or left_s <= 0 or market.interrupted:
            complete = False
            break
        more = market.next_above(points[-1], last, time.monotonic() + left_s / 3)
        if more is None or more.cost_gpu_s >= last.cost_gpu_s:
            break
        points.append(more)
    if points[-1].stranded_milli > last.stranded_milli:
        points.append(last)
    return Offers(
        points=tuple(points),
        complete=complete and last.proved and all(point.proved for point in points),
        proved=last.proved,
        interrupted=market.interrupted,
    )


@dataclass(slots=True)
class _Offer:
    """The best plan for a step so far, and what was proved of it."""

    plan: Plan
    bound: int


class _Market:
    """Searches for points; once Ctrl-C was pressed it answers with what it has.

    Attributes
    ----------
    interrupted
        Whether it was.
    """

    def __init__(
        self, question: Problem, options: SolveOptions, listener: ProgressListener | None
    ) -> None:
        self._options = options
        self._listener = listener
        self._began = time.monotonic()
        self.interrupted = False
        self._lift: Lift = lifted(question)
        self._question = question
        self._ruler = Ruler(self._lift.question)
        self._stranded = next(s for s in self._ruler.steps if s.kind == "stranded")
        self._cost = next(s for s in self._ruler.steps if s.detail == "cost")

    def nothing(self) -> Bought:
        """What there is for free: as it is now, proved."""
        plan = Plan()
        stranded = self._value(self._stranded, plan)
        return Bought(
            plan=plan,
            cost_gpu_s=0,
            cost_bound_gpu_s=0,
            stranded_milli=stranded,
            stranded_bound_milli=stranded,
        )

    def best(self, budget_gpu_s: int | None, ends_at_s: float) -> Bought:
        now = time.monotonic()
        kept = {} if budget_gpu_s is None else {self._cost: min(budget_gpu_s, MOST_GPU_S)}
        plan, stranded_bound = self._least(
            self._stranded, kept, Plan(), now + (ends_at_s - now) * 2 / 3
        )
        stranded = self._value(self._stranded, plan)
        plan, cost_bound = self._least(self._cost, {self._stranded: stranded}, plan, ends_at_s)
        return self._bought(plan, cost_bound, stranded_bound)

    def next_above(self, last: Bought, end: Bought, ends_at_s: float) -> Bought | None:
        """The next point beyond `last`; `end` is a plan that is better."""
        now = time.monotonic()
        at_most = {self._stranded: last.stranded_milli - 1}
        plan, cost_bound = self._least(self._cost, at_most, end.plan, now + (ends_at_s - now) / 2)
        cost = self._value(self._cost, plan)
        if cost >= end.cost_gpu_s:
            return None
        plan, stranded_bound = self._least(self._stranded, {self._cost: cost}, plan, ends_at_s)
        return self._bought(plan, cost_bound, stranded_bound)

    def _bought(self, plan: Plan, cost_bound: int, stranded_bound: int) -> Bought:
        cost, stranded = self._value(self._cost, plan), self._value(self._stranded, plan)
        return Bought(
            plan=plan,
            cost_gpu_s=cost,
            cost_bound_gpu_s=min(cost, cost_bound),
            stranded_milli=stranded,
            stranded_bound_milli=min(stranded, stranded_bound),
        )

    def _least(
        self, step: Step, kept: dict[Step, int], plan: Plan, ends_at_s: float
    ) -> tuple[Plan, int]:
        """The plan with the least value of a step, others kept; and its bound.

        `plan` is one that keeps them. Quickly first; thoroughly where that proves too little.
        """
        offer = _Offer(plan, 0)
        if not self.interrupted:
            try:
                self._look(step, kept, offer, ends_at_s)
            except KeyboardInterrupt:
                self.interrupted = True
        return offer.plan, offer.bound

    def _look(self, step: Step, kept: dict[Step, int], offer: _Offer, ends_at_s: float) -> None:
        """Better the offer as long as there is time."""
        model = PlacementModel(self._lift.question, self._ruler, lambda: None)
        for other, value in kept.items():
            model.keep(other, value)
        for effort in Effort:
            left_s = ends_at_s - time.monotonic()
            if self._value(step, offer.plan) <= offer.bound or left_s <= 0:
                break
            model.expression(step)
            model.variables.hint(self._lift.up(offer.plan))
            limits = SearchLimits(
                effort=effort,
                time_s=left_s / 3 if effort is Effort.QUICK else left_s,
                deterministic=self._options.deterministic_limit,
                workers=self._options.workers,
                seed=self._options.seed,
                gap=self._options.gap,
            )
            expression = model.expression(step)
            tell = self._tell(step) if self._listener else None
            outcome = search(model.variables.model, expression, step.sense, limits, tell)
            with held():
                if outcome.bound is not None:
                    offer.bound = max(offer.bound, outcome.bound)
                if outcome.found:
                    extracted = extract_plan(model.variables, model.devices, outcome.value_of)
                    found = self._lift.down(extracted)
                    if self._value(step, found) < self._value(step, offer.plan):
                        offer.plan = found
            if outcome.interrupted:
                raise KeyboardInterrupt

    def _tell(self, step: Step) -> Callable[[float, float], None]:
        name = "cost" if step is self._cost else "stranded"

        def tell(value: float, bound: float) -> None:
            assert self._listener is not None
            if not math.isfinite(value) or not math.isfinite(bound):
                return  # nothing found or nothing proved yet
            shown, proved = value / step.scale, bound / step.scale
            self._listener(
                Progress(
                    elapsed_s=time.monotonic() - self._began,
                    tier=name,
                    value=shown,
                    bound=proved,
                    message=f"{name}: {shown:g} {step.unit}, bound {proved:g}",
                )
            )

        return tell

    def _value(self, step: Step, plan: Plan) -> int:
        if step is self._cost:
            return plan_cost_gpu_s(self._question, plan)
        return self._ruler.value(step, self._lift.up(plan))
