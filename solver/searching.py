"""Which search answers a question: by named nodes, by classes, in pools, job by job."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from solver import greedy
from solver.interrupts import held
from solver.options import ModelChoice, SolveOptions
from solver.preemption.candidates import candidates
from solver.preemption.lift import Lift, lift
from solver.preemption.one_by_one import make_way
from solver.problem import Problem
from solver.progress import Progress, ProgressListener
from solver.result import Improved
from solver.solution import Plan
from solver.stock import Stock
from solver.tiers import Ruler
from solver.verify import verify
from solver.workload import RunningJob

DIRECT_COUNTS = 300_000
"""Counts (of replicas by role and node) up to which the model of named nodes is searched."""

GIVE_WAY_PART = 0.25
"""Part of the time limit that looking for victims may take after the packed model is done."""

LITTLE_PART = 0.1
"""The same before a search that needs no good plan to begin with."""

POOLED_COUNTS = 50_000
"""Running replicas, and roles by kind of node, up to which what gives way is searched in pools."""

GREEDY_SEATS = 2_000_000
"""Replicas times nodes up to which all greedy baselines together take a few seconds."""

PATTERN_SEATS = 20_000_000
"""Replicas times nodes up to which a packing by device patterns is finished, whatever the time."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: its answer, and the ruler (and the question) that it is an answer to."""

    improved: Improved
    ruler: Ruler
    lift: Lift | None = None

    @property
    def plan(self) -> Plan:
        """The answer as starts, evictions and moves."""
        plan = self.improved.plan
        return plan if self.lift is None else self.lift.down(plan)


def search_plan(
    problem: Problem,
    ruler: Ruler,
    options: SolveOptions,
    began: float,
    progress: ProgressListener | None,
    start: Plan,
) -> Found:
    """The best plan found in the time, no worse than any greedy baseline's, with its bounds.

    Parameters
    ----------
    began
        `time.monotonic()` at which the time began.
    start
        A valid plan to begin with; an empty one will do.
    """
    if chosen_model(problem, options) is ModelChoice.DIRECT:
        return _by_names(problem, ruler, options, began, progress, start)
    improved = _by_classes(problem, ruler, options, began, progress, _undisturbed(start))
    with held(drop=True):
        running = candidates(problem, improved.plan)
    if not running:
        return Found(improved, ruler)
    pooled = _in_pools(problem, ruler, improved, running, options, began, progress)
    return pooled or Found(_with_victims(problem, ruler, improved, options, began), ruler)


def _by_names(
    problem: Problem,
    ruler: Ruler,
    options: SolveOptions,
    began: float,
    progress: ProgressListener | None,
    start: Plan,
) -> Found:
    from solver.cpsat.lexicographic import improve

    incumbent, interrupted = best_greedy(problem, ruler, options, progress, _undisturbed(start))
    try:
        if interrupted:
            raise KeyboardInterrupt
        found = _with_running_work(problem, ruler, incumbent, options, began, start)
    except KeyboardInterrupt:
        # Once interrupted, the answer is what there is.
        with held(drop=True):
            note = "interrupted: the best greedy plan so far"
            bounds = limits(problem, ruler, incumbent)
            nothing = Improved.nothing(incumbent)
            return Found(replace(nothing, bounds=bounds, notes=(note,)), ruler)
    improved = improve(
        found.ruler.problem,
        found.ruler,
        found.improved.plan,
        options,
        started_s=began,
        listener=progress,
    )
    return replace(found, improved=improved)


def _with_running_work(
    problem: Problem,
    ruler: Ruler,
    incumbent: Plan,
    options: SolveOptions,
    began: float,
    start: Plan,
) -> Found:
    """The question to search, with the running work in it that may give way, and a first answer."""
    from solver.cpsat.pooled import applies as pools_apply

    running = candidates(problem, incumbent)
    if not running:
        return Found(Improved.nothing(incumbent), ruler)
    lifted = lift(problem, running)
    if set(start.displaced) <= {job.name for job in running}:
        incumbent = max(incumbent, start, key=ruler.key)
    part = LITTLE_PART if pools_apply(lifted.question) else 0.5
    incumbent = make_way(problem, ruler, incumbent, _is_over(began, part * options.time_limit_s))
    above = Ruler(lifted.question, entitled=ruler.entitled)
    return Found(Improved.nothing(lifted.up(incumbent)), above, lifted)


def _in_pools(
    problem: Problem,
    ruler: Ruler,
    improved: Improved,
    running: Sequence[RunningJob],
    options: SolveOptions,
    began: float,
    progress: ProgressListener | None,
) -> Found | None:
    """The same with running work that may give way, by the model that counts starts in pools.

    None where that model does not apply or would be too large, or the search was interrupted.
    """
    from solver.cpsat.lexicographic import improve
    from solver.cpsat.pooled import applies

    if any(note.startswith("interrupted") for note in improved.notes):
        return None
    with held(drop=True):
        counts = sum(len(job.replicas) for job in running)
        kinds = len({node.kind for node in problem.nodes})
        counts += kinds * sum(len(job.roles) for job in problem.pending)
        lifted = lift(problem, running)
        if counts > POOLED_COUNTS or not applies(lifted.question):
            return None
        above = Ruler(lifted.question, entitled=ruler.entitled)
    little = _is_over(time.monotonic(), LITTLE_PART * options.time_limit_s)
    try:
        plan = make_way(problem, ruler, improved.plan, little)
    except KeyboardInterrupt:
        bounds = limits(problem, ruler, improved.plan)
        notes = (*improved.notes, "interrupted: the best plan so far")
        return Found(replace(improved, bounds=bounds, notes=notes), ruler)
    found = improve(
        lifted.question, above, lifted.up(plan), options, started_s=began, listener=progress
    )
    return Found(found, above, lifted)


