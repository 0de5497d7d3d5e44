"""Whether a plan may be carried out: every rule, written from its definition.

Whoever made the plan, it leaves the program only after `verify` has found nothing. So the rules
(`solver.judging`) know the problem, the plan, the links of a node and the tables of MIG, and
nothing of how plans are found: they add up what running work and the plan hold, and compare.
`CHECKS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from solver.judging.devices import (
    check_compute,
    check_gpus,
    check_held,
    check_links,
    check_models,
    check_share_groups,
    check_shares,
)
from solver.judging.displaced import check_displaced, check_giving_way
from solver.judging.faults import Rule, Violation
from solver.judging.gangs import check_gangs, check_spread, check_start_groups, check_topology
from solver.judging.identity import check_identity
from solver.judging.limits import check_queue_limits
from solver.judging.machines import check_amounts, check_labels, check_nodes, check_taints
from solver.judging.placed import Placed
from solver.judging.slices import check_geometry, check_recut, check_slices
from solver.problem import Problem
from solver.solution import Plan

__all__ = ["CHECKS", "Rule", "Violation", "explain_violations", "verify"]

Check = Callable[[Problem, Placed], Iterator[Violation]]

CHECKS: tuple[Check, ...] = (
    check_nodes,
    check_taints,
    check_labels,
    check_gpus,
    check_models,
    check_shares,
    check_share_groups,
    check_compute,
    check_held,
    check_slices,
    check_geometry,
    check_recut,
    check_amounts,
    check_links,
    check_gangs,
    check_start_groups,
    check_topology,
    check_spread,
    check_queue_limits,
    check_giving_way,
)
"""One function per rule, in the order in which violations are reported."""


def verify(problem: Problem, plan: Plan) -> list[Violation]:
    """Every rule that the plan breaks, in the order of `CHECKS`; empty for a plan that is right.

    Placements of unknown jobs, roles, replicas, nodes or GPUs are reported as such and then left
    out, so one mistake is not reported under every rule.
    """
    found = [*check_identity(problem, plan), *check_displaced(problem, plan)]
    placed = Placed(problem, plan)
    for check in CHECKS:
        found.extend(check(problem, placed))
    return found


def explain_violations(violations: Iterable[Violation]) -> str:
    """All violations in one line, for a log or an error."""
    return "; ".join(map(str, violations)) or "no rule is broken"
