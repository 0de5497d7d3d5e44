"""Where each policy puts a replica, in situations that tell it from the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from solver.greedy import POLICIES, UnknownPolicyError, parse_policy, place
from solver.greedy.board import node_classes
from solver.solution import Placement
from tests.scenario import Scenario, shape
from topology.graph import NodeTopology


def only(story: Scenario, policy: str, job: str = "new") -> Placement:
    """Where the single replica of a job goes."""
    (placement,) = place(story.problem(), policy).by_job[job]
    return placement


def three_nodes() -> Scenario:
    """Idle, nearly full, half full, in this order; 8 GPUs and 64 CPU each."""
    story = Scenario(shuffle=False)
    for name in ("idle", "full", "half"):
        story.node(name, gpus=8, cpu=64)
    story.running("f", "full", [0, 1, 2, 3, 4, 5], cpu=48)
    story.running("h", "half", [0, 1, 2, 3], cpu=32)
    return story.job("new", gpus=1, cpu=1)


def test_the_policies_have_the_names_of_the_contract_in_its_order() -> None:
    assert list(POLICIES) == [
        "first-fit",
        "best-fit",
        "worst-fit",
        "dominant-fit",
        "dot-product",
        "gpu-packing",
        "gpu-clustering",
        "fgd",
        "random",
        "topology-aware",
        "drf",
    ]


@pytest.mark.parametrize(
    ("policy", "node"),
    [
        ("first-fit", "idle"),
        ("best-fit", "full"),
        ("worst-fit", "idle"),
        ("dominant-fit", "full"),
        ("dot-product", "full"),
        ("gpu-packing", "full"),
        ("topology-aware", "full"),
        ("drf", "full"),
    ],
)
def test_policies_differ_on_how_full_a_node_they_like(policy: str, node: str) -> None:
    assert only(three_nodes(), policy).node == node


def test_first_fit_passes_over_nodes_without_room() -> None:
    story = three_nodes().job("big", gpus=8, priority=1)

    assert only(story, "first-fit", "big").node == "idle"
    assert only(story, "first-fit", "new").node == "full"


def test_dominant_fit_avoids_the_node_whose_one_leftover_is_large() -> None:
    """Left after placing: 75 % CPU and 12 % GPU, or 50 % of both: best fit takes the former."""
    story = Scenario(shuffle=False).node("cpu-rich", gpus=8, cpu=64).node("even", gpus=8, cpu=64)
    story.running("a", "cpu-rich", [0, 1, 2, 3, 4, 5], cpu=16)
    story.running("b", "even", [0, 1, 2], cpu=32)
    story.job("new", gpus=1)

    assert only(story, "best-fit").node == "cpu-rich"
    assert only(story, "dominant-fit").node == "even"


def test_dot_product_weighs_what_is_left_by_what_is_asked() -> None:
    """A replica that needs mostly CPU goes where little CPU is, however many GPUs are there."""
    story = (
        Scenario(shuffle=False).node("few-gpus", gpus=8, cpu=64).node("few-cpus", gpus=8, cpu=64)
    )
    story.running("a", "few-gpus", [0, 1, 2, 3, 4, 5, 6])
    story.running("b", "few-cpus", [0], cpu=32)
    story.job("new", gpus=1, cpu=32)

    assert only(story, "best-fit").node == "few-gpus"
    assert only(story, "dot-product").node == "few-cpus"


def test_gpu_packing_puts_a_share_onto_a_gpu_that_is_shared_already() -> None:
    """The node with a shared GPU is emptier, so best fit prefers the other one."""
    story = Scenario(shuffle=False).node("fuller", gpus=4, cpu=8).node("shared", gpus=4, cpu=8)
    story.running("a", "fuller", [0, 1, 2])
    story.running("b", "shared", [1], share=0.5)
    story.job("new", gpus=0.4)

    assert only(story, "best-fit").node == "fuller"
    assert only(story, "gpu-packing") == Placement("new", "new", 0, "shared", (1,), 400)


def test_gpu_clustering_joins_its_own_kind_running_or_placed() -> None:
    story = Scenario(shuffle=False).node("pairs", gpus=8, cpu=8).node("ones", gpus=8, cpu=8)
    story.node("none", gpus=8, cpu=8)
    story.running("p", [("pairs", [0, 1]), ("pairs", [2, 3])]).running("o", "ones", [0])
    story.job("new", gpus=1).job("pair", gpus=2).job("quad", gpus=4).job("quad-2", gpus=4)
    problem = story.problem()

    plan = place(problem, "gpu-clustering")

    nodes = {p.job: p.node for p in plan.placements}
    assert nodes == {"new": "ones", "pair": "pairs", "quad": "none", "quad-2": "none"}
    assert only(story, "best-fit", "new").node == "pairs"


def test_fgd_breaks_the_gpus_that_nobody_could_use_whole() -> None:
    """Jobs want pairs: the odd GPU of one node is a fragment anyway, so the single goes there."""
    story = Scenario(shuffle=False).node("pair-left", gpus=8, cpu=99).node("odd", gpus=8, cpu=99)
    story.running("a", "pair-left", [0, 1, 2, 3, 4, 5]).running("b", "odd", [0])
    story.reference((shape(8), 1), (shape(2), 9)).job("new", gpus=1)

    assert only(story, "best-fit").node == "pair-left"
    assert only(story, "fgd").node == "odd"


def test_fgd_picks_the_device_by_score_and_not_by_least_left() -> None:
    """0.3 on the device with 0.5 left would leave 0.2, of no use to tasks of 0.4."""
    story = Scenario(shuffle=False).node("n", gpus=2)
    story.running("a", "n", [0], share=0.3).running("b", "n", [1], share=0.5)
    story.reference((shape(0.4), 1)).job("new", gpus=0.3)

    assert only(story, "best-fit").gpus == (1,)
    assert only(story, "fgd").gpus == (0,)


def test_random_draws_the_same_for_the_same_seed_and_every_node_for_many() -> None:
    problem = three_nodes().problem()

    drawn = [place(problem, "random", seed).placements for seed in range(40)]

    again = [place(problem, "random", seed).placements for seed in range(40)]
    assert drawn == again
    assert set(Counter(p.node for (p,) in drawn)) == {"idle", "full", "half"}


def test_random_draws_the_gpu_of_a_share_too() -> None:
    problem = Scenario().node("n", gpus=4).job("new", gpus=0.5).problem()

    gpus = {place(problem, "random", seed).placements[0].gpus for seed in range(40)}

    assert gpus == {(0,), (1,), (2,), (3,)}


def test_topology_aware_takes_the_set_that_loses_no_bandwidth() -> None:
    pairs = {(0, 2): "NV12", (1, 3): "NV12"}
    story = Scenario(shuffle=False).node("n", gpus=4, links=pairs).job("new", gpus=2)

    assert only(story, "first-fit").gpus == (0, 1)
    assert only(story, "topology-aware").gpus == (0, 2)


def test_topology_aware_goes_where_a_linked_pair_is_left() -> None:
    pairs = {(0, 1): "NV12", (2, 3): "NV12"}
    story = Scenario(shuffle=False).node("torn", gpus=4, links=pairs)
    story.node("whole", gpus=4, links=pairs)
    story.running("a", "torn", [0]).running("b", "torn", [2]).job("new", gpus=2)

    assert only(story, "best-fit").node == "torn"
    assert only(story, "topology-aware").node == "whole"


def test_topology_aware_never_puts_a_required_link_on_unlinked_gpus() -> None:
    pairs = {(0, 1): "NV12", (2, 3): "NV12"}
    story = Scenario(shuffle=False).node("torn", gpus=4, links=pairs)
    story.running("a", "torn", [0]).running("b", "torn", [2])
    story.job("needs", gpus=2, link="required").job("likes", gpus=2, link="preferred")

    plan = place(story.problem(), "topology-aware")

    assert [(p.job, p.gpus) for p in plan.placements] == [("likes", (1, 3))]


def test_topology_aware_keeps_a_gang_in_the_smallest_group_that_has_room() -> None:
    story = Scenario(levels=["rack"], shuffle=False)
    for n in range(4):
        story.node(f"big-{n}", gpus=8, at={"rack": "big"})
    for n in range(2):
        story.node(f"small-{n}", gpus=8, at={"rack": "small"})
    story.job("gang", replicas=2, gpus=8)

    nodes = {p.node for p in place(story.problem(), "topology-aware").placements}

    assert nodes == {"small-0", "small-1"}
    assert {p.node for p in place(story.problem(), "first-fit").placements} == {"big-0", "big-1"}


def test_topology_aware_descends_to_one_node_where_one_has_room() -> None:
    story = Scenario(levels=["rack"], shuffle=False)
    story.node("a", gpus=4, at={"rack": "r"}).node("b", gpus=8, at={"rack": "r"})
    story.job("gang", replicas=3, gpus=2)

    plan = place(story.problem(), "topology-aware")

    assert {p.node for p in plan.placements} == {"b"}


def test_topology_aware_spans_few_groups_where_it_must_span_several() -> None:
    story = Scenario(levels=["rack"], shuffle=False)
    for rack, count in (("r0", 1), ("r1", 3), ("r2", 2)):
        for n in range(count):
            story.node(f"{rack}-{n}", gpus=8, at={"rack": rack})
    story.job("gang", replicas=5, gpus=8)

    racks = Counter(p.node[:2] for p in place(story.problem(), "topology-aware").placements)

    assert racks == {"r1": 3, "r2": 2}


def test_equal_machines_from_different_objects_are_one_class() -> None:
    problem = Scenario(shuffle=False).node("a", gpus=2).node("b", gpus=2).problem()
    twin = NodeTopology("twin", ["A100"] * 2, [80 * 1024] * 2)
    nodes = (problem.nodes[0], replace(problem.nodes[1], topology=twin))

    assert node_classes(replace(problem, nodes=nodes)) == [0, 0]


def test_a_label_makes_a_class_only_where_somebody_asks_for_it() -> None:
    story = Scenario(shuffle=False).node("a", gpus=2, labels={"zone": "z"}).node("b", gpus=2)

    assert node_classes(story.problem()) == [0, 0]
    assert node_classes(story.job("new", gpus=1, selector={"zone": "z"}).problem()) == [0, 1]


@pytest.mark.parametrize("name", ["fifo-skip+fgd", "priority+random", "drf+topology-aware"])
def test_an_order_and_a_placement_make_a_policy_under_the_name_as_typed(name: str) -> None:
    assert parse_policy(name).name == name


@pytest.mark.parametrize(
    ("name", "near"),
    [("best-fitt", "best-fit"), ("drf+worstfit", "worst-fit"), ("fifo+fgd", "fifo-skip")],
)
def test_an_unknown_policy_is_answered_with_the_nearest_names(name: str, near: str) -> None:
    with pytest.raises(UnknownPolicyError, match=near) as caught:
        parse_policy(name)

    assert near in caught.value.near
    assert near in caught.value.known


def test_an_order_that_needs_time_is_refused_with_the_reason() -> None:
    with pytest.raises(UnknownPolicyError, match="only a simulation"):
        parse_policy("easy+best-fit")


@pytest.mark.parametrize("name", ["", "+", "cp-sat", "priority", "drf+", "+fgd"])
def test_half_a_name_is_no_name(name: str) -> None:
    with pytest.raises(UnknownPolicyError):
        parse_policy(name)
