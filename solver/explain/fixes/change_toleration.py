"""Tolerate as few more taints as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.cluster import Node, Taint, Toleration
from solver.explain.fixes.change import Change, listed, with_shapes
from solver.explain.fixes.opening import fewest_keys
from solver.explain.question import Case
from solver.explain.rules import without_for
from solver.room import Lift
from solver.workload import Shape

Mark = tuple[str, str, str]
"""A taint as key, value and effect."""


def change_toleration(case: Case) -> Iterator[Change]:
    """The smallest sets of taints that the job would have to tolerate."""
    shapes = {role.name: role.shape for role in case.part.roles}
    opened = without_for(case.claim, case.job.name, Lift.TAINT)
    asked = case.part

    def needed(node: Node, lifted: Shape) -> frozenset[Mark]:
        mine = [s for s in shapes.values() if _open(s) == lifted] or list(shapes.values())
        return frozenset(_mark(t) for t in node.taints for s in mine if _repelled(s, t))

    for marks in fewest_keys(opened, [opened.job_by_name[case.job.name]], needed):
        more = tuple(Toleration(key=k, value=v, effect=e) for k, v, e in marks)
        opens = [
            node.name
            for node in case.claim.nodes
            if any(_mark(t) in marks for t in node.taints)
            and all(_mark(t) in marks for t in node.taints if _repelled(asked.roles[0].shape, t))
        ]
        yield Change(
            kind="change-toleration",
            text=f"tolerate {listed(f'{k}={v}:{e}' for k, v, e in marks)}",
            params={
                "taints": [{"key": k, "value": v, "effect": e} for k, v, e in marks],
                "options": [o for mark in marks for o in _options(list(shapes.values()), mark)],
                "opens": opens[:10],
            },
            apply=with_shapes(
                case.job.name,
                lambda shape, more=more: replace(shape, tolerations=(*shape.tolerations, *more)),  # type: ignore[misc]
            ),
        )


def _open(shape: Shape) -> Shape:
    return replace(shape, tolerations=(Toleration(operator="Exists"),))


def _mark(taint: Taint) -> Mark:
    return (taint.key, taint.value, taint.effect)


def _repelled(shape: Shape, taint: Taint) -> bool:
    return taint.repels and not any(t.tolerates(taint) for t in shape.tolerations)


def _options(shapes: list[Shape], mark: Mark) -> list[str]:
    """What to write: a toleration of the key that is there already only needs another word."""
    key, value, effect = mark
    there = any(t.key == key for shape in shapes for t in shape.tolerations)
    return ["operator Exists", f"value {value}"] if there else [f"add {key}={value}:{effect}"]
