"""Pods of a cluster: which count, where they may run, what is said of the rest."""

from __future__ import annotations

import pytest

from kube.cluster import ImportOptions
from solver.api import solve
from solver.options import SolveOptions
from specs.errors import SpecErrors
from tests.kube.objects import node, pod, read, thing


def affine(*terms, key="nodeSelectorTerms"):
    rule = {key: list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": rule}}


def needs(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_ended_pods_do_not_count_and_terminating_ones_still_do():
    told = read(
        node("n1", 4),
        pod("done", 4, on="n1", phase="Succeeded"),
        pod("broken", 4, on="n1", phase="Failed"),
        pod("leaving", 2, on="n1", leaving=True),
        pod("gone", 2, leaving=True),
        pod("waits", 2),
    )

    assert [job.name for job in told.problem.running] == ["team/leaving"]
    assert [job.name for job in told.problem.jobs] == ["team/waits"]
    assert told.says("ignored", "ended", "(3)")
    assert told.says("assumed", "terminating")


def test_a_pod_that_has_a_node_holds_it_before_it_runs():
    told = read(node("n1", 2), pod("starting", 2, on="n1", phase="Pending"))

    assert told.running("team/starting").replicas[0].gpus == (0, 1)


def test_pods_on_nodes_that_are_not_in_the_input_are_said():
    told = read(node("n1", 2), pod("far", 2, on="n9"))

    assert told.problem.running == ()
    assert told.says("ignored", "not in the input", "team/far")


def test_gpus_as_limits_only_are_requests():
    limited = pod("p")
    limited["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}

    assert read(node("n1", 4), limited).job("team/p").roles[0].shape.gpus == 2


def test_jobs_wait_in_the_order_in_which_they_came():
    told = read(
        node("n1", 1),
        pod("second", 1, created="2026-01-02T00:00:00Z"),
        pod("first", 1, created="2026-01-01T00:00:00Z"),
    )

    assert [job.name for job in told.problem.jobs] == ["team/first", "team/second"]


def test_priorities_come_from_the_pod_its_class_or_the_default():
    high = thing("PriorityClass", "scheduling.k8s.io/v1", "high", {}, value=1000)
    usual = thing("PriorityClass", "scheduling.k8s.io/v1", "usual", {}, value=7, globalDefault=True)
    told = read(
        high,
        usual,
        node("n1", 1),
        pod("a", priority=5),
        pod("b", priorityClassName="high"),
        pod("c"),
        pod("d", priorityClassName="system-node-critical"),
        pod("e", priorityClassName="gone"),
    )

    found = {job.name[-1]: job.priority for job in told.problem.jobs}
    assert found == {"a": 5, "b": 1000, "c": 7, "d": 2_000_001_000, "e": 7}
    assert told.says("assumed", "gone")


def test_gates_are_planned_as_if_lifted_and_named():
    told = read(node("n1", 1), pod("p", 1, schedulingGates=[{"name": "hold/on"}]))

    assert told.job("team/p")
    assert told.says("assumed", "hold/on", "team/p")


@pytest.mark.parametrize(
    ("term", "allowed"),
    [
        (needs("zone", "In", "a", "b"), {"n1", "n2"}),
        (needs("zone", "NotIn", "a"), {"n2", "n3"}),
        (needs("zone", "Exists"), {"n1", "n2"}),
        (needs("zone", "DoesNotExist"), {"n3"}),
        (needs("cores", "Gt", "8"), {"n2"}),
        (needs("cores", "Lt", "9"), {"n1"}),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}, {"n3"}),
        ({}, set()),
    ],
)
def test_node_affinity_is_understood_whole(term, allowed):
    nodes = [
        node("n1", 1, labels={"zone": "a", "cores": "8"}),
        node("n2", 1, labels={"zone": "b", "cores": "16"}),
        node("n3", 1),
    ]

    told = read(*nodes, pod("p", 1, affinity=affine(term)))

    selector = told.job("team/p").roles[0].shape.node_selector
    admitted = {
        n.name
        for n in told.problem.nodes
        if all(n.labels.get(key) == value for key, value in selector)
    }
    assert admitted == allowed


def test_one_of_several_terms_is_enough_and_the_selector_holds_besides():
    nodes = [
        node("n1", 1, labels={"zone": "a", "disk": "ssd"}),
        node("n2", 1, labels={"zone": "b"}),
        node("n3", 1, labels={"zone": "c", "disk": "ssd"}),
    ]
    choice = affine(needs("zone", "In", "a"), needs("zone", "In", "b"))

    told = read(*nodes, pod("p", 1, affinity=choice, nodeSelector={"disk": "ssd"}))
    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    assert [p.node for p in result.plan.placements] == ["n1"]


def test_labels_that_nobody_asks_for_are_left_out():
    told = read(node("n1", 1, labels={"a": "1", "b": "2"}), pod("p", 1, nodeSelector={"a": "1"}))

    assert told.spec.cluster.nodes[0].labels == {"a": "1"}


def test_tolerations_keep_operator_value_and_effect():
    told = read(
        node("n1", 1),
        pod(
            "p",
            1,
            tolerations=[
                {"key": "a", "operator": "Exists"},
                {"key": "b", "value": "c", "effect": "NoSchedule"},
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "n", "operator": "Gt", "value": "5"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            ],
        ),
    )

    found = told.job("team/p").roles[0].shape.tolerations
    assert [(t.key, t.operator, t.value, t.effect) for t in found] == [
        ("a", "Exists", "", None),
        ("b", "Equal", "c", "NoSchedule"),
        ("", "Exists", "", "NoExecute"),
    ]
    assert told.says("ignored", "compare numbers")


def test_affinity_to_its_own_kind_is_a_topology_and_anti_affinity_a_spread():
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "rack-label"}
    apart = {**own, "topologyKey": "kubernetes.io/hostname"}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    told = read(
        node("n1", 1, labels={"rack-label": "r"}),
        pod(
            "p",
            1,
            labels={"app": "x"},
            affinity={"podAffinity": {rule: [own]}, "podAntiAffinity": {rule: [apart]}},
        ),
        options=ImportOptions(levels=(("rack", "rack-label"),)),
    )

    job = told.job("team/p")
    assert (job.topology.within, job.topology.required) == ("rack", True)
    assert (job.spread.over, job.spread.max_per) == ("node", 1)


