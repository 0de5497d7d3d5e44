"""The fewest keys that open enough nodes: cordons to lift, taints to tolerate, labels to drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ortools.sat.python import cp_model

from solver.cluster import Node
from solver.explain.question import SEARCH_S, model_of
from solver.problem import Problem
from solver.search import decide
from solver.workload import Job, Shape

Key = TypeVar("Key", str, tuple[str, str, str], tuple[str, str])

TRIES = 4
"""Sets of keys that are proposed; another one helps where the first opens a door to others too."""


def fewest_keys(
    question: Problem, asking: Sequence[Job], needed: Callable[[Node, Shape], frozenset[Key]]
) -> Iterator[tuple[Key, ...]]:
    """Sets of keys, smallest first, with which all jobs of the question find their places.

    Parameters
    ----------
    question
        The question in which everything is open to the jobs that ask for keys.
    asking
        The jobs that go through a door only with its keys; whom else nothing is opened for.
    needed
        The keys that a node asks of a shape.
    """
    roles = [(job, role) for job in asking for role in job.roles]
    if not any(needed(node, role.shape) for node in question.nodes for _, role in roles):
        return
    placement = model_of(question, merge=False)
    variables = placement.variables
    used: dict[Key, cp_model.IntVar] = {}
    for job, role in roles:
        for node, x in variables.counts(job, role):
            for key in sorted(needed(node, role.shape)):
                if key not in used:
                    used[key] = variables.model.new_bool_var(f"key{key}")
                variables.model.add(x <= role.replicas * used[key])
    variables.model.minimize(sum(used.values()))
    for _ in range(TRIES):
        answer = decide(variables.model, SEARCH_S)
        if not answer.found:
            return
        chosen = [key for key, literal in used.items() if answer.value_of(literal)]
        if not chosen:
            return
        yield tuple(sorted(chosen))
        variables.model.add(sum(used[key] for key in chosen) <= len(chosen) - 1)
