"""What CP-SAT makes of small situations, one contract rule or tier each."""

from __future__ import annotations

import pytest

from solver.cluster import Taint, Toleration
from solver.result import SolveStatus
from tests.scenario import Scenario, role, shape

PAIRS = {(0, 2): "NV12", (1, 3): "NV12"}


def test_a_gang_that_is_one_gpu_too_large_does_not_sit_on_the_rest():
    story = Scenario().node("n1", gpus=3).job("G", replicas=4, gpus=1).job("S", gpus=1)

    outcome = story.solve()

    outcome.expect("G").waits("impossible", holds=0)
    outcome.expect("S").placed(1)
    assert outcome.result.status is SolveStatus.OPTIMAL


def test_the_older_of_two_equal_jobs_starts():
    story = Scenario().node("n1", gpus=1).job("zeta", gpus=1).job("alpha", gpus=1)

    outcome = story.solve()

    outcome.expect("zeta").placed(1)
    outcome.expect("alpha").waits("gpu-short")


def test_a_higher_priority_goes_before_more_gpus():
    story = Scenario().node("n1", gpus=4)
    story.job("large", gpus=4).job("urgent", gpus=1, priority=10)

    outcome = story.solve()

    outcome.expect("urgent").placed(1)
    outcome.expect("large").waits()


def test_more_gpus_go_before_age():
    story = Scenario().node("n1", gpus=4).job("old", gpus=3).job("new", gpus=4)

    story.solve().expect("new").placed(1)


def test_minimums_of_all_come_before_the_surplus_of_one():
    story = Scenario().node("n1", gpus=4)
    story.job("elastic", replicas=4, minimum=1, gpus=1).job("fixed", replicas=3, gpus=1)

    outcome = story.solve()

    outcome.expect("elastic").placed(1)
    outcome.expect("fixed").placed(3)


def test_an_elastic_gang_takes_what_is_left():
    story = Scenario().node("n1", gpus=3).job("elastic", replicas=5, minimum=2, gpus=1)

    story.solve().expect("elastic").placed(3)


def test_a_start_group_waits_for_its_last_member():
    story = Scenario().node("n1", gpus=2)
    story.job("a", gpus=1, start_group="g").job("b", gpus=2, start_group="g").job("c", gpus=1)

    outcome = story.solve()

    outcome.expect("a").waits()
    outcome.expect("b").waits()
    outcome.expect("c").placed(1)


def test_independent_replicas_start_one_by_one():
    story = Scenario().node("n1", gpus=2).job("j", replicas=3, gang=False, gpus=1)

    story.solve().expect("j").placed(2)


def test_the_cpu_hungry_job_goes_where_cpus_are():
    story = Scenario().node("n16", gpus=8, cpu=16).node("n32", gpus=8, cpu=32)
    story.job("md", gpus=1, cpu=12).job("many", replicas=15, gang=False, gpus=1, cpu=1)

    outcome = story.solve()

    outcome.expect("md").on("n32")
    outcome.expect("many").placed(15)
    assert outcome.result.metrics.stranded_gpus == 0


def test_replicas_without_gpus_leave_the_cpus_of_gpu_nodes_alone():
    story = Scenario().node("g", gpus=1, cpu=4).node("c", cpu=4)
    story.job("cpu", replicas=2, gang=False, cpu=2).job("gpu", gpus=1, cpu=4)

    outcome = story.solve()

    outcome.expect("cpu").on("c", "c")
    outcome.expect("gpu").on("g")


def test_a_pair_gets_a_bridge_and_a_single_leaves_the_other_bridge_whole():
    story = Scenario().node("n1", gpus=4, links=PAIRS).node("n2", gpus=1)
    story.job("pair", gpus=2, link="preferred").job("single", gpus=1)
    story.reference((shape(2, link="required"), 1))

    outcome = story.solve()

    outcome.expect("pair").gpus([0, 2], [1, 3])
    outcome.expect("single").on("n2")


