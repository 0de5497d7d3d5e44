"""Every rule: the smallest right plan, the smallest wrong plan, and what is said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from solver.cluster import Taint, Toleration
from solver.verify import Rule, explain_violations, verify
from tests.scenario import Scenario, place, plan, role

if TYPE_CHECKING:
    from solver.solution import Placement

INFRA = Taint(key="dedicated", value="infra")
SQUARE = {(0, 1): "NV2", (1, 2): "NV2", (2, 3): "NV2", (0, 3): "NV2"}
PAIRS = {(0, 2): "NV12", (1, 3): "NV12"}


def finds_nothing(story: Scenario, *placements: Placement) -> None:
    found = verify(story.problem(), plan(*placements))

    assert not found, explain_violations(found)


def finds(story: Scenario, *placements: Placement, rule: Rule, subject: str, text: str) -> None:
    """Exactly one violation, and this is what it says."""
    found = verify(story.problem(), plan(*placements))

    assert [(v.rule, v.subject) for v in found] == [(rule, subject)], explain_violations(found)
    assert found[0].text == text


def one_node(**node: object) -> Scenario:
    return Scenario().node("n1", **{"gpus": 2, **node})  # type: ignore[arg-type]


# Identity


def test_a_plan_that_starts_nothing_breaks_no_rule():
    finds_nothing(one_node().job("j", gpus=1))


def test_a_pending_replica_on_a_free_gpu_breaks_no_rule():
    finds_nothing(one_node().job("j", gpus=1), place("j", "n1", [0]))


def test_a_job_that_is_not_pending_cannot_start():
    story = one_node().running("r", "n1", [0])

    finds(
        story,
        place("r", "n1", [1]),
        rule=Rule.IDENTITY,
        subject="r",
        text='replica 0 of job "r": no such job is pending',
    )


def test_a_role_that_the_job_does_not_have_cannot_start():
    finds(
        one_node().job("j", gpus=1),
        place("j", "n1", [0], role="leader"),
        rule=Rule.IDENTITY,
        subject="j",
        text='replica 0 of job "j/leader": the job has no such role',
    )


@pytest.mark.parametrize("replica", [-1, 2])
def test_a_replica_beyond_those_of_the_role_cannot_start(replica):
    finds(
        one_node().job("j", replicas=2, gang=False, gpus=1),
        place("j", "n1", [0], replica=replica),
        rule=Rule.IDENTITY,
        subject="j",
        text=f'replica {replica} of job "j": the role has replicas 0 to 1',
    )


def test_a_replica_cannot_start_twice():
    finds(
        one_node().job("j", gpus=1),
        place("j", "n1", [0]),
        place("j", "n1", [1]),
        rule=Rule.IDENTITY,
        subject="j",
        text='replica 0 of job "j": placed 2 times',
    )


# Node, taint, label


def test_a_node_that_does_not_exist_takes_nothing():
    finds(
        one_node().job("j", gpus=1),
        place("j", "n9", [0]),
        rule=Rule.NODE,
        subject="n9",
        text='replica 0 of job "j": no node "n9"',
    )


@pytest.mark.parametrize(
    ("state", "said"), [({"ready": False}, "is not ready"), ({"cordoned": True}, "is cordoned")]
)
def test_a_node_that_is_not_ready_or_cordoned_takes_nothing(state, said):
    finds(
        one_node(**state).job("j", gpus=1),
        place("j", "n1", [0]),
        rule=Rule.NODE,
        subject="n1",
        text=f'replica 0 of job "j": node "n1" {said}',
    )


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(key="dedicated", value="infra"),
        Toleration(key="dedicated", operator="Exists"),
        Toleration(operator="Exists"),
        Toleration(key="dedicated", operator="Exists", effect="NoSchedule"),
    ],
)
def test_a_tolerated_taint_is_no_obstacle(toleration):
    story = one_node(taints=[INFRA]).job("j", gpus=1, tolerations=[toleration])

    finds_nothing(story, place("j", "n1", [0]))


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [Toleration(key="dedicated", value="web")],
        [Toleration(key="other", operator="Exists")],
        [Toleration(key="dedicated", operator="Exists", effect="PreferNoSchedule")],
    ],
    ids=["none", "other value", "other key", "other effect"],
)
def test_a_taint_that_is_not_tolerated_repels(effect, tolerations):
    taint = Taint(key="dedicated", value="infra", effect=effect)

    finds(
        one_node(taints=[taint]).job("j", gpus=1, tolerations=tolerations),
        place("j", "n1", [0]),
        rule=Rule.TAINT,
        subject="j",
        text=f'replica 0 of job "j": does not tolerate the taint dedicated=infra:{effect} '
        'of node "n1"',
    )


def test_a_taint_that_only_discourages_is_not_a_rule():
    soft = Taint(key="dedicated", effect="PreferNoSchedule")

    finds_nothing(one_node(taints=[soft]).job("j", gpus=1), place("j", "n1", [0]))


def test_a_selector_needs_the_label_with_that_value():
    story = one_node(labels={"zone": "b"}).job("j", gpus=1, selector={"zone": "a"})

    finds_nothing(one_node(labels={"zone": "a"}).job("j", selector={"zone": "a"}), place("j", "n1"))
    finds(
        story,
        place("j", "n1", [0]),
        rule=Rule.LABEL,
        subject="j",
        text="replica 0 of job \"j\": wants label zone='a', node \"n1\" has 'b'",
    )


def test_a_node_without_the_label_is_no_match():
    finds(
        one_node().job("j", gpus=1, selector={"zone": ""}),
        place("j", "n1", [0]),
        rule=Rule.LABEL,
        subject="j",
        text='replica 0 of job "j": wants label zone=\'\', node "n1" has no such label',
    )


def test_every_node_carries_its_hostname_as_a_label():
    story = one_node().node("n2", gpus=1)
    story.job("j", gpus=1, selector={"kubernetes.io/hostname": "n2"})

    finds_nothing(story, place("j", "n2", [0]))
    finds(
        story,
        place("j", "n1", [0]),
        rule=Rule.LABEL,
        subject="j",
        text="replica 0 of job \"j\": wants label kubernetes.io/hostname='n2', "
        "node \"n1\" has 'n1'",
    )


# GPUs


@pytest.mark.parametrize("given", [[], [0, 1]])
def test_a_replica_gets_as_many_gpus_as_it_asks_for(given):
    finds(
        one_node().job("j", gpus=1),
        place("j", "n1", given),
        rule=Rule.GPU,
        subject="j",
        text=f'replica 0 of job "j": wants 1 GPUs and is given {len(given)}',
    )


def test_a_replica_that_asks_for_no_gpu_gets_none():
    finds(
        one_node().job("j", cpu=1),
        place("j", "n1", [0]),
        rule=Rule.GPU,
        subject="j",
        text='replica 0 of job "j": wants 0 GPUs and is given 1',
    )


def test_the_same_gpu_does_not_count_twice():
    found = verify(one_node().job("j", gpus=2).problem(), plan(place("j", "n1", [1, 1])))

    assert [v.rule for v in found] == [Rule.GPU, Rule.HELD]
    assert found[0].text == 'replica 0 of job "j": is given a GPU twice, [1, 1]'


@pytest.mark.parametrize("gpu", [-1, 2])
def test_a_gpu_that_the_node_does_not_have_cannot_be_taken(gpu):
    finds(
        one_node().job("j", gpus=1),
        place("j", "n1", [gpu]),
        rule=Rule.GPU,
        subject="j",
        text=f'replica 0 of job "j": GPU {gpu} of node "n1" does not exist, it has 2 GPUs',
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [({"unhealthy": [1]}, "is unhealthy"), ({"mig": [1]}, "is cut into MIG instances")],
)
@pytest.mark.parametrize("gpus", [1, 0.5])
def test_an_unhealthy_or_cut_gpu_cannot_be_taken(state, said, gpus):
    story = one_node(**state).job("j", gpus=gpus)

    finds_nothing(story, place("j", "n1", [0], share=gpus))
    finds(
        story,
        place("j", "n1", [1], share=gpus),
        rule=Rule.GPU,
        subject="j",
        text=f'replica 0 of job "j": GPU 1 of node "n1" {said}',
    )


def test_a_gpu_must_be_of_an_allowed_model():
    story = Scenario().node("n1", gpus=["A100", "V100", None])
    story.job("j", gpus=1, models=["A100", "H100"])

    finds_nothing(story, place("j", "n1", [0]))
    for gpu, said in ((1, "is V100"), (2, "is of an unknown model")):
        finds(
            story,
            place("j", "n1", [gpu]),
            rule=Rule.MODEL,
            subject="j",
            text=f'replica 0 of job "j": wants A100 or H100, GPU {gpu} of node "n1" {said}',
        )


# What is held of a GPU


def test_a_gpu_cannot_be_taken_from_running_work():
    finds(
        one_node().running("r", "n1", [0]).job("j", gpus=1),
        place("j", "n1", [0]),
        rule=Rule.HELD,
        subject="n1",
        text='GPU 0 of node "n1": running work holds 1000 thousandths, '
        "the plan adds 1000, 1000 too many",
    )


def test_two_replicas_cannot_take_the_same_gpu():
    finds(
        one_node().job("a", gpus=1).job("b", gpus=1),
        place("a", "n1", [0]),
        place("b", "n1", [0]),
        rule=Rule.HELD,
        subject="n1",
        text='GPU 0 of node "n1": running work holds 0 thousandths, '
        "the plan adds 2000, 1000 too many",
    )


def test_the_gpus_of_another_node_are_other_gpus():
    story = one_node().node("n2", gpus=2).job("a", gpus=1).job("b", gpus=1)

    finds_nothing(story, place("a", "n1", [0]), place("b", "n2", [0]))


def test_a_tenth_and_nine_tenths_make_exactly_one_gpu():
    story = one_node().running("r", "n1", [0], share=0.1)

    finds_nothing(story.job("j", gpus=0.9), place("j", "n1", [0], share=0.9))


def test_shares_of_one_gpu_cannot_exceed_it():
    finds(
        one_node().running("r", "n1", [0], share=0.5).job("j", gpus=0.501),
        place("j", "n1", [0], share=0.501),
        rule=Rule.HELD,
        subject="n1",
        text='GPU 0 of node "n1": running work holds 500 thousandths, '
        "the plan adds 501, 1 too many",
    )


def test_a_whole_gpu_must_be_wholly_free():
    finds(
        one_node().running("r", "n1", [0], share=0.001).job("j", gpus=1),
        place("j", "n1", [0]),
        rule=Rule.HELD,
        subject="n1",
        text='GPU 0 of node "n1": running work holds 1 thousandths, the plan adds 1000, 1 too many',
    )


def test_a_share_is_as_large_as_was_asked():
    finds(
        one_node().job("j", gpus=0.5),
        place("j", "n1", [0], share=0.4),
        rule=Rule.SHARE,
        subject="j",
        text='replica 0 of job "j": needs 500 thousandths of GPU 0 of node "n1" and is given 400',
    )


def test_a_share_is_of_one_gpu():
    finds(
        one_node().job("j", gpus=0.5),
        place("j", "n1", [0, 1], share=0.5),
        rule=Rule.GPU,
        subject="j",
        text='replica 0 of job "j": wants 1 GPUs and is given 2',
    )


def test_a_whole_gpu_is_not_given_as_a_share():
    finds(
        one_node().job("j", gpus=1),
        place("j", "n1", [0], share=0.5),
        rule=Rule.SHARE,
        subject="j",
        text='replica 0 of job "j": needs 1000 thousandths of GPU 0 of node "n1" and is given 500',
    )


def test_a_share_by_memory_is_rounded_up_to_thousandths_of_the_gpu():
    story = one_node(gpu_memory_gib=24).job("j", gpu_memory_gib=8)

    finds_nothing(story, place("j", "n1", [0], share=0.334))
    finds(
        story,
        place("j", "n1", [0], share=0.333),
        rule=Rule.SHARE,
        subject="j",
        text='replica 0 of job "j": needs 334 thousandths of GPU 0 of node "n1" and is given 333',
    )


def test_three_thirds_by_memory_do_not_fit_since_each_is_rounded_up():
    story = one_node(gpu_memory_gib=24).job("j", replicas=3, gang=False, gpu_memory_gib=8)

    finds(
        story,
        *(place("j", "n1", [0], replica=i, share=0.334) for i in range(3)),
        rule=Rule.HELD,
        subject="n1",
        text='GPU 0 of node "n1": running work holds 0 thousandths, the plan adds 1002, 2 too many',
    )


def test_a_share_of_all_the_memory_is_the_whole_gpu():
    story = one_node(gpu_memory_gib=24).job("j", gpu_memory_gib=24)

    finds_nothing(story, place("j", "n1", [0]))


@pytest.mark.parametrize(("has", "said"), [(16, "16384 MiB"), (None, "unknown memory")])
def test_a_share_by_memory_needs_a_gpu_with_that_much(has, said):
    finds(
        one_node(gpu_memory_gib=has).job("j", gpu_memory_gib=20),
        place("j", "n1", [0]),
        rule=Rule.SHARE,
        subject="j",
        text=f'replica 0 of job "j": wants 20480 MiB of GPU 0 of node "n1" with {said}',
    )


# CPU and memory


def test_cpu_and_memory_may_be_filled_to_the_brim():
    story = one_node(cpu=4, memory_gib=8).running("r", "n1", cpu=1, memory_gib=2)

    finds_nothing(story.job("j", cpu=3, memory_gib=6), place("j", "n1"))


def test_the_cpu_of_a_node_is_not_exceeded():
    story = one_node(cpu=4).running("r", "n1", cpu=1).job("j", replicas=2, gang=False, cpu=2)

    finds_nothing(story, place("j", "n1"))
    finds(
        story,
        place("j", "n1"),
        place("j", "n1", replica=1),
        rule=Rule.CPU,
        subject="n1",
        text='node "n1": gives 4000 milli-CPU, running work holds 1000, '
        "the plan adds 4000, 1000 too many",
    )


def test_the_memory_of_a_node_is_not_exceeded():
    story = one_node(memory_gib=4).running("r", "n1", memory_gib=1)

    finds(
        story.job("j", memory_gib=3.5),
        place("j", "n1"),
        rule=Rule.MEMORY,
        subject="n1",
        text='node "n1": gives 4096 MiB, running work holds 1024, the plan adds 3584, 512 too many',
    )


def test_a_node_without_a_limit_takes_any_amount():
    finds_nothing(one_node().job("j", cpu=10_000, memory_gib=10_000), place("j", "n1"))


def test_a_node_that_running_work_overcommits_still_takes_what_asks_nothing_of_it():
    story = one_node(cpu=1, memory_gib=8).running("r", "n1", cpu=2)
    story.job("gpu", gpus=1, memory_gib=8).job("cpu", cpu=0.001)

    finds_nothing(story, place("gpu", "n1", [0]))
    finds(
        story,
        place("cpu", "n1"),
        rule=Rule.CPU,
        subject="n1",
        text='node "n1": gives 1000 milli-CPU, running work holds 2000, '
        "the plan adds 1, 1001 too many",
    )


# Links


def test_a_required_link_wants_a_connected_set_but_not_a_clique():
    story = Scenario().node("n1", gpus=4, links=SQUARE).job("j", gpus=3, link="required")

    finds_nothing(story, place("j", "n1", [0, 1, 2]))


def test_a_set_connected_only_through_a_gpu_outside_it_is_not_linked():
    story = Scenario().node("n1", gpus=4, links=SQUARE).job("j", gpus=2, link="required")

    finds(
        story,
        place("j", "n1", [0, 2]),
        rule=Rule.LINK,
        subject="j",
        text='replica 0 of job "j": GPUs [0, 2] of node "n1" fall into 2 parts '
        "without NVLink between them",
    )


@pytest.mark.parametrize("kind", ["PIX", "PXB", "PHB", "NODE", "SYS"])
def test_pcie_is_no_link(kind):
    story = one_node(links=kind).job("j", gpus=2, link="required")

    finds(
        story,
        place("j", "n1", [0, 1]),
        rule=Rule.LINK,
        subject="j",
        text='replica 0 of job "j": GPUs [0, 1] of node "n1" fall into 2 parts '
        "without NVLink between them",
    )


def test_xgmi_is_a_link_and_a_single_gpu_needs_none():
    story = one_node(links="XGMI").job("two", gpus=2, link="required")
    lonely = one_node().job("one", gpus=1, link="required").job("part", gpus=0.5, link="required")

    finds_nothing(story, place("two", "n1", [0, 1]))
    finds_nothing(lonely, place("one", "n1", [0]), place("part", "n1", [1], share=0.5))


def test_a_preferred_link_is_not_a_rule():
    finds_nothing(one_node().job("j", gpus=2, link="preferred"), place("j", "n1", [0, 1]))


# Gangs and start groups


def test_a_gang_starts_as_a_whole():
    story = one_node().job("j", replicas=2, gpus=1)

    finds_nothing(story, place("j", "n1", [0]), place("j", "n1", [1], replica=1))
    finds(
        story,
        place("j", "n1", [0], replica=1),
        rule=Rule.GANG,
        subject="j",
        text='job "j": starts with 1 replicas, its gang needs 2',
    )


@pytest.mark.parametrize("replicas", [2, 3])
def test_an_elastic_gang_starts_with_anything_from_its_minimum(replicas):
    story = Scenario().node("n1", gpus=3).job("j", replicas=3, minimum=2, gpus=1)

    finds_nothing(story, *(place("j", "n1", [i], replica=i) for i in range(replicas)))


def test_every_role_of_a_gang_reaches_its_minimum():
    roles = [role("leader", gpus=1), role("worker", 3, 1, gpus=1), role("log", 2, 0, cpu=1)]
    story = Scenario().node("n1", gpus=4).job("j", roles=roles)

    finds_nothing(story, place("j", "n1", [0], role="leader"), place("j", "n1", [1], role="worker"))
    finds(
        story,
        place("j", "n1", role="log"),
        place("j", "n1", [1], role="worker"),
        rule=Rule.GANG,
        subject="j",
        text='job "j/leader": starts with 0 replicas, its gang needs 1',
    )


def test_independent_replicas_start_in_any_number():
    story = one_node().job("j", replicas=2, gang=False, gpus=1)

    finds_nothing(story, place("j", "n1", [0], replica=1))


def test_a_start_group_starts_as_a_whole():
    story = one_node().job("a", gpus=1, start_group="g").job("b", gpus=1, start_group="g")

    finds_nothing(story)
    finds_nothing(story, place("a", "n1", [0]), place("b", "n1", [1]))
    finds(
        story,
        place("b", "n1", [0]),
        rule=Rule.START_GROUP,
        subject="g",
        text='start group "g": "b" starts without "a"',
    )


def test_a_job_that_needs_no_replica_does_not_hold_its_group_back():
    story = one_node().job("a", gpus=1, start_group="g").job("b", minimum=0, start_group="g")

    finds_nothing(story, place("a", "n1", [0]))


# Topology


def racks() -> Scenario:
    """Rack r1 of block b1 has two nodes; a rack of the same name is in block b2."""
    story = Scenario(levels=["block", "rack"])
    story.node("n1", gpus=2, at={"block": "b1", "rack": "r1", "domain": "d1"})
    story.node("n2", gpus=2, at={"block": "b1", "rack": "r1", "domain": "d2"})
    story.node("n3", gpus=2, at={"block": "b1", "rack": "r2", "domain": "d2"})
    return story.node("n4", gpus=2, at={"block": "b2", "rack": "r1"})


@pytest.mark.parametrize(
    ("within", "right", "wrong", "said"),
    [
        ("block", "n3", "n4", 'one block and is spread over 2: "b1", "b2"'),
        ("rack", "n2", "n3", 'one rack and is spread over 2: "b1 / r1", "b1 / r2"'),
        ("rack", "n2", "n4", 'one rack and is spread over 2: "b1 / r1", "b2 / r1"'),
        ("node", "n1", "n2", 'one node and is spread over 2: "n1", "n2"'),
        ("domain", "n1", "n2", 'one domain and is spread over 2: "d1", "d2"'),
        ("domain", "n1", "n4", 'one domain and is spread over 2: "d1", "n4"'),
    ],
)
def test_a_gang_stays_in_one_group_of_the_level(within, right, wrong, said):
    story = racks().job("j", replicas=2, gpus=1, within=within)

    finds_nothing(story, place("j", "n1", [0]), place("j", right, [1], replica=1))
    finds(
        story,
        place("j", "n1", [0]),
        place("j", wrong, [1], replica=1),
        rule=Rule.TOPOLOGY,
        subject="j",
        text=f'job "j": wants {said}',
    )


def test_surplus_replicas_and_all_roles_stay_with_their_gang():
    roles = [role("leader", cpu=1), role("worker", 2, 1, gpus=1)]
    story = racks().job("j", roles=roles, within="rack")

    finds(
        story,
        place("j", "n1", role="leader"),
        place("j", "n2", [0], role="worker"),
        place("j", "n3", [0], role="worker", replica=1),
        rule=Rule.TOPOLOGY,
        subject="j",
        text='job "j": wants one rack and is spread over 2: "b1 / r1", "b1 / r2"',
    )


def test_a_preferred_topology_is_not_a_rule():
    story = racks().job("j", replicas=2, gpus=1, prefer_within="rack")

    finds_nothing(story, place("j", "n1", [0]), place("j", "n4", [0], replica=1))


def test_independent_replicas_are_each_a_gang_of_their_own():
    story = racks().job("j", replicas=2, gang=False, gpus=1, within="rack")

    finds_nothing(story, place("j", "n1", [0]), place("j", "n4", [0], replica=1))


def test_a_gang_in_one_island_shares_nvlink():
    story = Scenario().node("n1", gpus=4, links=PAIRS).job("j", replicas=2, gpus=1, within="island")

    finds_nothing(story, place("j", "n1", [0]), place("j", "n1", [2], replica=1))
    finds(
        story,
        place("j", "n1", [0]),
        place("j", "n1", [1], replica=1),
        rule=Rule.TOPOLOGY,
        subject="j",
        text='job "j": wants one island and is spread over 2: '
        '"n1 / GPUs [0, 2]", "n1 / GPUs [1, 3]"',
    )


def test_one_replica_with_gpus_of_two_islands_is_not_in_one():
    story = Scenario().node("n1", gpus=4, links=PAIRS).job("j", gpus=2, within="island")

    finds_nothing(story, place("j", "n1", [1, 3]))
    finds(
        story,
        place("j", "n1", [2, 3]),
        rule=Rule.TOPOLOGY,
        subject="j",
        text='job "j": wants one island and is spread over 2: '
        '"n1 / GPUs [0, 2]", "n1 / GPUs [1, 3]"',
    )


def test_a_gpu_without_nvlink_is_an_island_by_itself():
    story = one_node().job("j", replicas=2, gpus=0.5, within="island")

    finds_nothing(
        story,
        place("j", "n1", [0], share=0.5),
        place("j", "n1", [0], replica=1, share=0.5),
    )
    finds(
        story,
        place("j", "n1", [0], share=0.5),
        place("j", "n1", [1], replica=1, share=0.5),
        rule=Rule.TOPOLOGY,
        subject="j",
        text='job "j": wants one island and is spread over 2: "n1 / GPUs [0]", "n1 / GPUs [1]"',
    )


def test_replicas_without_gpus_need_only_the_node_of_their_island():
    roles = [role("leader", cpu=1), role("worker", gpus=1)]
    story = one_node().node("n2", cpu=8).job("j", roles=roles, within="island")

    finds_nothing(story, place("j", "n1", role="leader"), place("j", "n1", [1], role="worker"))
    finds(
        story,
        place("j", "n2", role="leader"),
        place("j", "n1", [1], role="worker"),
        rule=Rule.TOPOLOGY,
        subject="j",
        text='job "j": wants one island and is spread over 2: "n1 / GPUs [1]", "n2 / no GPU"',
    )


# Spread


@pytest.mark.parametrize(
    ("over", "right", "wrong", "group"),
    [("node", "n2", "n1", "n1"), ("rack", "n3", "n2", "b1 / r1"), ("domain", "n4", "n1", "d1")],
)
def test_at_most_so_many_replicas_are_in_one_group(over, right, wrong, group):
    story = racks().job("j", replicas=2, gpus=1, spread_over=over)

    finds_nothing(story, place("j", "n1", [0]), place("j", right, [1], replica=1))
    finds(
        story,
        place("j", "n1", [0]),
        place("j", wrong, [1], replica=1),
        rule=Rule.SPREAD,
        subject="j",
        text=f'job "j": has 2 replicas in one {over} ({group}), at most 1 may be',
    )


def test_two_per_group_where_two_are_allowed_and_other_jobs_do_not_count():
    story = Scenario().node("n1", gpus=3).job("other", gpus=1)
    story.job("j", replicas=2, gang=False, gpus=1, spread_over="node", max_per=2)

    finds_nothing(
        story,
        place("other", "n1", [2]),
        place("j", "n1", [0]),
        place("j", "n1", [1], replica=1),
    )


# Queue limits


def test_a_queue_stays_within_its_limit_of_gpus():
    story = Scenario().queue("q", limit=1.5).node("n1", gpus=3)
    story.running("r", "n1", [0]).job("half", gpus=0.5).job("one", gpus=1)

    finds_nothing(story, place("half", "n1", [1], share=0.5))
    finds(
        story,
        place("one", "n1", [1]),
        rule=Rule.QUEUE_LIMIT,
        subject="q",
        text='queue "q": may use 1500 thousandths of GPUs, runs 1000, '
        "the plan adds 1000, 500 too many",
    )


def test_a_queue_stays_within_its_limit_of_cpus():
    story = one_node().queue("q", cpu_limit=4).running("r", "n1", cpu=3)

    finds(
        story.job("j", cpu=2),
        place("j", "n1"),
        rule=Rule.QUEUE_LIMIT,
        subject="q",
        text='queue "q": may use 4000 milli-CPU, runs 3000, the plan adds 2000, 1000 too many',
    )


def test_the_limit_of_an_inner_queue_holds_for_all_below_it():
    story = Scenario().queue("top", limit=1).queue("mid", parent="top")
    story.queue("low", parent="mid").queue("aside").node("n1", gpus=3)
    story.running("r", "n1", [0], queue="low").job("j", gpus=1, queue="mid")
    story.job("free", gpus=1, queue="aside")

    finds_nothing(story, place("free", "n1", [1]))
    finds(
        story,
        place("j", "n1", [1]),
        rule=Rule.QUEUE_LIMIT,
        subject="top",
        text='queue "top": may use 1000 thousandths of GPUs, runs 1000, '
        "the plan adds 1000, 1000 too many",
    )


def test_a_queue_that_running_work_puts_over_its_limit_is_not_the_plans_doing():
    story = Scenario().queue("q", limit=1).node("n1", gpus=3, cpu=4)
    story.running("r", "n1", [0, 1]).job("cpu", cpu=1)

    finds_nothing(story, place("cpu", "n1"))


def test_a_share_by_memory_counts_as_on_the_smallest_gpu_that_serves_it():
    story = Scenario().queue("q", limit=0.5).node("small", gpus=1, gpu_memory_gib=40)
    story.node("large", gpus=1, gpu_memory_gib=80).job("j", gpu_memory_gib=24)

    finds(
        story,
        place("j", "large", [0], share=0.3),
        rule=Rule.QUEUE_LIMIT,
        subject="q",
        text='queue "q": may use 500 thousandths of GPUs, runs 0, the plan adds 600, 100 too many',
    )


# All together


def test_all_violations_are_reported_at_once_in_one_line():
    story = one_node(ready=False).job("a", gpus=1).job("b", replicas=2, gpus=1)

    found = verify(
        story.problem(), plan(place("a", "n1", [0]), place("b", "n1", [0]), place("c", "n1"))
    )

    assert [v.rule for v in found] == [Rule.IDENTITY, Rule.NODE, Rule.NODE, Rule.HELD, Rule.GANG]
    assert explain_violations(found[:1]) == (
        '[identity] replica 0 of job "c": no such job is pending'
    )
    assert explain_violations(found).count("; ") == 4
    assert explain_violations([]) == "no rule is broken"
