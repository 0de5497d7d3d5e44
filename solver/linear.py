"""Linear expressions of CP-SAT, and nothing of what they are about."""

from __future__ import annotations

from collections.abc import Iterable

from ortools.sat.python import cp_model

Expr = cp_model.LinearExprT
"""A variable, a sum of variables with coefficients, or an integer."""


LARGEST = 2**53
"""Coefficients and sums beyond this are refused: CP-SAT counts in 64 bits, bounds in doubles."""


class NumbersTooLargeError(ArithmeticError):
    """The amounts of a problem are so large that a model of it would overflow."""


def weighted(terms: Iterable[tuple[Expr, int]]) -> Expr:
    """Sum of coefficient times expression, without the zero terms.

    Raises
    ------
    NumbersTooLargeError
        A coefficient or a constant is beyond `LARGEST`.
    """
    kept = [(expr, factor) for expr, factor in terms if factor]
    if not kept:
        return 0
    if any(abs(f) > LARGEST or (isinstance(e, int) and abs(e * f) > LARGEST) for e, f in kept):
        raise NumbersTooLargeError
    return cp_model.LinearExpr.weighted_sum([e for e, _ in kept], [f for _, f in kept])


def total(exprs: Iterable[Expr]) -> Expr:
    """Sum of expressions."""
    return cp_model.LinearExpr.sum(list(exprs))
