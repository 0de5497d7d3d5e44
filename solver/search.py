"""One CP-SAT search: maximise or minimise an expression within a time, from a hint.

Runs in a thread of its own, so that Ctrl-C reaches Python while the solver computes: the search
is then stopped and what it has found is used.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ortools.sat.python import cp_model

from solver.interrupts import held
from solver.linear import Expr, NumbersTooLargeError

DEFAULT_WORKERS = 8
"""CP-SAT's strategies complement each other: fewer than eight lose more than two cores gain."""


POLL_S = 0.2
"""How often a search that nobody interrupts looks for the wish to stop."""


class ModelError(RuntimeError):
    """The model is invalid or excludes a plan that is known to be good: our bug."""


class NoSolutionError(ModelError):
    """The model has no solution at all, which is an answer where no plan is known to be in it."""


class Effort(StrEnum):
    """How a search goes about it.

    ``QUICK`` is one worker with hardly any presolve: most steps have a tight relaxation and an
    incumbent that is optimal already, and then presolve and a portfolio only cost time (measured:
    0.1 s against 1 to 4 s a step at 128 nodes and 100 gangs). ``FIRM`` is one worker with presolve
    and a strong relaxation: small models with hard sums, a third of the portfolio's work.
    ``THOROUGH`` is CP-SAT's portfolio.
    """

    QUICK = "quick"
    FIRM = "firm"
    THOROUGH = "thorough"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """What one search may use, and when it is good enough.

    Parameters
    ----------
    gap, gap_abs
        Gaps to the proved bound, relative and in units of the objective; one of them will do.
    """

    effort: Effort
    time_s: float
    deterministic: float | None
    workers: int | None
    seed: int
    gap: float
    gap_abs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one search found.

    Parameters
    ----------
    found
        Whether there is a solution; values are then read with `value_of`.
    bound
        Proved bound of the expression, None where nothing was proved.
    deterministic_time
        CP-SAT's deterministic time that was used.
    interrupted
        Somebody pressed Ctrl-C.
    """

    found: bool
    proved: bool
    bound: int | None
    value_of: Callable[[cp_model.IntVar], int]
    deterministic_time: float
    interrupted: bool


def search(
    model: cp_model.CpModel,
    objective: Expr,
    sense: str,
    limits: SearchLimits,
    listener: Callable[[float, float], None] | None = None,
) -> Outcome:
    """Search for the best value of `objective`.

    Parameters
    ----------
    listener
        Called with (value, bound) whenever either improves.

    Raises
    ------
    ModelError
        CP-SAT says that the model is invalid: we made a mistake.
    NoSolutionError
        It is infeasible: a mistake too, if it is to contain a known plan.
    NumbersTooLargeError
        Sums in it may exceed 64 bits.
    """
    if sense == "max":
        model.maximize(objective)
    else:
        model.minimize(objective)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if limits.effort is Effort.QUICK:
        parameters.num_workers = 1
        parameters.max_presolve_iterations = 1
        parameters.cp_model_probing_level = 0
        parameters.symmetry_level = 0
    elif limits.effort is Effort.FIRM:
        parameters.num_workers = 1
        parameters.linearization_level = 2
        parameters.symmetry_level = 0
    else:
        parameters.num_workers = limits.workers or max(DEFAULT_WORKERS, os.cpu_count() or 1)
    parameters.random_seed = limits.seed
    parameters.max_time_in_seconds = max(limits.time_s, 0.001)
    if limits.deterministic is not None:
        parameters.max_deterministic_time = max(limits.deterministic, 0.0)
    parameters.relative_gap_limit = limits.gap
    parameters.absolute_gap_limit = max(limits.gap_abs, parameters.absolute_gap_limit)
    parameters.catch_sigint_signal = False
    state = _Watch(listener, sense)
    solver.best_bound_callback = state.bound_moved
    status, interrupted = _solve_in_thread(solver, model, state)
    if status == cp_model.INFEASIBLE:
        raise NoSolutionError("CP-SAT: the model has no solution")
    if status == cp_model.MODEL_INVALID:
        fault = model.validate()
        if "overflow" in fault:
            raise NumbersTooLargeError
        raise ModelError(f"CP-SAT: invalid model: {fault[:300]}")
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Outcome(
        found=found,
        proved=status == cp_model.OPTIMAL and limits.gap == 0,
        # Without a solution CP-SAT answers 0, which is no bound.
        bound=_safe_bound(solver.best_objective_bound, sense) if found else None,
        value_of=lambda variable: int(solver.value(variable)),
        deterministic_time=solver.deterministic_time,
        interrupted=interrupted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a model has a solution.

    Parameters
    ----------
    found, excluded
        A solution was found; it is proved that there is none. Neither: time was up.
    value_of
        Values of the solution, if one was found.
    core
        Indices of assumptions that exclude every solution together, where it is proved that
        there is none.
    """

    found: bool
    excluded: bool
    value_of: Callable[[cp_model.IntVar], int]
    core: tuple[int, ...] = ()