def test_no_bridge_is_no_start_where_a_link_is_required():
    story = Scenario().node("n1", gpus=4, links=PAIRS).running("r", "n1", [0, 1])

    outcome = story.job("pair", gpus=2, link="required").solve()

    outcome.expect("pair").waits("no-nvlink-set")


def test_a_gang_is_kept_in_one_rack_although_others_have_room():
    story = Scenario(levels=["rack"])
    for name, gpus, rack in (("a1", 4, "A"), ("a2", 3, "A"), ("b1", 5, "B"), ("b2", 2, "B")):
        story.node(name, gpus=gpus, at={"rack": rack})
    roles = [role("leader", gpus=1), role("workers", 2, gpus=3)]

    outcome = story.job("L", roles=roles, within="rack").solve()

    outcome.expect("L", "leader").on("a1")
    outcome.expect("L", "workers").on("a1", "a2")


def test_a_gang_prefers_few_racks():
    story = Scenario(levels=["rack"])
    for name, rack in (("n1", "A"), ("n2", "B"), ("n3", "C"), ("n4", "B")):
        story.node(name, gpus=1, at={"rack": rack})

    story.job("j", replicas=2, gpus=1).solve().expect("j").on("n2", "n4")


def test_a_gang_too_wide_for_any_domain_waits_for_ever():
    story = Scenario()
    for name, domain in (("n1", "d1"), ("n2", "d1"), ("n3", "d2"), ("n4", "d2")):
        story.node(name, gpus=4, at={"domain": domain})

    outcome = story.job("nccl", replicas=4, gpus=4, within="domain").solve()

    outcome.expect("nccl").waits("no-domain-big-enough", needs_nodes=4, largest_domain_nodes=2)


def test_replicas_are_spread():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=1).node("n3", gpus=1)

    outcome = story.job("web", replicas=3, gang=False, gpus=1, spread_over="node").solve()

    outcome.expect("web").on("n1", "n2", "n3")


def test_a_limit_stops_a_queue_and_not_its_neighbour():
    story = Scenario().queue("red", limit=1).queue("blue").node("n1", gpus=4)
    story.job("r1", gpus=1, queue="red").job("r2", gpus=1, queue="red").job(
        "b", gpus=2, queue="blue"
    )

    outcome = story.solve()

    outcome.expect("r1").placed(1)
    outcome.expect("r2").waits("queue-limit")
    outcome.expect("b").placed(1)


def test_a_quota_is_served_before_a_priority():
    story = Scenario().queue("red", quota=1).queue("blue").node("n1", gpus=1)
    story.job("urgent", gpus=1, queue="blue", priority=100).job("owner", gpus=1, queue="red")

    outcome = story.solve()

    outcome.expect("owner").placed(1)
    outcome.expect("urgent").waits()


def test_two_queues_of_equal_weight_share_alike():
    story = Scenario().queue("red").queue("blue").node("n1", gpus=4)
    story.job("r", replicas=4, gang=False, gpus=1, queue="red")
    story.job("b", replicas=4, gang=False, gpus=1, queue="blue")

    outcome = story.solve()

    outcome.expect("r").placed(2)
    outcome.expect("b").placed(2)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"taints": [Taint(key="team", value="red")]}, "taint"),
        ({"labels": {"zone": "b"}}, "label"),
        ({"gpus": ["V100"]}, "model-mismatch"),
        ({"cpu": 1}, "cpu-short"),
        ({"memory_gib": 1}, "mem-short"),
    ],
    ids=["taint", "label", "model", "cpu", "memory"],
)
def test_the_one_rule_in_the_way_is_named(node, reason):
    story = Scenario().node("n1", **{"gpus": ["A100"], "labels": {"zone": "a"}, **node})
    # A node that would do but is full: without it the request would be impossible.
    story.node("full", gpus=["A100"], cpu=8, memory_gib=64, labels={"zone": "a"})
    story.running("r", "full", [0], cpu=8, memory_gib=64)
    story.job(
        "j",
        gpus=1,
        cpu=2,
        memory_gib=2,
        models=["A100"],
        selector={"zone": "a"},
        tolerations=[Toleration(key="team", value="blue")],
    )

    story.solve().expect("j").waits(reason)
