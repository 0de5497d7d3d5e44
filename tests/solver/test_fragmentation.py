"""Fragmentation as defined by Weng et al. (ATC 2023), by hand."""

from __future__ import annotations

import pytest

from solver.cluster import Taint
from solver.fragmentation import (
    TargetTask,
    TargetWorkload,
    cluster_fragmentation_milli,
    node_fragmentation_milli,
)
from solver.state import NodeState, initial_states
from tests.scenario import Scenario, shape

LEFT = (300, 1000, 600, 0)
HALF = TargetTask(weight=1, cpu_milli=4000, gpus=1, gpu_milli=500)


def test_the_worked_example_of_the_paper_gives_1100() -> None:
    tasks = (
        TargetTask(weight=0.5, cpu_milli=4000, gpus=1, gpu_milli=500),
        TargetTask(weight=0.3, cpu_milli=8000, gpus=2, gpu_milli=1000),
        TargetTask(weight=0.2, cpu_milli=2000),
    )

    assert node_fragmentation_milli(10_000, LEFT, tasks) == 1100


def test_a_task_that_fits_wastes_only_the_devices_that_are_too_small_for_it() -> None:
    assert node_fragmentation_milli(4000, LEFT, [HALF]) == 300


def test_a_task_without_enough_cpu_wastes_everything() -> None:
    assert node_fragmentation_milli(3999, LEFT, [HALF]) == 1900


def test_a_node_without_a_cpu_limit_never_lacks_cpu() -> None:
    assert node_fragmentation_milli(None, LEFT, [HALF]) == 300


def test_a_cpu_only_task_wastes_everything_whether_its_cpu_fits_or_not() -> None:
    task = TargetTask(weight=1, cpu_milli=2000)

    assert node_fragmentation_milli(2000, LEFT, [task]) == 1900
    assert node_fragmentation_milli(1999, LEFT, [task]) == 1900


def test_a_task_that_may_not_come_to_the_node_wastes_everything() -> None:
    barred = TargetTask(weight=1, gpus=1, gpu_milli=500, has_access=False)

    assert node_fragmentation_milli(None, LEFT, [barred]) == 1900


def test_on_a_mixed_node_each_device_has_its_own_need() -> None:
    needs = (400, 400, 800, 800)
    task = TargetTask(weight=1, gpus=1, gpu_milli=800, gpu_milli_by_device=needs)

    assert node_fragmentation_milli(None, LEFT, [task]) == 300 + 600


def test_the_tasks_of_a_workload_see_models_labels_and_taints() -> None:
    story = Scenario(shuffle=False).node("a", gpus=2).node("v", gpus=["V100"] * 2)
    story.node("z", gpus=2, labels={"zone": "z"}).node("t", gpus=2, taints=[Taint(key="k")])
    nodes = {node.name: node for node in story.problem().nodes}
    workload = TargetWorkload(
        [(shape(1, models=["V100"]), 1), (shape(1, selector={"zone": "z"}), 1), (shape(1), 2)]
    )

    access = {name: [t.has_access for t in workload.tasks_on(node)] for name, node in nodes.items()}

    assert access == {
        "a": [False, False, True],
        "v": [True, False, True],
        "z": [False, True, True],
        "t": [False, False, False],
    }


def test_weights_sum_to_one_whatever_they_were_chosen_from() -> None:
    node = Scenario().node("n", gpus=1).problem().nodes[0]
    shapes = [(shape(1), 3), (shape(0.5), 4)]

    for workload in (TargetWorkload(shapes), TargetWorkload(shapes, population=9)):
        weights = [task.weight for task in workload.tasks_on(node)]
        assert weights == pytest.approx([3 / 7, 4 / 7])


def test_a_share_by_memory_needs_a_different_part_of_every_kind_of_gpu() -> None:
    story = Scenario(shuffle=False).node("m40", gpus=2, gpu_memory_gib=40)
    story.node("m80", gpus=2, gpu_memory_gib=80)
    small, large = story.problem().nodes
    workload = TargetWorkload([(shape(gpu_memory_gib=20), 1)])
    left = NodeState((400, 1000), None, None)

    assert workload.fragmentation_milli(small, left) == 400
    assert workload.fragmentation_milli(large, left) == 0


def test_remembered_values_equal_those_computed_afresh() -> None:
    node = Scenario().node("n", gpus=4, cpu=10).problem().nodes[0]
    workload = TargetWorkload([(shape(0.5, cpu=4), 5), (shape(2, cpu=8), 3), (shape(cpu=2), 2)])
    states = [NodeState((300, 1000, 600, 0), c, None) for c in (10_000, 9_000, 8_000, 7_999, 0)]
    states += [NodeState((1000, 0, 300, 600), c, None) for c in (10_000, 3_999)]

    for state in states:
        fresh = node_fragmentation_milli(state.cpu_left, state.gpu_left, workload.tasks_on(node))
        assert workload.fragmentation_milli(node, state) == fresh


def test_the_cluster_counts_the_nodes_that_take_replicas() -> None:
    story = Scenario().node("n", gpus=2, cpu=1).node("off", gpus=2, cordoned=True)
    story.node("down", gpus=2, ready=False).reference((shape(1, cpu=2), 1))
    problem = story.problem()

    assert cluster_fragmentation_milli(problem, initial_states(problem)) == 2000


def test_running_work_leaves_fragments() -> None:
    story = Scenario().node("n", gpus=2).reference((shape(1), 1))
    story.running("r", "n", [0], share=0.4)
    problem = story.problem()

    assert cluster_fragmentation_milli(problem, initial_states(problem)) == 600


def test_without_a_reference_nothing_is_a_fragment() -> None:
    problem = Scenario().node("n", gpus=2).job("cpu", cpu=1).problem()

    assert cluster_fragmentation_milli(problem, initial_states(problem)) == 0
