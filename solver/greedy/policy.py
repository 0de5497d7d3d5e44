"""A named policy: in which order, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from solver.greedy.driver import make_plan
from solver.greedy.orders import Order
from solver.greedy.scoring import PlacementPolicy
from solver.problem import Problem
from solver.solution import Plan

OrderFactory = Callable[[Problem], Order]
PlacementFactory = Callable[[Problem, int], PlacementPolicy]
"""From a problem and a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A greedy policy.

    Parameters
    ----------
    name
        As it was typed: a placement, or ``ORDER+PLACEMENT``.
    order, placement
        What makes the two for a problem (and, for the placement, a seed).
    """

    name: str
    order: OrderFactory
    placement: PlacementFactory

    def place(self, problem: Problem, seed: int = 1) -> Plan:
        """The plan of this policy; the same problem and seed give the same plan."""
        return make_plan(problem, self.order(problem), self.placement(problem, seed))


class UnknownPolicyError(ValueError):
    """No greedy policy has that name.

    Attributes
    ----------
    name
        What was asked for.
    known
        The names that exist.
    near
        Those of them that look like a slip away.
    """

    def __init__(self, name: str, known: Iterable[str], why: str = "") -> None:
        self.name, self.known = name, tuple(known)
        self.near = tuple(get_close_matches(name, self.known))
        hint = f"did you mean {' or '.join(self.near)}?" if self.near else ""
        names = f"known: {', '.join(self.known)}"
        what = why or f"no policy {name!r}"
        super().__init__("; ".join(part for part in (what, hint, names) if part))
