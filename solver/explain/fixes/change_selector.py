"""Ask for as few labels less as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.cluster import Node
from solver.explain.fixes.change import Change, listed, with_shapes
from solver.explain.fixes.opening import fewest_keys
from solver.explain.question import Case
from solver.explain.rules import without_for
from solver.room import Lift
from solver.workload import Shape

Pair = tuple[str, str]


def change_selector(case: Case) -> Iterator[Change]:
    """The smallest sets of label requests without which the job fits."""
    selectors = {_open(role.shape): frozenset(role.shape.node_selector) for role in case.part.roles}
    opened = without_for(case.claim, case.job.name, Lift.LABEL)

    def needed(node: Node, lifted: Shape) -> frozenset[Pair]:
        return frozenset(p for p in selectors[lifted] if node.all_labels.get(p[0]) != p[1])

    for pairs in fewest_keys(opened, [opened.job_by_name[case.job.name]], needed):
        yield Change(
            kind="change-selector",
            text=f"do not ask for {listed(f'{key}={value}' for key, value in pairs)}",
            params={"drop": dict(pairs)},
            apply=with_shapes(
                case.job.name,
                lambda shape, pairs=pairs: replace(  # type: ignore[misc]
                    shape, node_selector=tuple(p for p in shape.node_selector if p not in pairs)
                ),
            ),
        )


def _open(shape: Shape) -> Shape:
    return replace(shape, node_selector=())
