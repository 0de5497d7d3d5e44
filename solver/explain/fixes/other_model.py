"""Take GPUs of another model, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from solver.explain.fixes.change import Change, listed, with_shapes
from solver.explain.question import Case
from solver.state import initial_states
from solver.workload import Shape

MOST = 3
"""Models that are added at once; more than that is "any model", which comes last."""


def other_model(case: Case) -> Iterator[Change]:
    """Models to add, as few as possible; those with most that is free first."""
    asked = {model for role in case.part.roles for model in role.shape.gpu_models}
    if not asked:
        return
    states = initial_states(case.claim)
    free: dict[str, int] = {}
    for node in case.claim.nodes:
        for gpu, model in enumerate(node.topology.gpu_models):
            if model and model not in asked and node.schedulable:
                free[model] = free.get(model, 0) + states[node.name].gpu_left[gpu]
    ranked = sorted(free, key=lambda model: (-free[model], model))
    sizes = [*range(1, min(MOST, len(ranked)) + 1), *([len(ranked)] if len(ranked) > MOST else [])]
    for size in sizes:
        for more in combinations(ranked, size):
            yield Change(
                kind="other-model",
                text=f"also take {listed(more)}",
                params={"models": list(more)},
                apply=with_shapes(case.job.name, lambda s, more=more: _also(s, more)),  # type: ignore[misc]
            )


def _also(shape: Shape, more: tuple[str, ...]) -> Shape:
    if not shape.gpu_models:
        return shape
    return replace(shape, gpu_models=tuple(sorted({*shape.gpu_models, *more})))
