"""A plan seen as the model sees it: counts per role and node, GPU sets, loads of shared GPUs.

Every variable of the model knows its value in such a view, so a hint is complete by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar, cast

from solver.problem import Problem, RoleKey
from solver.solution import Placement, Plan
from solver.workload import Role, Shape

T = TypeVar("T")


class PlanView:
    """Counts and sets of one plan.

    Parameters
    ----------
    stands_for
        Name of the node that stands for each node in the model.
    """

    def __init__(self, problem: Problem, plan: Plan, stands_for: Mapping[str, str]) -> None:
        self._stands_for = stands_for
        self.problem = problem
        self.plan = plan
        self.started = plan.started
        self._memory: dict[object, object] = {}

    def remember(self, key: object, read: Callable[[], T]) -> T:
        """The result of `read`, computed once per view and key."""
        if key not in self._memory:
            self._memory[key] = read()
        return cast("T", self._memory[key])

    @cached_property
    def count(self) -> Mapping[tuple[RoleKey, str], int]:
        """Replicas by (role, node)."""
        name = self._stands_for
        return Counter((RoleKey(p.job, p.role), name[p.node]) for p in self.plan.placements)

    def starts(self, job: str) -> bool:
        """Whether any replica of the job starts."""
        return job in self.plan.by_job

    def on(self, node: str) -> tuple[Placement, ...]:
        """Placements on a node that stands for itself alone."""
        return self.plan.by_node.get(node, ())

    def role(self, placement: Placement) -> Role:
        """Role of a placed replica."""
        return self.problem.role_by_key[RoleKey(placement.job, placement.role)]

    def shape(self, placement: Placement) -> Shape:
        """Shape of a placed replica."""
        return self.role(placement).shape

    def nodes_of(self, job: str) -> set[str]:
        """Nodes (each for its class) on which the job starts replicas."""
        return {self._stands_for[p.node] for p in self.plan.by_job.get(job, ())}
