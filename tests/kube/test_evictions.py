"""Who makes way by an export, in which order, and plans that are refused."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.files import command, step_files
from kube.steps import plan_steps
from solver.solution import Eviction, Move, Placement, Plan
from solver.verify import verify
from specs.errors import SpecErrors
from tests.kube.exporting import check_round_trip, planned, realised, running_on
from tests.kube.objects import GPU, Read, gang, node, pod, snapshot, thing


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