def _with_victims(
    problem: Problem, ruler: Ruler, improved: Improved, options: SolveOptions, began: float
) -> Improved:
    """The same where running work may give way: by rule, as the packed model does not know it.

    What was proved holds for plans that leave running work alone, so only simple bounds are left.
    """
    left_s = options.time_limit_s - (time.monotonic() - began)
    until_s = time.monotonic() + max(left_s, GIVE_WAY_PART * options.time_limit_s)
    plan = improved.plan
    with suppress(KeyboardInterrupt):
        plan = make_way(problem, ruler, plan, lambda: time.monotonic() > until_s)
    note = (
        "running work that gives way was found job by job; bounds count it as if all of it could "
        "go (preempt_for: [] leaves it alone and proves more)"
    )
    return replace(
        improved,
        plan=plan,
        bounds=limits(problem, ruler, improved.plan),
        notes=(*improved.notes, note),
    )


def limits(problem: Problem, ruler: Ruler, plan: Plan) -> tuple[int, ...]:
    """What no plan can beat, found without a search; `plan` leaves running work alone."""
    if running := candidates(problem, plan):
        ruler = Ruler(lift(problem, running).question, entitled=ruler.entitled)
    return tuple(ruler.limit(step) for step in ruler.steps)


def _by_classes(
    problem: Problem,
    ruler: Ruler,
    options: SolveOptions,
    began: float,
    progress: ProgressListener | None,
    start: Plan,
) -> Improved:
    from solver.aggregate.engine import improve
    from solver.aggregate.patterns import DevicePatterns

    incumbent, interrupted = start, False
    replicas = sum(job.replicas for job in problem.jobs)
    patterns = DevicePatterns.of(ruler, Stock(problem), options.seed)
    if patterns is not None and not start.placements:
        # In seconds, and often proved: before the baselines, which may take half of the time.
        # A packing cut short is worth little, and up to that size it takes seconds.
        quick = replicas * len(problem.nodes) <= PATTERN_SEATS
        until_s = math.inf if quick else began + options.time_limit_s
        plans = [packer.plan() for packer in patterns.packings(until_s)]
        sound = [plan for plan in plans if not verify(problem, plan)]
        incumbent = max([start, *sound], key=ruler.key)
    # Shares of GPUs are what the packer is no master of, and the baselines are.
    shares = any(role.shape.is_share for _, role in problem.roles())
    if shares or replicas * len(problem.nodes) <= GREEDY_SEATS:
        incumbent, interrupted = best_greedy(problem, ruler, options, progress, incumbent)
    started_s = began - options.time_limit_s if interrupted else began
    return improve(
        problem,
        ruler,
        incumbent,
        options,
        start=start,
        started_s=started_s,
        listener=progress,
        patterns=patterns,
    )


def _is_over(began: float, time_s: float) -> Callable[[], bool]:
    return lambda: time.monotonic() - began > time_s


def _undisturbed(plan: Plan) -> Plan:
    """The plan, or an empty one where running work gives way to it."""
    return plan if plan.leaves_running_alone else Plan()


def chosen_model(problem: Problem, options: SolveOptions) -> ModelChoice:
    """The model that ``auto`` means for a problem, or the one that was asked for."""
    if options.model is not ModelChoice.AUTO:
        return options.model
    counts = len(problem.role_by_key) * len(problem.nodes)
    return ModelChoice.AGGREGATED if counts > DIRECT_COUNTS else ModelChoice.DIRECT


def best_greedy(
    problem: Problem,
    ruler: Ruler,
    options: SolveOptions,
    progress: ProgressListener | None = None,
    start: Plan | None = None,
) -> tuple[Plan, bool]:
    """The best plan of `start` and all greedy baselines, and whether Ctrl-C cut the attempts short.

    Best is meant in the lexicographic order of the steps. Of equally good plans the first one
    stays, so the answer does not depend on chance. Baselines stop being tried once half of the
    time is gone. Before there is any plan, Ctrl-C is passed on.
    """
    began = time.monotonic()
    best = start or Plan()
    best_key = ruler.key(best)
    try:
        for name in greedy.POLICIES:
            elapsed_s = time.monotonic() - began
            if elapsed_s > options.time_limit_s / 2:
                break
            if progress:
                message = f"greedy incumbent: {name}"
                progress(
                    Progress(elapsed_s=elapsed_s, tier=name, value=0, bound=0, message=message)
                )
            plan = greedy.place(problem, name, options.seed)
            key = ruler.key(plan)
            if key > best_key:
                best, best_key = plan, key
    except KeyboardInterrupt:
        if not best.placements:
            raise
        return best, True
    return best, False
