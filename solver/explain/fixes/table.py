"""All kinds of fixes, in the order in which they are tried and listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from solver.explain.explanation import KINDS
from solver.explain.fixes.add_capacity import add_capacity
from solver.explain.fixes.change import Change
from solver.explain.fixes.change_selector import change_selector
from solver.explain.fixes.change_toleration import change_toleration
from solver.explain.fixes.displace import move, preempt
from solver.explain.fixes.lower_min import lower_min
from solver.explain.fixes.lower_request import lower_request
from solver.explain.fixes.other_model import other_model
from solver.explain.fixes.raise_quota import raise_quota
from solver.explain.fixes.relax_link import relax_link
from solver.explain.fixes.relax_topology import relax_topology
from solver.explain.fixes.uncordon import uncordon
from solver.explain.fixes.wait import wait
from solver.explain.question import Case

PROPOSE: dict[str, Callable[[Case], Iterator[Change]]] = dict(
    zip(
        KINDS,
        (
            wait, uncordon, change_toleration, change_selector, relax_link, relax_topology,
            other_model, raise_quota, lower_request, lower_min, move, preempt, add_capacity,
        ),
        strict=True,
    )
)  # fmt: skip
"""Kind of fix to what proposes changes of that kind."""
