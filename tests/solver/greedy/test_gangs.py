"""What the common driver owes every policy: gangs, groups, surplus, topology, spread, limits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from solver.greedy import POLICIES, place
from solver.verify import explain_violations, verify
from tests.scenario import Scenario, role

if TYPE_CHECKING:
    from solver.solution import Plan

every_policy = pytest.mark.parametrize("policy", POLICIES)


def solved(story: Scenario, policy: str = "best-fit") -> Plan:
    """The plan of a policy, checked."""
    problem = story.problem()
    plan = place(problem, policy)
    broken = verify(problem, plan)
    assert not broken, explain_violations(broken)
    return plan


def count(plan: Plan) -> dict[str, int]:
    """Replicas placed, by job."""
    return Counter(p.job for p in plan.placements)


@every_policy
def test_a_gang_that_does_not_fit_as_a_whole_leaves_no_trace(policy: str) -> None:
    story = Scenario().node("a", gpus=8).node("b", gpus=4)
    story.job("gang", replicas=4, gpus=4).job("later", replicas=3, gpus=4)

    assert count(solved(story, policy)) == {"later": 3}


@every_policy
def test_independent_replicas_start_as_many_as_fit(policy: str) -> None:
    story = Scenario().node("a", gpus=8).node("b", gpus=4)
    story.job("loose", replicas=4, gang=False, gpus=4)

    plan = solved(story, policy)

    assert count(plan) == {"loose": 3}
    assert sorted(p.replica for p in plan.placements) == [0, 1, 2]


def test_higher_priority_goes_first_then_the_older_job() -> None:
    story = Scenario().node("a", gpus=2)
    story.job("old", gpus=1).job("new", gpus=1).job("urgent", gpus=1, priority=1)

    assert count(solved(story)) == {"urgent": 1, "old": 1}


def test_in_order_of_arrival_priority_does_not_count() -> None:
    story = Scenario().node("a", gpus=2)
    story.job("old", gpus=1).job("new", gpus=1).job("urgent", gpus=1, priority=1)

    assert count(solved(story, "fifo-skip+best-fit")) == {"old": 1, "new": 1}


def test_must_changes_nothing() -> None:
    story = Scenario().node("a", gpus=1).job("old", gpus=1).job("must", gpus=1, must=True)

    assert count(solved(story)) == {"old": 1}


@every_policy
def test_all_minimums_of_a_level_come_before_anybodys_surplus(policy: str) -> None:
    story = Scenario().node("a", gpus=8)
    story.job("elastic", replicas=8, minimum=2, gpus=1).job("rigid", replicas=4, gpus=1)

    assert count(solved(story, policy)) == {"elastic": 4, "rigid": 4}


def test_surplus_of_a_higher_level_comes_before_minimums_of_a_lower_one() -> None:
    story = Scenario().node("a", gpus=8)
    story.job("low", replicas=4, gpus=1)
    story.job("high", replicas=6, minimum=2, gpus=1, priority=1)

    assert count(solved(story)) == {"high": 6}


def test_surplus_goes_to_the_oldest_first() -> None:
    story = Scenario().node("a", gpus=7)
    story.job("old", replicas=4, minimum=2, gpus=1).job("new", replicas=4, minimum=2, gpus=1)

    plan = solved(story)

    assert count(plan) == {"old": 4, "new": 3}
    assert [p.replica for p in plan.by_job["new"]] == [0, 1, 2]


def test_a_job_that_needs_nobody_to_start_takes_what_is_left() -> None:
    story = Scenario().node("a", gpus=3)
    story.job("whatever", replicas=4, minimum=0, gpus=1).job("rigid", replicas=2, gpus=1)

    assert count(solved(story)) == {"rigid": 2, "whatever": 1}


def test_larger_requests_of_a_gang_are_placed_first() -> None:
    """As written, the small replica would break the only node that has room for the large one."""
    story = Scenario(shuffle=False).node("large", gpus=4).node("small", gpus=1)
    story.job("gang", roles=[role("small", gpus=1), role("large", gpus=4)])

    nodes = {p.role: p.node for p in solved(story, "first-fit").placements}

    assert nodes == {"large": "large", "small": "small"}


def test_another_order_of_roles_is_tried_where_larger_first_fails() -> None:
    """The larger role may go anywhere, the smaller one only where the larger would go first."""
    story = Scenario(shuffle=False).node("picky", gpus=2, labels={"zone": "z"}).node("any", gpus=2)
    roles = [role("free", gpus=2), role("bound", gpus=1, selector={"zone": "z"})]

    plan = solved(story.job("gang", roles=roles), "first-fit")

    assert {p.role: p.node for p in plan.placements} == {"free": "any", "bound": "picky"}


@every_policy
def test_a_start_group_starts_as_a_whole_or_not_at_all(policy: str) -> None:
    story = Scenario().node("a", gpus=8)
    story.job("g1", gpus=4, start_group="g").job("g2", gpus=5, start_group="g")
    story.job("alone", gpus=4)

    assert count(solved(story, policy)) == {"alone": 1}


def test_a_start_group_stands_where_its_highest_member_does() -> None:
    story = Scenario().node("a", gpus=4)
    story.job("low", gpus=2, start_group="g").job("middle", gpus=4, priority=1)
    story.job("high", gpus=2, priority=2, start_group="g")

    assert count(solved(story)) == {"low": 1, "high": 1}


def test_minimums_of_a_whole_group_come_before_surplus() -> None:
    story = Scenario().node("a", gpus=8)
    story.job("g1", replicas=8, minimum=2, gpus=1, start_group="g")
    story.job("g2", replicas=3, gpus=1, start_group="g").job("other", replicas=2, gpus=1)

    assert count(solved(story)) == {"g1": 3, "g2": 3, "other": 2}


def test_the_larger_member_of_a_group_goes_first_where_that_is_the_only_way() -> None:
    story = Scenario(shuffle=False).node("large", gpus=4).node("small", gpus=2)
    story.job("first", gpus=2, start_group="g").job("second", gpus=4, start_group="g")

    assert count(solved(story, "first-fit")) == {"first": 1, "second": 1}


@every_policy
def test_a_required_rack_holds_the_whole_gang(policy: str) -> None:
    story = racks({"r0": [8, 8], "r1": [8, 8, 8]})
    story.job("gang", replicas=3, gpus=8, within="rack")

    assert {p.node[:2] for p in solved(story, policy).placements} == {"r1"}


@every_policy
def test_a_gang_waits_where_no_single_rack_has_room(policy: str) -> None:
    story = racks({"r0": [8, 8], "r1": [8, 8]}).job("gang", replicas=3, gpus=8, within="rack")

    assert count(solved(story, policy)) == {}


@every_policy
def test_surplus_stays_in_the_required_rack(policy: str) -> None:
    story = racks({"r0": [8, 8], "r1": [8, 8]})
    story.job("gang", replicas=4, minimum=1, gpus=8, within="rack")

    assert count(solved(story, policy)) == {"gang": 2}


def test_a_preferred_rack_is_left_where_none_has_room() -> None:
    story = racks({"r0": [8, 8], "r1": [8, 8, 8]})
    story.job("three", replicas=3, gpus=8, prefer_within="rack")
    story.job("two", replicas=2, gpus=8, prefer_within="rack")

    plan = solved(story, "first-fit")

    assert {p.node[:2] for p in plan.by_job["three"]} == {"r1"}
    assert {p.node[:2] for p in plan.by_job["two"]} == {"r0"}

    wide = racks({"r0": [8, 8], "r1": [8, 8]}).job("wide", replicas=3, gpus=8, prefer_within="rack")
    assert count(solved(wide, "first-fit")) == {"wide": 3}


@every_policy
def test_a_domain_beyond_the_required_rack_is_not_followed(policy: str) -> None:
    """The domain spans both racks, so what the gang takes beyond its minimum must not use it."""
    story = Scenario(levels=["rack"], shuffle=False)
    for rack in ("r0", "r1"):
        story.node(rack, gpus=8, at={"rack": rack, "domain": "d"})
    story.job("gang", replicas=4, minimum=2, gpus=4, within="rack")

    assert count(solved(story, policy)) == {"gang": 2}


@every_policy
def test_within_an_island_all_gpus_are_of_one_island(policy: str) -> None:
    pairs = {(0, 1): "NV12", (2, 3): "NV12"}
    story = Scenario().node("n", gpus=4, links=pairs)
    story.running("r", "n", [0]).job("gang", replicas=2, gpus=1, within="island")

    assert [p.gpus for p in solved(story, policy).placements] == [(2,), (3,)]


def test_a_gpu_without_nvlink_is_an_island_by_itself() -> None:
    story = Scenario().node("n", gpus=4)
    story.job("pair", gpus=2, within="island").job("one", gpus=1, within="island")
    story.job("shares", replicas=3, gpus=0.3, within="island")

    plan = solved(story)

    assert count(plan) == {"one": 1, "shares": 3}
    assert len({p.gpus for p in plan.by_job["shares"]}) == 1


def test_independent_replicas_are_held_to_an_island_each_by_itself() -> None:
    story = Scenario().node("n", gpus=4, links={(0, 1): "NV12", (2, 3): "NV12"})
    story.job("loose", replicas=3, gang=False, gpus=2, within="island")

    assert [p.gpus for p in solved(story).placements] == [(0, 1), (2, 3)]


@every_policy
def test_spread_allows_so_many_replicas_per_group(policy: str) -> None:
    story = racks({"r0": [8, 8], "r1": [8]})
    story.job("thin", replicas=4, gpus=1, spread_over="rack", max_per=2)
    story.job("thick", replicas=5, gpus=1, spread_over="rack", max_per=2)

    plan = solved(story, policy)

    assert count(plan) == {"thin": 4}
    assert Counter(p.node[:2] for p in plan.placements) == {"r0": 2, "r1": 2}


@every_policy
def test_a_limit_binds_a_queue_with_those_below_it(policy: str) -> None:
    story = Scenario().queue("top", limit=5).queue("a", parent="top").queue("b", parent="top")
    story.node("n", gpus=8).running("r", "n", [0], queue="a")
    story.job("gang", replicas=5, gpus=1, queue="b", priority=1)
    story.job("loose", replicas=3, gang=False, gpus=1, queue="a")
    story.job("elastic", replicas=4, minimum=1, gpus=1, queue="b")

    plan = solved(story, policy)

    placed = count(plan)
    assert "gang" not in placed
    assert sum(placed.values()) == 4


def test_a_limit_that_running_work_exceeds_lets_in_what_asks_nothing_of_it() -> None:
    story = Scenario().queue("q", limit=1).node("n", gpus=4, cpu=4)
    story.running("r", "n", [0, 1]).job("gpu", gpus=1).job("cpu", cpu=1)

    assert count(solved(story)) == {"cpu": 1}


def test_a_refused_gang_gives_its_part_of_the_limit_back() -> None:
    story = Scenario().queue("q", limit=4).node("a", gpus=2).node("b", gpus=1)
    story.job("gang", replicas=4, gpus=1).job("next", replicas=3, gpus=1)

    assert count(solved(story)) == {"next": 3}


@every_policy
def test_unhealthy_cordoned_and_tainted_places_are_left_alone(policy: str) -> None:
    story = Scenario().node("sick", gpus=2, unhealthy=[0]).node("shut", gpus=8, cordoned=True)
    story.node("down", gpus=8, ready=False).job("pair", gpus=2).job("one", gpus=1)

    plan = solved(story, policy)

    assert [(p.job, p.node, p.gpus) for p in plan.placements] == [("one", "sick", (1,))]


def test_shares_of_one_gpu_never_add_up_to_more_than_it() -> None:
    story = Scenario().node("n", gpus=1, gpu_memory_gib=40)
    story.job("memory", replicas=3, gang=False, gpu_memory_gib=15)
    story.job("part", replicas=2, gang=False, gpus=0.125)

    assert count(solved(story)) == {"memory": 2, "part": 2}


def test_drf_fills_the_poorest_queue_first() -> None:
    story = Scenario(shuffle=False).queue("a").queue("b").node("n", gpus=6)
    story.job("a", replicas=6, gang=False, gpus=1, queue="a")
    story.job("b", replicas=6, gang=False, gpus=1, queue="b")

    assert count(solved(story, "drf")) == {"a": 3, "b": 3}
    assert count(solved(story, "best-fit")) == {"a": 6}


def test_drf_weighs_shares_and_leaves_weight_zero_to_the_end() -> None:
    story = Scenario().queue("one").queue("two", weight=2).queue("zero", weight=0)
    story.node("n", gpus=7)
    for queue, wanted in (("zero", 6), ("one", 6), ("two", 4)):
        story.job(queue, replicas=wanted, gang=False, gpus=1, queue=queue)

    assert count(solved(story, "drf")) == {"one": 3, "two": 4}


def test_drf_looks_at_the_dominant_resource_and_at_running_work() -> None:
    """Queue a holds 5 of 8 CPUs already: its dominant share, though it has no GPU."""
    story = Scenario().queue("a").queue("b").node("n", gpus=4, cpu=8)
    story.running("r", "n", [], cpu=5, queue="a")
    story.job("a", replicas=4, gang=False, gpus=1, queue="a")
    story.job("b", replicas=4, gang=False, gpus=1, queue="b")

    assert count(solved(story, "drf")) == {"a": 1, "b": 3}


def test_drf_takes_priority_only_inside_a_queue() -> None:
    story = Scenario(shuffle=False).queue("a").queue("b").node("n", gpus=2)
    story.job("a1", gpus=1, queue="a").job("a2", gpus=1, queue="a", priority=1)
    story.job("b1", gpus=1, queue="b")

    assert count(solved(story, "drf")) == {"a2": 1, "b1": 1}


def racks(gpus: dict[str, list[int]]) -> Scenario:
    """Nodes r0-0, r0-1, … with so many GPUs, by rack."""
    story = Scenario(levels=["rack"])
    for rack, sizes in gpus.items():
        for n, size in enumerate(sizes):
            story.node(f"{rack}-{n}", gpus=size, at={"rack": rack})
    return story
