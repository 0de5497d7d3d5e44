"""solve(problem): one call that picks the policy, checks the plan and says what was proved."""

from __future__ import annotations

import time

from solver import greedy
from solver.figures import measure_cluster, report_evictions, report_moves, report_queues
from solver.interrupts import held
from solver.options import SolveOptions
from solver.prices.saved import SavedPrices
from solver.problem import Problem
from solver.progress import ProgressListener
from solver.reasons import pending
from solver.result import Improved, SolveResult, SolveStatus, Timing
from solver.searching import Found, chosen_model, limits, search_plan
from solver.solution import Plan
from solver.tiers import Ruler, must_runs
from solver.verify import Violation, verify

CP_SAT = "cp-sat"


class PlanViolationError(RuntimeError):
    """A policy made a plan that breaks a rule. It is our bug; the plan must not be used."""

    def __init__(self, policy: str, violations: list[Violation]) -> None:
        self.policy, self.violations = policy, tuple(violations)
        shown = "; ".join(violation.text for violation in violations[:3])
        super().__init__(f"{policy}: the plan breaks {len(violations)} rule(s): {shown}")


def solve(
    problem: Problem,
    options: SolveOptions | None = None,
    policy: str = CP_SAT,
    progress: ProgressListener | None = None,
    start: Plan | None = None,
    prices: SavedPrices | None = None,
) -> SolveResult:
    """Place the pending jobs of a problem.

    Parameters
    ----------
    policy
        ``cp-sat``, or the name of a greedy baseline such as ``best-fit`` or ``drf+first-fit``.
    progress
        Told the best value and bound so far while CP-SAT searches.
    start
        A valid plan to begin with, such as what `solver.carry_over.carried_over` leaves of the
        last one; only ``cp-sat`` looks at it.
    prices
        What ``bid-price`` places by instead of prices of its own.

    Returns
    -------
    SolveResult
        A plan that `verify` has found no fault in, never worse than that of any greedy baseline
        when the policy is ``cp-sat``; with the bound proved for every step.

    Raises
    ------
    PlanViolationError
        A plan broke a rule.
    solver.greedy.UnknownPolicyError
        There is no such policy.
    """
    options = options or SolveOptions()
    began = time.monotonic()
    ruler = Ruler(problem)
    if policy == CP_SAT:
        found = search_plan(problem, ruler, options, began, progress, start or Plan())
    else:
        plan = greedy.place(problem, policy, options.seed, prices)
        bounds = limits(problem, ruler, plan)
        solve_s = time.monotonic() - began
        improved = Improved(plan=plan, bounds=bounds, build_s=0.0, solve_s=solve_s, notes=())
        found = Found(improved, ruler)
    with held(drop=True):
        return _checked(problem, ruler, options, policy, found, began)


def _checked(
    problem: Problem,
    ruler: Ruler,
    options: SolveOptions,
    policy: str,
    found: Found,
    began: float,
) -> SolveResult:
    improved, plan = found.improved, found.plan
    checking = time.monotonic()
    if violations := verify(problem, plan):
        raise PlanViolationError(policy, violations)
    verify_s = time.monotonic() - checking
    terms = tuple(
        step.term(value, bound)
        for step, value, bound in zip(
            ruler.steps, ruler.measure(plan), improved.bounds, strict=True
        )
    )
    must_fail = _must_fail(problem, plan)
    status = SolveStatus.FEASIBLE
    if must_fail and terms[0].value == terms[0].bound:
        status = SolveStatus.INFEASIBLE
    elif all(term.value == term.bound for term in terms):
        status = SolveStatus.OPTIMAL
    return SolveResult(
        status=status,
        policy=policy,
        model=chosen_model(problem, options).value if policy == CP_SAT else "greedy",
        plan=plan,
        objectives=terms,
        pending=pending(problem, plan),
        queues=report_queues(problem, plan),
        metrics=measure_cluster(problem, plan, ruler),
        timing=Timing(
            build_s=improved.build_s,
            solve_s=improved.solve_s,
            verify_s=verify_s,
            total_s=time.monotonic() - began,
        ),
        notes=improved.notes,
        must_fail=must_fail,
        evictions=report_evictions(problem, plan),
        moves=report_moves(problem, plan),
    )


def _must_fail(problem: Problem, plan: Plan) -> tuple[str, ...]:
    return tuple(job.name for job in problem.jobs if job.must and not must_runs(job, plan))
