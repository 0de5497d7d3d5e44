"""explain(problem, plan, job): whether the job could run at all, why it waits, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from solver.explain.core import PASSING, core_of
from solver.explain.explanation import KINDS, CoreRule, Explanation, Fix, Verdict
from solver.explain.fixes.table import PROPOSE
from solver.explain.makes_way import makes_way
from solver.explain.nodes import grouped, node_reasons
from solver.explain.question import Case, case_of, places_for
from solver.explain.rules import without
from solver.explain.verification import solved_with
from solver.explain.words import told
from solver.options import SolveOptions
from solver.problem import Problem
from solver.reasons import pending
from solver.result import Pending
from solver.solution import Plan
from solver.verify import verify

TRIES = 6
"""Changes of one kind that are solved with, until one of them starts the job."""


class UnknownJobError(LookupError):
    """No pending job has this name."""


def explain(
    problem: Problem, plan: Plan, name: str, options: SolveOptions | None = None
) -> Explanation:
    """Why a job does not start in a plan, and the cheapest verified fix of each kind.

    Parameters
    ----------
    plan
        What the solver decided for `problem`.
    options
        Limits of the solves that verify fixes; `time_limit_s` is for all of them together.

    Raises
    ------
    UnknownJobError
        No pending job has this name.
    """
    options = options or SolveOptions()
    if name not in problem.job_by_name:
        raise UnknownJobError(name)
    waiting = next((entry for entry in pending(problem, plan) if entry.job == name), None)
    if waiting is None:
        return Explanation(
            job=name,
            verdict="starts-now",
            placements=plan.by_job[name],
            notes=makes_way(problem, plan, name),
        )
    case = case_of(problem, plan, name, options.time_limit_s)
    places = places_for(case.question)
    if places is not None:
        return _starts_after_all(case, places, waiting)
    empty = _in_order(case)
    possible = places_for(without(empty, name, ["queue-limit"])) is not None
    verdict: Verdict = "waits" if possible else "impossible"
    core = core_of(case, impossible=not possible)
    notes: tuple[str, ...] = ()
    if possible and "queue-limit" not in core.rules and places_for(empty) is None:
        (limits,) = (rule.detail for rule in told(case, ("queue-limit",)) if rule.rule != "job")
        notes = (f"if there were room, it would wait too, for {limits}",)
    return Explanation(
        job=name,
        verdict=verdict,
        core=told(case, core.rules),
        core_proved=core.proved,
        nodes=grouped(case, node_reasons(case)),
        fixes=fixes_of(case, options),
        pending=waiting,
        notes=notes,
    )


def _in_order(case: Case) -> Problem:
    """The empty cluster with all its nodes ready, uncordoned and healthy."""
    rules = [rule for rule in PASSING if rule != "queue-limit"]
    return without(case.question, case.job.name, rules, case.problem.nodes)


def _starts_after_all(case: Case, places: Plan, waiting: Pending) -> Explanation:
    """There is room: the plan passed the job over, for others that it weighs more or by chance."""
    mine = [p for p in places.placements if p.job == case.job.name]
    together = Plan.of(
        [*case.plan.placements, *places.placements], case.plan.evictions, case.plan.moves
    )
    note = "there is room for it beside all that starts; the plan is not the best one"
    if case.job.name not in case.plan.by_job and verify(case.problem, together):
        note = "there is room for it, but not by the rules of the whole plan"
    return Explanation(
        job=case.job.name,
        verdict="starts-now",
        core=(CoreRule(rule="job", detail=waiting.text),),
        nodes=grouped(case, node_reasons(case)),
        pending=waiting,
        placements=tuple(mine),
        notes=(note,),
    )


def fixes_of(case: Case, options: SolveOptions) -> tuple[Fix, ...]:
    """The cheapest fix of each kind that starts the job, cheapest first."""
    found = [fix for kind in KINDS if (fix := _fix(case, kind, options)) is not None]
    return tuple(sorted(found, key=lambda fix: (fix.cost_gpu_s, KINDS.index(fix.kind))))


def _fix(case: Case, kind: str, options: SolveOptions) -> Fix | None:
    for change in islice(PROPOSE[kind](case), TRIES):
        if case.left_s <= 0:
            return None
        solved = solved_with(case, change, options)
        if solved is None:
            continue
        changed, plan = solved
        more: Mapping[str, Any] = change.told(changed, plan) if change.told else {}
        return Fix(
            kind=kind,
            params={"job": case.job.name, **change.params, **more},
            text=change.text,
            cost_gpu_s=change.cost_gpu_s,
            verified=True,
            placements=plan.by_job[case.job.name],
        )
    return None
