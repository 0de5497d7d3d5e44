"""Prefer NVLinks instead of requiring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from solver.explain.fixes.change import Change, with_shapes
from solver.explain.question import Case
from solver.problem import Problem
from solver.solution import Plan
from solver.workload import LinkRule, Shape


def relax_link(case: Case) -> Iterator[Change]:
    """The job with its links preferred, where it requires them."""
    if not any(role.shape.link is LinkRule.REQUIRED for role in case.part.roles):
        return
    name = case.job.name

    def told(_: Problem, plan: Plan) -> Mapping[str, Any]:
        places = [p for p in plan.by_job[name] if len(p.gpus) > 1]
        return {"devices": list(places[0].gpus)} if len(places) == 1 else {}

    yield Change(
        kind="relax-link",
        text="prefer NVLinks instead of requiring them",
        params={"link": "preferred"},
        apply=with_shapes(name, _relaxed),
        told=told,
    )


def _relaxed(shape: Shape) -> Shape:
    required = shape.link is LinkRule.REQUIRED
    return replace(shape, link=LinkRule.PREFERRED) if required else shape
