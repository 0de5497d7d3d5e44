"""What starts by an export: bindings, pins, gates, and pods that are left to their scheduler."""

from __future__ import annotations

import pytest

from kube.steps import plan_steps
from tests.kube.exporting import check_round_trip, planned
from tests.kube.objects import GPU, gang, node, pod, thing
from tests.kube.test_claims import by_template, piece, template, wants


def test_waiting_pods_are_bound_where_the_plan_puts_them(tmp_path):
    objects = [
        node("n1", 4, cpu="16"),
        node("n2", 8, allocatable=7, labels={"zone": "b"}),
        pod("busy", 3, on="n2", owner=("Job", "busy")),
        *gang("g", 3, 1, cpu="4"),
        pod("here", 2, nodeSelector={"zone": "b"}),
        pod("huge", 8),
    ]

    plan, found = check_round_trip(objects, tmp_path)

    assert len(plan.placements) == 4
    assert {step.action for step in found.steps} == {"bind"}


def test_gated_pods_are_pinned_first_and_then_let_go(tmp_path):
    gates = [{"name": "example.com/hold"}]
    objects = [node("n1", 2), node("n2", 2), *gang("g", 2, 2, schedulingGates=gates)]

    _, found = check_round_trip(objects, tmp_path)

    assert [step.action for step in found.steps] == ["pin", "pin", "lift", "lift"]


def test_gates_of_kueue_are_left_to_kueue_and_that_is_said(tmp_path):
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    objects = [node("n1", 2), pod("p", 1, schedulingGates=gates)]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert [step.action for step in found.steps] == ["pin"]
    assert "Kueue" in found.remarks[0]


def test_no_node_is_pinned_where_kueue_chooses_it(tmp_path):
    gates = [{"name": "kueue.x-k8s.io/topology"}, {"name": "a/b"}]
    plan, told = planned([node("n1", 2), pod("p", 1, schedulingGates=gates)], tmp_path)

    found = plan_steps(plan, told.imported)

    assert [step.action for step in found.steps] == ["lift"]
    assert found.steps[0].body == {"spec": {"schedulingGates": [{"name": gates[0]["name"]}]}}
    assert any("not pinned to n1: Kueue gives it" in remark for remark in found.remarks)


def by_claim():
    return [piece("n1", 4), template("t", wants(2))]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([node("n1"), *by_claim(), pod("p", resourceClaims=by_template("t"))], "allocates none"),
        ([node("n1"), *by_claim(), pod("p", 2)], "makes no claim"),
        (
            [
                node("n1", 2),
                pod("p", 2, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            ],
            "binds no volumes",
        ),
    ],
    ids=["a claim", "an extended resource by claim", "a volume"],
)
def test_a_pod_that_a_binding_does_not_start_is_left_to_its_scheduler(objects, why, tmp_path):
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert [place.job for place in plan.placements] == ["team/p"]
    assert found.steps == []
    assert any("team/p is not bound to n1" in r and why in r for r in found.remarks)


HOST = "kubernetes.io/hostname"
APP = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}