def apart(**term):
    rule = {"topologyKey": "kubernetes.io/hostname", **term}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}


def test_anti_affinity_between_jobs_is_said_of_both_sides():
    app = {"labelSelector": {"matchLabels": {"app": "x"}}}
    told = read(
        node("n1", 4),
        pod("runs", 1, on="n1", labels={"app": "other"}, affinity=apart(**app)),
        pod("waits", 1, labels={"app": "x"}),
        pod("own", 1, namespace="b", labels={"app": "x"}, affinity=apart(**app)),
        pod("sibling", 1, namespace="b", labels={"app": "x"}),
        pod("alone", 1, namespace="c", labels={"app": "x"}, affinity=apart(**app)),
    )

    said = [line for line in told.report if "between pods of different jobs" in line]
    assert len(said) == 1
    assert "(3: team/waits, b/own, b/sibling)" in said[0]


def test_keys_that_must_differ_are_no_anti_affinity_to_its_own_kind():
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "mismatchLabelKeys": ["tenant"]}
    told = read(
        node("n1", 4), pod("p", 1, labels={"app": "x", "tenant": "a"}, affinity=apart(**term))
    )

    assert told.job("team/p").spread is None
    assert told.says("ignored", "pod anti-affinity to other pods", "team/p")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            "toleration of cordoned nodes",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, "toleration of cordoned nodes"),
        ({"schedulerName": "my-scheduler"}, "scheduler my-scheduler"),
    ],
)
def test_what_a_pod_asks_of_its_scheduler_is_listed(wish, said):
    told = read(node("n1", 1), node("n2", 1, cordoned=True), pod("p", 1, **wish))

    assert told.says("ignored", said, "of pending pods", "team/p")


