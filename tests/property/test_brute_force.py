"""The yardstick itself: it looks at every plan, and leaves out only what is the same renamed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings

from solver.solution import Placement, Plan
from solver.tiers import Ruler
from solver.verify import verify
from tests.brute_force import Enumeration, TooManyPlansError, best_values
from tests.scenario import Scenario
from tests.strategies import TINY_MACHINES, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from solver.problem import Problem

MINUTE = {"nodes": 2, "jobs": 2, "replicas": 3, "machines": TINY_MACHINES}


def every_plan(problem: Problem) -> Iterator[Plan]:
    """All plans, by combining all places of all replicas: slow, but nothing to get wrong."""
    choices = [
        [
            None,
            *(
                Placement(job.name, role.name, replica, node.name, gpus, milli)
                for node in problem.nodes
                for gpus in combinations(
                    range(node.n_gpus), role.shape.gpus or int(role.shape.is_share)
                )
                for milli in {
                    role.shape.milli_on(node.topology.gpu_memory_mib[g]) or 0 for g in gpus
                }
                or {1000}
            ),
        ]
        for job, role in problem.roles()
        for replica in range(role.replicas)
    ]
    size = 1
    for options in choices:
        size *= len(options)
    assume(size <= 600)
    for places in product(*choices):
        plan = Plan.of(place for place in places if place is not None)
        if not verify(problem, plan):
            yield plan


@settings(max_examples=30)
@given(problems(MINUTE))
def test_nothing_is_lost_by_leaving_out_what_is_the_same(problem):
    problem = replace(problem, preempt_for=())
    best = max(Ruler(problem).key(plan) for plan in every_plan(problem))

    values = best_values(problem)

    signed = zip(Ruler(problem).steps, values, strict=True)
    assert best == tuple(value if step.sense == "max" else -value for step, value in signed)


@pytest.mark.parametrize(
    ("nodes", "job", "kinds"),
    [
        ([{"gpus": 4}], {"gpus": 2}, 2),
        ([{"gpus": 4, "links": {(0, 1): "NV4"}}], {"gpus": 2}, 7),
        ([{"gpus": 2}, {"gpus": 2}], {"gpus": 1, "replicas": 2}, 3),
        ([{"gpus": 2}, {"gpus": 2}], {"gpus": 1, "replicas": 2, "gang": False}, 4),
        ([{"gpus": 2}], {"gpus": 0.5, "replicas": 2}, 3),
        ([{"gpus": 1}, {"gpus": 2}], {"gpus": 1}, 3),
    ],
    ids=["uniform", "one bridge", "gang on twins", "independent on twins", "shares", "unlike"],
)
def test_one_plan_of_each_kind_is_looked_at(nodes, job, kinds):
    story = Scenario()
    for place, node in enumerate(nodes):
        story.node(f"n{place}", **node)

    plans = list(Enumeration(story.job("j", **job).problem()))

    assert len(plans) == kinds
    assert Plan() in plans


def test_a_problem_that_is_not_tiny_is_refused():
    story = Scenario()
    for place in range(6):
        story.node(f"n{place}", gpus=["A100", "V100", "H100", "L40S"])
    for place in range(6):
        story.job(f"j{place}", gpus=1)

    with pytest.raises(TooManyPlansError):
        best_values(story.problem(), patience=1000)