def required(kind, *terms):
    """Required affinity or anti-affinity of a pod."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def app(name, on="", label="x", **more):
    return pod(name, 1, on=on, owner=("ReplicaSet", "d"), labels={"app": label}, **more)


@pytest.mark.parametrize("gates", [{}, {"schedulingGates": [{"name": "a/b"}]}], ids=["", "gated"])
@pytest.mark.parametrize(
    ("objects", "why"),
    [
        (
            lambda gates: [
                node("n1", 2),
                app("r", "n1"),
                app("p", **required("podAntiAffinity", APP), **gates),
            ],
            "its anti-affinity keeps it from team/r",
        ),
        (
            lambda gates: [
                node("n1", 2),
                app("r", "n1", "other", **required("podAntiAffinity", APP)),
                app("p", **gates),
            ],
            "the anti-affinity of team/r keeps it away",
        ),
        (
            lambda gates: [
                node("n1", 1),
                node("n2", 1),
                app("r", "n1"),
                pod("p", 1, **required("podAffinity", APP), **gates),
            ],
            "no pod of its required affinity is there",
        ),
    ],
    ids=["own rule", "rule of the other", "affinity"],
)
def test_no_pod_is_put_where_a_rule_between_pods_forbids_it(objects, why, gates, tmp_path):
    plan, told = planned(objects(gates), tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 1
    assert {step.action for step in found.steps} == ({"lift"} if gates else set())
    assert any(why in remark for remark in found.remarks)


def ported(name, port, on="", **more):
    found = pod(name, 1, on=on, owner=("Job", name))
    found["spec"]["containers"][0]["ports"] = [{"hostPort": port, **more}]
    return found


def test_a_port_of_the_node_is_given_to_one_pod_only(tmp_path):
    objects = [
        node("n1", 8),
        ported("r", 80, on="n1"),
        ported("same", 80),
        ported("udp", 80, protocol="UDP"),
        ported("other", 81, hostIP="10.0.0.1"),
        ported("elsewhere", 81, hostIP="10.0.0.2"),
    ]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 4
    assert {step.name for step in found.steps} == {"udp", "other", "elsewhere"}
    assert any("team/r has its host port 80 there" in remark for remark in found.remarks)


def test_gpus_that_pods_hold_beyond_what_a_node_has_left_count_there(tmp_path):
    held = [pod(f"r{i}", gpus, on="n1", owner=("Job", f"r{i}")) for i, gpus in ((0, 2), (1, 1))]
    plan, told = planned([node("n1", 2), *held, pod("p", 2, priority=10)], tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 1
    assert found.steps == []
    assert any("2 of nvidia.com/gpu, and the node has 1 left" in r for r in found.remarks)


def test_a_sidecar_has_its_port_of_the_node_too(tmp_path):
    beside = pod("beside", 1)
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}
    beside["spec"]["initContainers"] = [sidecar]
    first = pod("first", 1)
    first["spec"]["initContainers"] = [{**sidecar, "restartPolicy": None}]
    plan, told = planned([node("n1", 8), ported("r", 80, on="n1"), beside, first], tmp_path)

    found = plan_steps(plan, told.imported)

    assert {step.name for step in found.steps} == {"first"}
    assert any("team/r has its host port 80 there" in remark for remark in found.remarks)
    assert told.says("ignored", "host ports", "1: team/beside")


def wanting(name, on="", **more):
    """A pod with a device that is no GPU."""
    found = pod(name, 1, on=on, owner=("Job", name), **more)
    found["spec"]["containers"][0]["resources"]["limits"]["rdma/hca"] = "1"
    return found


@pytest.mark.parametrize("gates", [{}, {"schedulingGates": [{"name": "a/b"}]}], ids=["", "gated"])
def test_no_pod_is_put_where_a_device_that_is_not_planned_runs_out(gates, tmp_path):
    objects = [
        node("n1", 8, more={"rdma/hca": "2"}),
        wanting("r", on="n1"),
        *(
            wanting(name, created=f"2026-01-0{n}T00:00:00Z", **gates)
            for n, name in ((2, "a"), (3, "b"))
        ),
        pod("plain", 1),
    ]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 3
    placed = {step.name for step in found.steps if step.action in ("bind", "pin")}
    assert placed == {"a", "plain"}
    assert any("team/b" in r and "1 of rdma/hca" in r and "0 left" in r for r in found.remarks)


def test_no_node_gets_more_pods_than_it_takes(tmp_path):
    full = node("n1", 8)
    full["status"]["allocatable"]["pods"] = "3"
    low = pod("low", 6, on="n1", owner=("Job", "low"))
    plan, told = planned([full, low, pod("r", on="n1"), *gang("g", 3, 2, priority=5)], tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 3
    assert found.steps == []
    assert any("team/g-2" in r and "as many pods as it takes" in r for r in found.remarks)
    spared = "low is not evicted: nothing that the plan starts in its place can run there"
    assert any(spared in remark for remark in found.remarks)


def test_room_is_made_for_a_pod_that_its_scheduler_starts_there(tmp_path):
    low = pod("low", 6, on="n1", owner=("Job", "low"))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "unbound"}}
    plan, told = planned([node("n1", 8), low, pod("p", 8, priority=5, volumes=[claim])], tmp_path)

    found = plan_steps(plan, told.imported)

    assert [s.action for s in found.steps] == ["cordon", "evict", "wait", "uncordon"]
    assert any("team/p is not bound to n1" in remark for remark in found.remarks)


def test_a_hard_topology_spread_constraint_is_left_to_the_scheduler(tmp_path):
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**rule, "whenUnsatisfiable": "ScheduleAnyway"}
    objects = [
        node("n1", 2),
        pod("hard", 1, topologySpreadConstraints=[rule]),
        pod("soft", 1, topologySpreadConstraints=[soft]),
    ]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert [(step.action, step.name) for step in found.steps] == [("bind", "soft")]
    assert any("hard" in r and "topology spread" in r for r in found.remarks)


def test_rules_that_hold_after_the_plan_are_no_hindrance(tmp_path):
    apart, near = required("podAntiAffinity", APP), required("podAffinity", APP)
    elsewhere = {"namespaces": ["other"], **APP}
    low = app("low", "n1", **apart)
    low["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
    objects = [
        node("n1", 2),
        node("n2", 2),
        low,
        *gang("g", 2, 1, priority=9, nodeSelector={HOST: "n1"}, **near),
        pod("far", 1, labels={"app": "x"}, **required("podAntiAffinity", elsewhere)),
    ]
    for entry in objects[3:5]:
        entry["metadata"]["labels"]["app"] = "x"
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert [e.job for e in plan.evictions] == ["team/d"]
    bound = {step.name for step in found.steps if step.action == "bind"}
    assert bound == {"g-0", "g-1", "far"}


def test_a_pod_that_is_left_to_its_scheduler_is_no_company_for_others(tmp_path):
    unknown = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    near = required("podAffinity", APP)
    with_near = required("podAffinity", {**APP, "labelSelector": {"matchLabels": {"near": "y"}}})
    objects = [
        node("n1", 8),
        app("left", volumes=unknown),
        pod("p", 1, labels={"near": "y"}, **near),
        pod("last", 1, **with_near),
        pod("plain", 1),
    ]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert len(plan.placements) == 4
    assert [step.name for step in found.steps] == ["plain"]
    assert sum("team/p is not bound" in remark for remark in found.remarks) == 1
    assert len(found.remarks) == 3


def test_of_a_gang_with_a_pod_that_a_binding_does_not_start_none_is_bound(tmp_path):
    marks = {"scheduling.x-k8s.io/pod-group": "g"}
    objects = [
        node("n1"),
        *by_claim(),
        *gang("g", 1, 0),
        pod("g-1", labels=marks, resourceClaims=by_template("t")),
        pod("alone"),
    ]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    assert [(step.action, step.name) for step in found.steps] == [("bind", "alone")]
    assert any("is a gang" in remark for remark in found.remarks)


@pytest.mark.parametrize("leader", [0, 1], ids=["of one kind", "of two kinds"])
def test_of_a_gang_with_members_that_are_not_made_yet_none_is_bound(leader, tmp_path):
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 4}, namespace="team"
    )
    marks = {"scheduling.x-k8s.io/pod-group": "g"}
    others = [pod("leader", labels=marks)] * leader
    plan, told = planned([node("n1", 8), group, *gang("g", 2, 1), *others, pod("p", 1)], tmp_path)

    found = plan_steps(plan, told.imported)

    assert "team/g" in plan.by_job
    assert [step.name for step in found.steps] == ["p"]
    assert any(f"a gang that {2 - leader} more" in remark for remark in found.remarks)


def test_gated_pods_with_claims_are_pinned_and_their_scheduler_allocates(tmp_path):
    gates = [{"name": "example.com/hold"}]
    waits = pod("p", resourceClaims=by_template("t"), schedulingGates=gates)
    plan, told = planned([node("n1"), *by_claim(), waits], tmp_path)

    found = plan_steps(plan, told.imported)

    assert [step.action for step in found.steps] == ["pin", "lift"]
