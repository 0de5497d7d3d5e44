"""A linear program that is built row by row and solved by HiGHS, again and again as it grows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

INFINITY = math.inf

_Solver = highspy.Highs.__bases__[0]
"""HiGHS itself: the class around it greets on standard output before it can be hushed."""


@dataclass(frozen=True, slots=True)
class LpSolution:
    """An optimum: value, a bound safe against rounding, values of columns and duals of rows."""

    value: float
    bound: float
    columns: NDArray[np.float64]
    duals: NDArray[np.float64]


class LinearProgram:
    """Grows by columns and rows; objectives are optimised one after the other."""

    def __init__(self) -> None:
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._starts: list[int] = [0]
        self._index: list[int] = []
        self._value: list[float] = []
        self._row_lower: list[float] = []
        self._row_upper: list[float] = []
        self._solver: Any | None = None

    @property
    def n_columns(self) -> int:
        """Columns so far."""
        return len(self._lower)

    def column(self, upper: float, lower: float = 0.0) -> int:
        """A new column; its number."""
        if self._solver is not None:
            self._solver.addCol(0.0, lower, upper, 0, np.array([], np.int32), np.array([]))
        self._lower.append(lower)
        self._upper.append(upper)
        return len(self._lower) - 1

    def row(
        self,
        terms: Mapping[int, float] | Sequence[tuple[int, float]],
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> None:
        """A new row; each column at most once."""
        pairs = terms.items() if isinstance(terms, Mapping) else terms
        index = [column for column, _ in pairs]
        pairs = terms.items() if isinstance(terms, Mapping) else terms
        value = [float(factor) for _, factor in pairs]
        if self._solver is not None:
            self._solver.addRow(
                lower, upper, len(index), np.array(index, np.int32), np.array(value)
            )
            return
        self._index += index
        self._value += value
        self._starts.append(len(self._index))
        self._row_lower.append(lower)
        self._row_upper.append(upper)

    def optimise(
        self, costs: Mapping[int, float], time_s: float, *, sense: str
    ) -> LpSolution | None:
        """The optimum of an objective; None where it is not found in time.

        Raises
        ------
        ValueError
            The program has no solution or is unbounded: a mistake of the formulation.
        """
        solver = self._loaded()
        vector = np.zeros(self.n_columns)
        vector[list(costs)] = list(costs.values())
        numbers = np.arange(self.n_columns, dtype=np.int32)
        solver.changeColsCost(self.n_columns, numbers, vector)
        solver.changeObjectiveSense(
            highspy.ObjSense.kMaximize if sense == "max" else highspy.ObjSense.kMinimize
        )
        solver.setOptionValue("time_limit", solver.getRunTime() + max(time_s, 0.01))
        solver.run()
        status = solver.getModelStatus()
        if status in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
            highspy.HighsModelStatus.kUnbounded,
        ):
            raise ValueError(f"linear program: {solver.modelStatusToString(status)}")
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        found = solver.getSolution()
        value = solver.getInfo().objective_function_value
        return LpSolution(
            value=value,
            bound=self._safe_bound(vector, np.array(found.row_dual), sense),
            columns=np.array(found.col_value),
            duals=np.array(found.row_dual),
        )

    def _safe_bound(
        self, costs: NDArray[np.float64], duals: NDArray[np.float64], sense: str
    ) -> float:
        """The bound that the duals prove by themselves, however inexact the solver was.

        For any multipliers y: ``max c x <= sum over rows of the worse of y*lower, y*upper  +  sum
        over columns of the worse of (c - A'y) at its bounds`` (Neumaier and Shcherbina, "Safe
        bounds in linear and mixed-integer linear programming", 2004). Duals of the wrong sign for a
        one-sided row count as 0; columns without an upper bound have to price out by themselves.
        """
        solver = self._loaded()
        lp = solver.getLp()
        sign = 1.0 if sense == "max" else -1.0
        c = sign * costs
        y = sign * duals
        lower, upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
        y = np.where((y > 0) & np.isinf(upper), 0.0, y)
        y = np.where((y < 0) & np.isinf(lower), 0.0, y)
        with np.errstate(invalid="ignore"):
            rows = np.where(y > 0, y * upper, np.where(y < 0, y * lower, 0.0)).sum()
        matrix = lp.a_matrix_
        starts = np.array(matrix.start_)
        index = np.array(matrix.index_)
        value = np.array(matrix.value_)
        by_column = matrix.format_ == highspy.MatrixFormat.kColwise
        major = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        rows_of, columns_of = (index, major) if by_column else (major, index)
        reduced = c - np.bincount(columns_of, weights=value * y[rows_of], minlength=len(c))
        low, high = np.array(lp.col_lower_), np.array(lp.col_upper_)
        with np.errstate(invalid="ignore"):
            gains = np.where(reduced > 0, reduced * high, np.where(reduced < 0, reduced * low, 0.0))
        return sign * float(rows + gains.sum())

    def _loaded(self) -> Any:  # noqa: ANN401 - HiGHS has no types of its own
        if self._solver is None:
            lp = highspy.HighsLp()
            lp.num_col_ = self.n_columns
            lp.num_row_ = len(self._row_lower)
            lp.col_cost_ = np.zeros(self.n_columns)
            lp.col_lower_ = np.array(self._lower)
            lp.col_upper_ = np.array(self._upper)
            lp.row_lower_ = np.array(self._row_lower)
            lp.row_upper_ = np.array(self._row_upper)
            lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
            lp.a_matrix_.start_ = np.array(self._starts)
            lp.a_matrix_.index_ = np.array(self._index)
            lp.a_matrix_.value_ = np.array(self._value)
            self._solver = _Solver()
            self._solver.setOptionValue("output_flag", False)
            self._solver.setOptionValue("threads", 1)
            self._solver.passModel(lp)
        return self._solver