def decide(model: cp_model.CpModel, time_s: float, *, presolve: bool = True) -> Decision:
    """Look for any solution: quickly, repeatably, with one worker.

    Parameters
    ----------
    presolve
        Leave it out where the model has assumptions: with it their core can be wrong.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C.
    """
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = 1
    parameters.cp_model_probing_level = 0
    parameters.symmetry_level = 0
    parameters.cp_model_presolve = presolve
    parameters.max_time_in_seconds = max(0.01, time_s)
    parameters.catch_sigint_signal = False
    status, interrupted = _solve_in_thread(solver, model, _Watch(None, "max"))
    if interrupted:
        raise KeyboardInterrupt
    excluded = status == cp_model.INFEASIBLE
    return Decision(
        found=status in (cp_model.OPTIMAL, cp_model.FEASIBLE),
        excluded=excluded,
        value_of=lambda variable: int(solver.value(variable)),
        core=tuple(solver.sufficient_assumptions_for_infeasibility()) if excluded else (),
    )


class _Watch(cp_model.CpSolverSolutionCallback):
    """Passes improvements on to the listener; also carries the wish to stop."""

    def __init__(self, listener: Callable[[float, float], None] | None, sense: str) -> None:
        super().__init__()
        self._listener = listener
        self._value = -math.inf if sense == "max" else math.inf
        self._bound = -self._value

    def on_solution_callback(self) -> None:
        """CP-SAT's hook for a new solution."""
        self._value = self.objective_value
        self._tell()

    def bound_moved(self, bound: float) -> None:
        """CP-SAT's hook for a new bound."""
        self._bound = bound
        self._tell()

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener(self._value, self._bound)


def _solve_in_thread(
    solver: cp_model.CpSolver, model: cp_model.CpModel, watch: _Watch
) -> tuple[cp_model.CpSolverStatus, bool]:
    result: list[cp_model.CpSolverStatus] = []
    failure: list[BaseException] = []
    # Not thread.join: Python 3.11 takes a thread for finished whose join was interrupted.
    over = threading.Lock()
    over.acquire()

    def run() -> None:
        try:
            result.append(solver.solve(model, watch))
        except BaseException as error:
            failure.append(error)
        finally:
            over.release()

    interrupted = False
    try:
        with held():  # a search that has begun is never left alone
            threading.Thread(target=run, name="cp-sat").start()
    except KeyboardInterrupt:
        interrupted = True
    while not (result or failure):
        try:
            if interrupted:
                solver.stop_search()
            over.acquire(timeout=POLL_S)
        except KeyboardInterrupt:
            interrupted = True
    if failure:
        raise failure[0]
    return result[0], interrupted


def _safe_bound(bound: float, sense: str) -> int | None:
    """The bound as an integer, rounded only in the safe direction; None where it is no number.

    Objectives are integers below 2**53, so their bounds are exact up to the tolerance.
    """
    if not math.isfinite(bound) or abs(bound) >= 2**53:
        return None
    return math.floor(bound + 1e-6) if sense == "max" else math.ceil(bound - 1e-6)
