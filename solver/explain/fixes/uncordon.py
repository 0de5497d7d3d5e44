"""Uncordon as few nodes as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from solver.explain.fixes.change import Change, listed
from solver.explain.fixes.opening import fewest_keys
from solver.explain.question import Case
from solver.explain.rules import without
from solver.problem import Problem


def uncordon(case: Case) -> Iterator[Change]:
    """The smallest sets of cordoned nodes with which the job fits."""
    cordoned = {node.name for node in case.claim.nodes if node.cordoned}
    if not cordoned:
        return
    opened = without(case.claim, case.job.name, ["cordoned"])
    # A node that is uncordoned is open to all, so whoever takes its place there pays for it.
    for names in fewest_keys(
        opened, opened.jobs, lambda node, _: frozenset({node.name} & cordoned)
    ):
        yield Change(
            kind="uncordon",
            text=f"uncordon {listed(names)}",
            params={"nodes": list(names)},
            apply=_uncordoned(names),
        )


def _uncordoned(names: Collection[str]) -> Callable[[Problem], Problem]:
    def apply(problem: Problem) -> Problem:
        nodes = (replace(n, cordoned=False) if n.name in names else n for n in problem.nodes)
        return replace(problem, nodes=tuple(nodes))

    return apply
