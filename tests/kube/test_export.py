"""From a cluster to a plan and back: the exported steps bring about what the plan says."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands import output
from kube.checking import check_holds
from kube.files import command, step_files
from kube.step import Step, Steps
from kube.steps import plan_steps
from report.json_report import plan_report, to_json
from solver.api import solve
from solver.options import SolveOptions
from solver.solution import Eviction, Move, Placement, Plan
from solver.verify import explain_violations, verify
from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.loader import parse_spec
from specs.plans import load_plan
from tests.commands.running import unstrand
from tests.kube.cluster_model import Cluster
from tests.kube.objects import GPU, Read, gang, listed, node, pod, read, snapshot, thing
from tests.kube.test_claims import by_template, piece, template, wants


def planned(objects, folder):
    """Import and solve; the plan as it is saved, and what was imported."""
    told = Read(snapshot(objects))
    result = solve(told.problem, SolveOptions(workers=1, time_limit_s=10), "cp-sat")
    path = folder / "plan.json"
    path.write_text(to_json(plan_report(result, told.imported.text)))
    return load_plan(path), told


def realised(objects, plan, imported, folder):
    """The cluster after the steps of the plan, imported again."""
    found = plan_steps(plan, imported)
    check_holds(plan, compile_spec(parse_spec(imported.text)).problem)
    folder.mkdir(exist_ok=True)
    for name, text in step_files(found).items():
        (folder / name).write_text(text)
    cluster = Cluster(objects)
    cluster.apply(folder)
    return Read(snapshot(list(cluster.objects.values()))), found


def running_on(told):
    """Pod to node of all that runs."""
    return {p.full_name: p.node for pods in told.imported.running.values() for p in pods}


def check_round_trip(objects, folder):
    """Import, solve, export, apply, import: verify holds and the plan has come true."""
    plan, told = planned(objects, folder)

    after, found = realised(objects, plan, told.imported, folder / "steps")

    broken = verify(after.problem, Plan())
    assert not broken, explain_violations(broken)
    gone = {
        told.imported.running[job][replica].full_name
        for job, replicas in plan.displaced.items()
        for replica in replicas
    }
    # Pods that hold more GPUs than a node has left count there: no kubelet takes others then.
    left = {words.split()[0] for words in found.remarks if "nvidia.com/gpu, and the node" in words}
    assert gone or not left
    wanted = {}
    for place in plan.placements:
        if any(p.full_name in left for t in told.imported.pending[place.job].tasks for p in t.pods):
            continue
        task = next(t for t in told.imported.pending[place.job].tasks if t.role == place.role)
        wanted[task.pods[place.replica].full_name] = place.node
    assert wanted.items() <= running_on(after).items()
    kept = {name: node for name, node in running_on(told).items() if name not in gone}
    assert kept.items() <= running_on(after).items()
    assert not gone & running_on(after).keys()
    if not gone:
        waited = {place.job for place in plan.placements}
        assert len(after.problem.jobs) == len(told.problem.jobs) - len(waited)
    return plan, found


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


def evicting(job="team/low", replicas=(0, 1)):
    place = Placement(
        job="team/high", role="replica", replica=0, node="n1", gpus=(0, 1), share_milli=1000
    )
    return Plan.of([place], [Eviction(job, replicas)])


def crowded():
    low = [pod(f"low-{i}", 1, on="n1", owner=("Job", "low")) for i in range(2)]
    for entry in low:
        entry["metadata"]["uid"] = f"uid-of-{entry['metadata']['name']}"
    return [node("n1", 2), *low, pod("high", 2, priority=10)]


def test_evictions_come_first_and_nothing_else_takes_the_room(tmp_path):
    told = Read(snapshot(crowded()))

    after, found = realised(crowded(), evicting(), told.imported, tmp_path / "steps")

    actions = [step.action for step in found.steps]
    assert actions == ["cordon", "evict", "evict", "wait", "wait", "bind", "uncordon"]
    assert running_on(after) == {"team/high": "n1"}
    assert not after.node("n1").cordoned
    assert not verify(after.problem, Plan())
    assert [job.name for job in after.problem.jobs] == ["team/low"]
    body = json.loads((tmp_path / "steps" / "002-evict-team-low-0.json").read_text())
    assert body["deleteOptions"]["preconditions"]["uid"] == "uid-of-low-0"


def test_who_is_waited_for_is_the_pod_of_the_node_and_not_the_next_one_of_its_name():
    told = Read(snapshot(crowded()))

    found = plan_steps(evicting(), told.imported)

    waits = [command(step, "") for step in found.steps if step.action == "wait"]
    assert waits[1] == [
        *("kubectl", "wait", "--namespace", "team", "--for=delete", "pod"),
        *("--field-selector=metadata.name=low-1,spec.nodeName=n1", "--timeout=10m"),
    ]


@pytest.mark.parametrize("mark", ["queue-name", "managed", None])
def test_what_kueue_has_admitted_comes_back_and_that_is_said(mark):
    objects = crowded()
    for entry in objects[1:3]:
        entry["metadata"]["labels"] = {f"kueue.x-k8s.io/{mark}": "x"} if mark else {"app": "x"}
    told = Read(snapshot(objects))

    found = plan_steps(evicting(), told.imported)

    assert [remark for remark in found.remarks if "spec.active: false" in remark] == (
        [
            "team/low is admitted by Kueue: what is made anew of its pods may take the room back, "
            "and its quota stays used. Set spec.active: false on its Workload for as long as it "
            "must stay away"
        ]
        if mark
        else []
    )


def test_a_plan_without_a_step_says_so():
    told = Read(snapshot([node("n1", 1), pod("p", 2)]))

    found = plan_steps(Plan(), told.imported)

    assert found.remarks == ["there is nothing to send: no step follows from the plan"]


def test_what_is_made_anew_of_an_evicted_pod_does_not_take_the_room_of_the_plan(tmp_path):
    objects = [
        node("n1", 8),
        node("n2", 8),
        pod("low", 8, on="n1", owner=("ReplicaSet", "low")),
        *gang("big", 2, 8, priority=100),
    ]

    _, found = check_round_trip(objects, tmp_path)

    closed = {step.name for step in found.steps if step.action == "cordon"}
    opened = {step.name for step in found.steps if step.action == "uncordon"}
    assert closed == opened == {"n1", "n2"}


def test_gates_are_lifted_before_others_may_have_the_room_and_the_race_is_said(tmp_path):
    gates = [{"name": "example.com/hold"}]
    low = pod("low", 2, on="n1", owner=("ReplicaSet", "low"))
    objects = [node("n1", 2), low, pod("high", 2, priority=9, schedulingGates=gates)]
    plan, told = planned(objects, tmp_path)

    found = plan_steps(plan, told.imported)

    actions = [step.action for step in found.steps]
    assert actions == ["cordon", "evict", "wait", "pin", "lift", "uncordon"]
    assert any("what is made anew of evicted" in remark for remark in found.remarks)


KUBECTL = """#!/bin/sh
echo "$*" >> "$(dirname "$0")/log"
case "$*" in *-1/eviction*) echo 'disruption budget' >&2; exit 1;; esac
"""


def test_a_refused_eviction_leaves_no_node_cordoned(tmp_path):
    told = Read(snapshot(crowded()))
    found = plan_steps(evicting(), told.imported)
    for name, text in step_files(found).items():
        (tmp_path / name).write_text(text)
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    path = f"{kubectl.parent}:/usr/bin:/bin"

    done = subprocess.run(
        ["sh", tmp_path / "apply.sh"], env={"PATH": path}, capture_output=True, text=True
    )

    sent = (kubectl.parent / "log").read_text().splitlines()
    assert done.returncode == 1
    assert "cordons are taken back" in done.stderr
    assert "-1/eviction" in sent[2]
    assert "uncordon-n1" in sent[3]
    assert len(sent) == 4

    kubectl.write_text(KUBECTL.replace("-1/", "nobody/"))
    assert subprocess.run(["sh", tmp_path / "apply.sh"], env={"PATH": path}).returncode == 0
    sent = (kubectl.parent / "log").read_text().splitlines()[4:]
    assert len(sent) == len(found.steps)


def test_work_of_a_higher_priority_takes_the_place_of_what_it_needs_and_no_more(tmp_path):
    objects = [
        node("n1", 4),
        pod("low", 2, on="n1", owner=("Job", "low")),
        pod("other", 1, on="n1", owner=("Job", "other")),
        *gang("high", 1, 3, priority=10),
    ]

    plan, found = check_round_trip(objects, tmp_path)

    assert [eviction.job for eviction in plan.evictions] == ["team/low"]
    assert [step.action for step in found.steps].count("evict") == 1


def test_what_has_no_controller_is_named_before_it_is_lost():
    objects = [node("n1", 2), pod("low", 2, on="n1"), pod("high", 2)]
    told = Read(snapshot(objects))

    found = plan_steps(evicting(replicas=(0,)), told.imported)

    assert any("no controller" in remark for remark in found.remarks)


def test_moves_are_evictions_whose_second_half_is_another_plan():
    told = Read(snapshot([node("n1", 2), node("n2", 2), pod("a", 1, on="n1", owner=("Job", "a"))]))

    found = plan_steps(Plan.of([], [], [Move("team/a", 0, "n2", (0,))]), told.imported)

    assert [step.action for step in found.steps] == ["cordon", "evict", "wait", "uncordon"]
    assert "moves to n2" in found.remarks[0]


def test_a_job_whose_pods_are_not_made_is_steered(tmp_path):
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]}}
    spec = {"parallelism": 2, "suspend": True, "completionMode": "Indexed", "template": template}
    marks = {"kueue.x-k8s.io/queue-name": "q"}
    job = thing("Job", "batch/v1", "j", spec, namespace="team", labels=marks)
    plan, told = planned([node("n1", 2), node("n2", 2), node("n3", 1), job], tmp_path)

    (step,) = plan_steps(plan, told.imported).steps

    rule = step.body["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = rule["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["n1", "n2"]


def test_nodes_without_a_label_of_their_name_are_named_by_their_field(tmp_path):
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]}}
    spec = {"parallelism": 3, "suspend": True, "completionMode": "Indexed", "template": template}
    marks = {"kueue.x-k8s.io/queue-name": "q"}
    job = thing("Job", "batch/v1", "j", spec, namespace="team", labels=marks)
    nodes = [node(f"n{i}", 2) for i in range(3)]
    for bare in nodes[1:]:
        del bare["metadata"]["labels"]["kubernetes.io/hostname"]
    plan, told = planned([*nodes, job], tmp_path)

    (step,) = plan_steps(plan, told.imported).steps

    rule = step.body["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    first, *others = rule["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert first["matchExpressions"][0]["values"] == ["n0"]
    assert [term["matchFields"][0]["values"] for term in others] == [["n1"], ["n2"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"job": "team/gone"}, "no pending job"),
        ({"replica": 1}, "has no replica 1"),
        ({"node": "n9"}, "no node is named n9"),
    ],
)
def test_a_plan_for_other_objects_is_refused(change, said):
    facts = {"job": "team/p", "role": "replica", "replica": 0, "node": "n1", "gpus": (0,)}
    place = Placement(**{**facts, **change, "share_milli": 1000})
    told = Read(snapshot([node("n1", 1), pod("p", 1)]))

    with pytest.raises(SpecErrors, match=said):
        plan_steps(Plan.of([place]), told.imported)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_cluster_the_way_there_and_back_holds(data, tmp_path_factory):
    few = st.integers(0, 3)
    objects = [
        node(f"n{i}", gpus, allocatable=max(0, gpus - lost), cpu="8", cordoned=cordoned)
        for i, (gpus, lost, cordoned) in enumerate(
            data.draw(
                st.lists(st.tuples(st.integers(1, 8), few, st.booleans()), min_size=1, max_size=4)
            )
        )
    ]
    for i, (at, gpus) in enumerate(data.draw(st.lists(st.tuples(few, few), max_size=4))):
        objects.append(pod(f"r{i}", gpus, on=f"n{at}", owner=("Job", f"r{i}")))
    many = st.tuples(st.integers(1, 3), few, st.booleans(), st.sampled_from([0, 0, 10]))
    for i, (size, gpus, gated, priority) in enumerate(data.draw(st.lists(many, max_size=4))):
        gates = {"schedulingGates": [{"name": "a/b"}]} if gated else {}
        objects += gang(f"g{i}", size, gpus, priority=priority, **gates)

    check_round_trip(objects, tmp_path_factory.mktemp("trip"))


# The verb


@pytest.fixture
def saved(tmp_path):
    objects = [node("n1", 4), pod("p", 1)]
    (tmp_path / "objects.json").write_bytes(listed(objects))
    done = unstrand(
        "import", "kubernetes", tmp_path / "objects.json", "--save", tmp_path / "c.yaml"
    )
    assert done.code == 0
    done = unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    assert done.code == 0
    return tmp_path


def test_without_a_folder_the_steps_are_only_shown(saved):
    done = unstrand(
        "export", saved / "plan.json", "--to", "kubernetes", "--objects", saved / "objects.json"
    )

    assert (done.code, done.out) == (0, "bind pod team/p to n1\n")


def test_the_files_of_an_export_do_not_mix_with_others(saved):
    words = ["export", saved / "plan.json", "--to", "kubernetes"]
    words += ["--objects", saved / "objects.json", "--save", saved / "steps"]

    assert unstrand(*words).code == 0
    names = sorted(path.name for path in (saved / "steps").iterdir())
    assert names == ["001-bind-team-p.json", "apply.sh", "steps.json"]
    assert unstrand(*words).code == 2
    subprocess.run(["sh", "-n", saved / "steps" / "apply.sh"], check=True)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_export_that_ends_early_leaves_no_part_of_it(saved, there, end, monkeypatch):
    folder = saved / "steps"
    if there:
        folder.mkdir()
    write = output.write_file

    def ends(path, content):
        if path.name == "apply.sh":
            raise end
        write(path, content)

    monkeypatch.setattr(output, "write_file", ends)
    words = ["export", saved / "plan.json", "--to", "kubernetes"]
    words += ["--objects", saved / "objects.json", "--save", folder]

    assert unstrand(*words).code != 0
    assert folder.exists() == there
    assert not there or not list(folder.iterdir())


def test_a_plan_that_does_not_hold_any_more_is_refused(saved):
    objects = [node("n1", 4), pod("new", 4, on="n1"), pod("p", 1)]
    (saved / "later.json").write_bytes(listed(objects))
    words = ["export", saved / "plan.json", "--to", "kubernetes", "--save", saved / "steps"]

    done = unstrand(*words, "--objects", saved / "later.json")

    assert done.code == 3
    assert "does not hold in the cluster of these objects" in done.err
    assert not (saved / "steps").exists()


def test_steps_need_the_objects(saved):
    done = unstrand("export", saved / "plan.json", "--to", "kubernetes")

    assert done.code == 2
    assert "such as --objects cluster.json" in done.err


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("mig-parted", "note: no node of the plan has MIG: the configuration is empty"),
        ("device-plugin", "note: no node of the plan shares GPUs: the configuration is empty"),
    ],
)
def test_an_empty_configuration_is_said_to_be_empty(saved, to, said):
    done = unstrand("export", saved / "plan.json", "--to", to)

    assert done.code == 0
    assert said in done.err


def test_a_mig_layout_becomes_a_configuration_and_labels(tmp_path):
    spec = """
    cluster:
      pools: [{name: m, count: 2, gpus: 2, gpu_model: A100-80GB,
               mig: [{gpu: 1, instances: [{profile: 1g.10gb, start: 4},
                 {profile: 1g.10gb, start: 5}, {profile: 3g.40gb, start: 0}]}]}]
    jobs: [{name: j, gpus: 1}]
    """
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand(
        "export", tmp_path / "plan.json", "--to", "mig-parted", "--save", tmp_path / "out"
    )

    assert done.code == 0
    document = yaml.safe_load((tmp_path / "out" / "mig-parted.yaml").read_text())
    assert document == {
        "version": "v1",
        "mig-configs": {
            "all-disabled": [{"devices": "all", "mig-enabled": False}],
            "unstrand-1": [
                {"devices": [0], "mig-enabled": False},
                {
                    "devices": [1],
                    "mig-enabled": True,
                    "mig-devices": {"1g.10gb": 2, "3g.40gb": 1},
                },
            ],
        },
    }
    script = (tmp_path / "out" / "label-nodes.sh").read_text()
    assert "kubectl label --overwrite node -- m-1 nvidia.com/mig.config=unstrand-1" in script


def test_a_plan_comes_through_a_pipe(tmp_path):
    spec = "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A100-80GB}]}\n"
    (tmp_path / "c.yaml").write_text(spec + "jobs: [{name: j, mig: {3g.40gb: 1}}]\n")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    named = unstrand("export", tmp_path / "plan.json", "--to", "mig-parted")

    piped = unstrand(
        "export", "-", "--to", "mig-parted", stdin=(tmp_path / "plan.json").read_text()
    )
    spoiled = unstrand("export", "-", "--to", "mig-parted", stdin="{")

    assert (piped.code, piped.out) == (0, named.out)
    assert (spoiled.code, spoiled.err.startswith("<stdin>:1:2: no JSON")) == (3, True)


def test_instances_that_the_plan_makes_are_in_the_configuration(tmp_path):
    spec = "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A100-80GB}]}\n"
    (tmp_path / "c.yaml").write_text(spec + "jobs: [{name: j, mig: {3g.40gb: 1}}]\n")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    unstrand("export", tmp_path / "plan.json", "--to", "mig-parted", "--save", tmp_path / "out")

    document = yaml.safe_load((tmp_path / "out" / "mig-parted.yaml").read_text())
    (entry,) = document["mig-configs"]["unstrand-1"]
    assert entry == {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 1}}


def test_pods_with_mig_instances_go_there_and_back(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2"}
    slices = {"nvidia.com/mig-3g.40gb": "2"}
    resource = "nvidia.com/mig-3g.40gb"
    objects = [
        node("n1", 1, labels=labels, more=slices),
        pod("has", 1, on="n1", resource=resource, owner=("Job", "has")),
        pod("wants", 1, resource=resource),
        pod("whole", 1),
        pod("late", 2, resource=resource),
    ]

    plan, _ = check_round_trip(objects, tmp_path)

    assert [place.job for place in plan.placements] == ["team/wants", "team/whole"]


def test_that_instances_are_where_the_import_assumed_them_is_said(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2"}
    objects = [node("n1", 1, labels=labels, more={"nvidia.com/mig-3g.40gb": "2"})]
    (tmp_path / "objects.json").write_bytes(listed(objects))
    unstrand("import", "kubernetes", tmp_path / "objects.json", "--save", tmp_path / "c.yaml")
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand("export", tmp_path / "plan.json", "--to", "mig-parted")

    assert done.code == 0
    assert "compare with nvidia-smi -L on the node before you label it" in done.err


def test_shares_become_a_time_slicing_configuration(tmp_path):
    jobs = "jobs: [{name: j, gpus: 0.25}, {name: k, gpus: 0.5}]\n"
    spec = "cluster: {nodes: [{name: n, gpus: 1}]}\n" + jobs
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")

    done = unstrand(
        "export", tmp_path / "plan.json", "--to", "device-plugin", "--save", tmp_path / "o"
    )

    config = yaml.safe_load((tmp_path / "o" / "device-plugin.yaml").read_text())["data"]
    slicing = yaml.safe_load(config["shared-by-4"])["sharing"]["timeSlicing"]
    assert slicing["resources"] == [{"name": GPU, "replicas": 4}]
    assert yaml.safe_load(config["default"]) == {"version": "v1"}, "for nodes without a label"
    assert "shares of 0.25, 0.5" in done.err


def test_levels_become_a_topology_with_labels_where_nodes_have_none(tmp_path):
    spec = """
    cluster:
      levels: [block, rack]
      nodes: [{name: n, gpus: 1, location: {block: b, rack: r}}, {name: m, location: {block: b}}]
    jobs: [{name: j, gpus: 1}]
    """
    (tmp_path / "c.yaml").write_text(spec)
    unstrand("solve", tmp_path / "c.yaml", "--save", tmp_path / "plan.json")
    words = ["--to", "kueue-topology", "--level", "block=dc/block", "--save", tmp_path / "o"]

    done = unstrand("export", tmp_path / "plan.json", *words)
    wrong = unstrand("export", tmp_path / "plan.json", "--to", "kueue-topology", "--level", "x")

    assert done.code == 0
    assert "note: labels of our own for rack: --objects or --level NAME=LABEL" in done.err
    assert "note: nodes without all levels, which Kueue leaves out: 1 (m)" in done.err
    assert (wrong.code, "is not NAME=LABEL" in wrong.err) == (2, True)
    levels = yaml.safe_load((tmp_path / "o" / "topology.yaml").read_text())["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == [
        "dc/block",
        "unstrand/rack",
        "kubernetes.io/hostname",
    ]
    assert "unstrand/rack=r" in (tmp_path / "o" / "label-nodes.sh").read_text()


EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def test_the_shipped_spec_is_what_the_shipped_dump_says():
    done = unstrand("import", "kubernetes", EXAMPLES / "kubernetes.json")

    assert done.out == (EXAMPLES / "kubernetes.yaml").read_text()


def test_the_shipped_dump_goes_there_and_back(tmp_path):
    objects = json.loads((EXAMPLES / "kubernetes.json").read_text())["items"]

    plan, _ = check_round_trip(objects, tmp_path)

    assert [place.job for place in plan.placements] == ["research/notebook"]


def test_standard_input_is_read_and_everything_said_goes_to_standard_error():
    text = (EXAMPLES / "kubernetes.json").read_text()

    done = unstrand("import", "kubernetes", "-", stdin=text)

    assert done.out == (EXAMPLES / "kubernetes.yaml").read_text()
    assert "read: nodes (3)" in done.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-"], 3, "there is no Node in it"),
        (["nowhere.json"], 3, "nowhere.json:1:1: cannot be read: No such file"),
        (["-", "-"], 2, "standard input can be read once"),
        (["-", "--level", "rack"], 2, "is not NAME=LABEL"),
        (["-", "--gpu-resource", ""], 2, "no name of a resource"),
        ([], 2, "name a file"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(words, code, said):
    done = unstrand("import", "kubernetes", *words)

    assert done.code == code
    assert said in done.err
    assert done.out == ""


@pytest.mark.parametrize("name", ["../../x", "x;rm -rf y", "$(id)", "-rf", "a\nb", "a/b"])
@pytest.mark.parametrize("where", ["pod", "node", "owner of a pod", "owner of a Workload"])
def test_no_name_of_an_object_reaches_a_path_or_a_shell(name, where):
    owner = ("Job", name)
    spec = {"podSets": [{"name": "m", "count": 1, "template": {"spec": {}}}]}
    odd = {
        "pod": pod(name),
        "node": node(name),
        "owner of a pod": pod("p", owner=owner),
        "owner of a Workload": thing(
            "Workload", "kueue.x-k8s.io/v1beta2", "w", spec, namespace="team", owner=owner
        ),
    }[where]

    with pytest.raises(SpecErrors, match=r"a name of letters, digits|printable characters"):
        read(node("n1", 1), odd)


def test_files_of_steps_stay_in_their_folder():
    step = Step(action="bind", kind="Pod", namespace="..", name="../x:y z", body={}, text="t")

    names = step_files(Steps(steps=[step]))

    assert set(names) == {"001-bind-..-.._x_y_z.json", "steps.json", "apply.sh"}
    assert shlex.split(names["apply.sh"].splitlines()[-1]) == command(step, min(names))
