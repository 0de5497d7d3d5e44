"""The arrivals-only experiment of Weng et al. on the published cluster, against known totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from solver.fragmentation import TargetWorkload
from solver.greedy import PLACEMENTS, POLICIES
from solver.greedy.driver import make_plan
from solver.greedy.fgd import FragmentationGradient
from solver.greedy.orders import ArrivalOrder
from solver.state import states_after
from tests.paths import needs_shared
from tests.solver.greedy import openb

if TYPE_CHECKING:
    from solver.greedy.scoring import PlacementPolicy
    from solver.problem import Problem

CLUSTER_MILLI = 6_212_000

pytestmark = needs_shared


@pytest.fixture(scope="module")
def file_order() -> tuple[Problem, TargetWorkload]:
    rows = openb.read("openb_pod_list_default.csv")
    return openb.problem(rows), TargetWorkload(openb.targets(rows), population=len(rows))


def test_the_target_workload_has_the_published_weights(
    file_order: tuple[Problem, TargetWorkload],
) -> None:
    problem, workload = file_order

    tasks = workload.tasks_on(problem.nodes[0])

    assert len(tasks) == 35
    first = tasks[0]
    assert (first.cpu_milli, first.gpu_milli, first.gpus) == (3152, 810, 1)
    assert first.weight == pytest.approx(0.134818, abs=5e-7)


@pytest.mark.parametrize(
    ("name", "allocated_milli", "failed", "fragmentation_milli"),
    [
        ("dot-product", 5_417_520, 777, 776_671.5),
        ("gpu-clustering", 5_502_550, 663, 671_302.1),
        ("gpu-packing", 5_541_790, 614, 646_224.9),
        ("best-fit", 5_685_920, 457, 509_741.9),
        ("fgd", 5_857_560, 266, 346_481.8),
    ],
)
def test_in_file_order_every_policy_ends_where_the_independent_replay_did(
    file_order: tuple[Problem, TargetWorkload],
    name: str,
    allocated_milli: int,
    failed: int,
    fragmentation_milli: float,
) -> None:
    problem, workload = file_order
    policy: PlacementPolicy = PLACEMENTS[name](problem, 1)
    if name == "fgd":
        policy = FragmentationGradient(workload)

    plan = make_plan(problem, ArrivalOrder(problem), policy)

    after = states_after(problem, plan)
    fragments = sum(workload.fragmentation_milli(n, after[n.name]) for n in problem.nodes)
    assert CLUSTER_MILLI - sum(state.free_milli for state in after.values()) == allocated_milli
    assert len(problem.jobs) - len(plan.placements) == failed
    assert fragments == pytest.approx(fragmentation_milli, abs=0.05)


def test_every_policy_places_three_hundred_pods_at_once(
    file_order: tuple[Problem, TargetWorkload],
) -> None:
    problem = openb.problem(openb.read("openb_pod_list_default.csv")[:300])

    for policy in POLICIES.values():
        assert len(policy.place(problem).placements) == 300, policy.name