def test_a_nominated_node_is_listed_and_a_toleration_of_cordons_only_where_there_are_some():
    waits = pod("p", 1, tolerations=[{"operator": "Exists"}])
    waits["status"]["nominatedNodeName"] = "n1"

    told = read(node("n1", 1), waits, pod("q", 1, schedulerName="default-scheduler"))

    assert [line for line in told.report if line.startswith("ignored")] == [
        "ignored: the node that its scheduler is making room on, of pending pods (1: team/p)"
    ]


def test_what_a_spec_cannot_say_is_listed_with_counts():
    other = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    told = read(
        node("n1", 1),
        pod(
            "p",
            1,
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]
                },
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other]},
            },
            topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1}],
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            preemptionPolicy="Never",
        ),
        pod("q", 1, resource="example.com/fpga"),
        thing("PodDisruptionBudget", "policy/v1", "pdb", {}),
        thing("Strange", "example.com/v1", "s", {}),
    )

    for words in (
        "preferred node affinity",
        "pod affinity to other pods",
        "topology spread constraints",
        "persistent volumes",
        "preemptionPolicy Never",
        "requests for example.com/fpga",
        "PodDisruptionBudgets",
        "objects of kind Strange",
    ):
        assert told.says("ignored", words, "(1"), words


def test_gpus_by_resource_claims_are_never_planned_as_if_they_were_not_there():
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    told = read(
        node("n1", 1),
        pod("waits", resourceClaims=claims),
        pod("runs", resourceClaims=claims, on="n1"),
    )

    assert told.problem.jobs == ()
    assert told.says("pending pods with resource claims", "team/waits")
    assert told.says("GPUs that running pods hold by resource claims", "team/runs")


def test_pods_that_nobody_would_make_anew_are_not_to_be_preempted():
    told = read(node("n1", 2), pod("bare", 1, on="n1"), pod("made", 1, on="n1", owner=("Job", "j")))

    assert not told.running("team/bare").preemption.allowed
    assert told.running("team/j").preemption.allowed


def test_an_object_that_comes_twice_counts_once():
    told = read(node("n1", 8), pod("p", 4, on="n1"), pod("p", 4, on="n1"), node("n1", 8))

    assert len(told.problem.running) == 1
    assert told.says("Pod objects that came twice", "(1: team/p)")
    assert told.says("Node objects that came twice", "(1: n1)")


def test_cpu_only_pods_are_planned_and_counted_too():
    told = read(node("n1", 1, cpu="4"), pod("cpu", cpu="2"), pod("nothing", cpu="0", memory="0"))

    assert told.job("team/cpu").roles[0].shape.cpu_milli == 2000
    assert told.job("team/nothing")


def test_shares_of_several_gpus_are_held_on_each_and_not_planned():
    """KAI gives such a pod the same share of so many GPUs; one share of a spec is of one GPU."""
    two = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    marks = {"runai-gpu-group/a": "a", "runai-gpu-group/b": "b"}

    told = read(
        node("n1", 2),
        pod("runs", on="n1", cpu="4", annotations=two, labels=marks),
        pod(
            "beside", on="n1", annotations={"gpu-fraction": "0.5"}, labels={"runai-gpu-group": "b"}
        ),
        pod("waits", annotations=two),
        pod("half", annotations={"gpu-fraction": "0.5"}),
        pod("whole", 1),
    )
    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    held = [replica.gpus for replica in told.running("team/runs").replicas]
    assert sorted(held) == [(0,), (1,)]
    assert told.running("team/beside").replicas[0].gpus in held
    assert told.says("ignored", "shares of several GPUs", "1: team/waits")
    assert {placement.job for placement in result.plan.placements} == {"team/half"}
    cpus = [replica.cpu for replica in told.spec.running[0].replicas]
    assert cpus == [None, 0], "its cores are held once"


def test_a_number_of_gpus_to_share_that_is_none_is_refused():
    marks = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}

    with pytest.raises(SpecErrors, match="gpu-fraction-num-devices"):
        read(node("n1", 2), pod("p", annotations=marks))
