"""Why a job waits, and what would start it: stories, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from solver.api import solve
from solver.cluster import Taint
from solver.explain.answer import UnknownJobError, explain
from solver.explain.explanation import KINDS, Explanation
from solver.options import SolveOptions
from solver.result import SolveStatus
from solver.workload import Preemption
from tests.scenario import Scenario
from tests.specs.reading import compiled
from tests.strategies import tiny_problems

OPTIONS = SolveOptions(workers=1, time_limit_s=20)


def explained(story: Scenario, job: str) -> Explanation:
    problem = story.problem()
    return explain(problem, solve(problem, OPTIONS).plan, job, OPTIONS)


def fixes(told: Explanation) -> dict[str, dict[str, object]]:
    return {fix.kind: dict(fix.params) for fix in told.fixes}


def rules(told: Explanation) -> set[str]:
    return {rule.rule for rule in told.core}


def test_what_runs_is_in_the_way_until_it_ends():
    story = Scenario().node("n1", gpus=4).running("old", "n1", [0, 1], ends_in_s=600)

    told = explained(story.job("new", gpus=4), "new")

    assert told.verdict == "waits"
    assert rules(told) == {"job", "held"}
    assert told.fixes[0].kind == "wait"
    assert fixes(told)["lower-request"]["to"] == 2


def test_a_queue_limit_alone_makes_no_job_impossible():
    story = Scenario().queue("q", limit=4).node("n", gpus=8).job("big", gpus=8, queue="q")

    told = explained(story, "big")

    assert told.verdict == "waits"
    assert rules(told) == {"job", "queue-limit"}
    assert told.fixes[0].kind == "raise-quota"


def test_a_queue_limit_behind_the_rule_that_is_named_is_told_too():
    """The cluster is full, so that is the reason; emptying it would not be enough."""
    story = Scenario().queue("q", limit=4).queue("o").node("n", gpus=8)
    story.running("old", "n", list(range(8)), queue="o").job("big", gpus=8, queue="q")

    told = explained(story, "big")

    assert (told.verdict, rules(told)) == ("waits", {"job", "held"})
    assert told.notes == ("if there were room, it would wait too, for limits of queues: q 4 GPUs",)


def test_only_limits_that_the_job_would_go_beyond_are_told():
    problem = compiled("""
        cluster: {nodes: [{name: n, gpus: 8, cpu: 64, memory: 512Gi}]}
        queues:
          - {name: other, limit: {gpus: 2}}
          - {name: org, limit: {gpus: 4, cpu: 64}}
          - {name: q, parent: org, limit: {gpus: 8, cpu: 32, memory: 256Gi}}
        jobs: [{name: big, queue: q, gpus: 8, cpu: 8, memory: 64Gi}]
    """).problem

    told = explain(problem, solve(problem, OPTIONS).plan, "big", OPTIONS)

    (limit,) = (rule.detail for rule in told.core if rule.rule == "queue-limit")
    assert limit == "limits of queues: org 4 GPUs"


def test_who_makes_way_for_a_job_that_starts_is_told_with_its_price():
    story = Scenario().node("n", gpus=8).running("web", [("n", [0, 1]), ("n", [2, 3])])
    story.running("elsewhere", "n", [4, 5], priority=9).job("urgent", gpus=4, priority=5)

    told = explained(story, "urgent")

    assert told.verdict == "starts-now"
    assert told.notes == ("web stops where it starts: 2 replicas of 2, 240 GPU-s",)


def test_the_price_of_a_whole_gang_is_told_where_two_jobs_start_in_its_place():
    story = Scenario().node("n1", gpus=8).node("n2", gpus=8)
    story.running("gang", [("n1", range(8)), ("n2", range(8))])
    story.job("a", gpus=8, priority=1).job("b", gpus=8, priority=1)

    told = explained(story, "a")

    assert told.notes == (
        "gang stops where it starts: 1 replica of 2, 480 GPU-s; in the whole plan 2, 960 GPU-s",
    )


def test_nodes_to_add_are_like_those_there_without_their_failed_gpus():
    story = Scenario().node("n", gpus=8, unhealthy=[7]).job("big", gpus=8)

    told = explained(story, "big")

    assert fixes(told)["add-capacity"] == {"job": "big", "like": "n", "nodes": 1, "gpus": 8}


def test_a_gang_larger_than_the_cluster_is_impossible_and_could_start_smaller():
    told = explained(Scenario().node("n1", gpus=4).job("g", replicas=5, gpus=1), "g")

    assert told.verdict == "impossible"
    assert fixes(told)["lower-min"]["min"] == 4
    assert "wait" not in fixes(told)


def test_where_cpu_is_a_rule_what_a_node_has_of_it_is_told():
    story = Scenario().node("n1", gpus=4, cpu=32).node("n2", gpus=4, cpu=16).node("bare", cpu=96)
    story.job("big", gpus=1, cpu=40)

    told = explained(story, "big")

    assert [(rule.rule, rule.detail) for rule in told.core] == [
        ("job", "1 x 1 GPU / 40 CPU on one node"),
        ("cpu", "asks for 40 CPU per replica"),
        ("capacity", "8 GPUs on 3 nodes, at most 4 on one; at most 32 CPU on one"),
    ]


def test_what_starts_in_the_plan_stays_beside_what_runs():
    story = Scenario().node("n1", gpus=4).running("old", "n1", [0, 1])
    story.job("first", gpus=2).job("last", gpus=1)

    told = explained(story, "last")

    (held,) = (rule.detail for rule in told.core if rule.rule == "held")
    assert held == "what runs and 1 job of the plan stay: 0 GPUs free, at most 0 on one node"


def test_nobody_holds_what_the_job_would_not_take():
    story = Scenario().node("n1", gpus=["A100"] * 4).running("old", "n1", [0, 1])

    told = explained(story.job("new", gpus=1, models=["V100"]), "new")

    (group,) = told.nodes
    assert (group.reason, group.text) == ("model-mismatch", "model A100")
    assert "held_by" not in group.facts


def test_what_is_held_now_is_no_rule_of_an_impossible_job():
    """Its model has no node that is large enough; that all others are full comes on top."""
    story = Scenario().node("n1", gpus=["V100"] * 4).node("n2", gpus=["A100"] * 8)
    story.running("old", "n2", list(range(8))).node("out", gpus=["A100"] * 8, cordoned=True)

    told = explained(story.job("new", gpus=5, models=["V100"]), "new")

    assert (told.verdict, rules(told)) == ("impossible", {"job", "model"})


def test_a_cordoned_node_is_uncordoned_rather_than_anything_bought():
    story = Scenario().node("n1", gpus=2, cordoned=True).node("n2", gpus=1)

    told = explained(story.job("j", gpus=2), "j")

    assert told.fixes[0].kind == "uncordon"
    assert told.fixes[0].params["nodes"] == ["n1"]


def test_nodes_are_grouped_by_what_they_lack():
    story = Scenario().node("full", gpus=1, labels={"zone": "a"})
    story.node("tainted", gpus=4, labels={"zone": "a"}, taints=[Taint(key="k", value="v")])
    story.node("elsewhere", gpus=4, labels={"zone": "b"}).running("r", "full", [0])

    told = explained(story.job("j", gpus=1, selector={"zone": "a"}), "j")

    assert {group.reason: group.names for group in told.nodes} == {
        "gpu-short": ("full",),
        "taint": ("tainted",),
        "label": ("elsewhere",),
    }
    assert {"change-toleration", "change-selector"} <= set(fixes(told))


def test_a_movable_job_moves_even_where_nothing_may_be_stopped():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2).preempt_for()
    story.running("here", "n1", [0], preemption=Preemption(movable=True, allowed=False))
    story.running("there", "n2", [0], priority=9)

    told = explained(story.job("j", gpus=2, priority=1), "j")

    assert told.fixes[0].kind == "move"
    assert told.fixes[0].params["moves"][0]["job"] == "here"
    assert "preempt" not in fixes(told)


def test_the_cheapest_of_the_less_urgent_could_be_stopped():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=2).preempt_for()
    story.running("dear", "n1", [0], preemption=Preemption(checkpoint_age_s=600))
    story.running("cheap", "n2", [0], preemption=Preemption(checkpoint_age_s=60))

    told = explained(story.job("j", gpus=2, priority=1), "j")

    assert told.fixes[0].kind == "preempt"
    assert told.fixes[0].params["evictions"] == [{"job": "cheap", "replicas": [0]}]
    assert told.fixes[0].cost_gpu_s == 120


def test_a_limit_is_raised_by_what_is_missing():
    story = Scenario().node("n1", gpus=4).queue("q", limit=1)

    told = explained(story.job("j", gpus=2), "j")

    assert "raise-quota" in fixes(told)
    assert "queue-limit" in rules(told) or told.pending.reason == "queue-limit"


def test_a_limit_is_raised_for_those_that_wait_before_the_job_too():
    story = Scenario().node("n1", gpus=8).queue("q", limit=1)
    story.running("old", "n1", [0], queue="q", priority=3)
    story.job("urgent", gpus=1, queue="q", priority=2)

    told = explained(story.job("j", gpus=2, queue="q"), "j")

    assert fixes(told)["raise-quota"]["limits"] == {"q": {"gpu_milli": 4000}}


def test_only_jobs_that_wait_are_explained():
    problem = Scenario().node("n1", gpus=1).job("j", gpus=1).problem()
    plan = solve(problem, OPTIONS).plan

    assert explain(problem, plan, "j").verdict == "starts-now"
    with pytest.raises(UnknownJobError):
        explain(problem, plan, "nobody")


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(tiny_problems())
def test_every_fix_is_verified_priced_and_says_where_the_job_starts(problem):
    result = solve(problem, OPTIONS)
    assume(result.status is SolveStatus.OPTIMAL and result.pending)
    job = problem.job_by_name[result.pending[0].job]

    told = explain(problem, result.plan, job.name, OPTIONS)

    prices = [(fix.cost_gpu_s, KINDS.index(fix.kind)) for fix in told.fixes]
    assert prices == sorted(prices)
    for fix in told.fixes:
        assert fix.verified
        assert {place.job for place in fix.placements} == {job.name}
    if told.verdict != "starts-now":
        assert told.core
    if told.pending is not None and told.pending.reason == "impossible":
        assert told.verdict == "impossible"
    if told.verdict == "waits":
        assert {group.reason for group in told.nodes} != {"impossible"}


def test_answers_do_not_depend_on_the_order_of_nodes():
    story = Scenario(shuffle=False)
    for n in range(3):
        story.node(f"n{n}", gpus=2).running(f"r{n}", f"n{n}", [0])
    problem = story.job("j", gpus=2).problem()
    turned = replace(problem, nodes=tuple(reversed(problem.nodes)))

    one, other = (explain(p, solve(p, OPTIONS).plan, "j", OPTIONS) for p in (problem, turned))

    assert [(f.kind, f.cost_gpu_s) for f in one.fixes] == [
        (f.kind, f.cost_gpu_s) for f in other.fixes
    ]


def test_a_gpu_that_the_plan_cuts_is_held_and_no_whole_one():
    spec = compiled(
        """
        cluster: {nodes: [{name: n1, gpu_model: A100-40GB, gpus: 2}]}
        jobs:
          - {name: slice, mig: {1g.5gb: 1}, priority: 9}
          - {name: whole, gpus: 2}
        """
    )
    problem = spec.problem

    told = explain(problem, solve(problem, OPTIONS).plan, "whole", OPTIONS)

    assert told.verdict == "waits"
    assert rules(told) == {"job", "held"}
    assert [(group.reason, group.text) for group in told.nodes] == [
        ("gpu-short", "1 GPU free, 2 wanted")
    ]
    assert told.nodes[0].facts["held_by"] == ["slice"]


@pytest.mark.parametrize(
    ("limit", "gpus", "others"),
    [(0, 1, ""), (1, 2, "- {name: first, priority: 5, mig: {4g.24gb: 1}}")],
)
def test_what_a_plan_may_recut_is_a_rule(limit: int, gpus: int, others: str):
    spec = compiled(
        f"""
        cluster: {{nodes: [{{name: n, gpus: {gpus}, gpu_model: A30}}]}}
        mig: {{limit: {limit}}}
        jobs:
          - {{name: j, mig: {{4g.24gb: 1}}}}
          {others}
        """
    )
    problem = spec.problem

    told = explain(problem, solve(problem, OPTIONS).plan, "j", OPTIONS)

    assert told.verdict == "waits"
    assert rules(told) == {"job", "mig-limit"}


def test_slices_that_the_plan_makes_for_others_are_not_free():
    spec = compiled(
        """
        cluster: {nodes: [{name: n1, gpu_model: A100-40GB, gpus: 1}]}
        jobs:
          - {name: first, mig: {4g.20gb: 1}}
          - {name: second, mig: {4g.20gb: 1}}
        """
    )
    problem = spec.problem

    told = explain(problem, solve(problem, OPTIONS).plan, "second", OPTIONS)

    assert told.verdict == "waits"
    assert rules(told) == {"job", "held"}


def test_a_node_that_is_large_enough_but_for_a_failed_gpu_is_not_too_small():
    story = Scenario().node("whole", gpus=2).node("ill", gpus=4, unhealthy=[3])

    told = explained(story.job("j", gpus=4), "j")

    assert told.verdict == "waits"
    assert {g.names[0]: (g.reason, g.text) for g in told.nodes} == {
        "whole": ("impossible", "too small even when empty"),
        "ill": ("unhealthy", "1 of 4 GPUs failed"),
    }


def test_instances_in_use_are_in_the_way_only_until_they_are_free():
    """One plan may cut only one GPU, but both instances are there already."""
    problem = compiled("""
        cluster:
          nodes:
            - name: n
              gpus: 2
              gpu_model: A30
              mig:
                - {gpu: 0, instances: [{profile: 4g.24gb, start: 0, used_by: x}]}
                - {gpu: 1, instances: [{profile: 4g.24gb, start: 0, used_by: y}]}
        mig: {limit: 1}
        jobs: [{name: j, mig: {4g.24gb: 2}}]
    """).problem

    told = explain(problem, solve(problem, OPTIONS).plan, "j", OPTIONS)

    assert told.verdict == "waits"
    assert rules(told) == {"job", "held"}
    assert told.pending.reason == "gpu-short"
    (node,) = told.nodes
    assert (node.reason, node.text) == ("gpu-short", "no slots free for 2 x 4g.24gb")
    assert node.facts["held_by"] == ["x", "y"]


def test_nodes_are_added_for_those_that_wait_before_the_job_too():
    story = Scenario().node("n", gpus=2).running("old", "n", [0, 1], priority=9)
    story.job("first", gpus=2, priority=3).job("second", gpus=2, priority=3)

    told = explained(story.job("third", gpus=2), "third")

    assert fixes(told)["add-capacity"]["nodes"] == 3


def test_what_could_never_run_is_explained_by_its_rules_not_by_who_runs():
    story = Scenario(levels=("rack",))
    for n in range(4):
        story.node(f"n{n}", gpus=8, at={"rack": f"r{n // 2}"})
        story.running(f"old-{n}", f"n{n}", range(8))

    told = explained(story.job("wide", gpus=8, replicas=3, within="rack"), "wide")

    assert told.verdict == "impossible"
    assert rules(told) == {"job", "topology", "capacity"}
    assert told.pending.reason == "no-domain-big-enough"


def test_gpus_that_are_free_where_the_job_may_not_run_are_said_to_be_elsewhere():
    story = Scenario().node("large", gpus=4).running("old", "large", range(4)).node("small", gpus=2)
    story.node("closed", gpus=8, cordoned=True)

    told = explained(story.job("j", gpus=4), "j")

    assert told.pending.text == "wants 4 GPUs; 0 free where it may run, 2 elsewhere"
