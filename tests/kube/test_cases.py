"""Published cases again, this time as objects of a Kubernetes cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.importer import import_cluster
from solver.api import solve
from solver.options import SolveOptions
from solver.verify import explain_violations, verify
from specs.compile import compile_spec
from specs.loader import parse_spec
from tests.acceptance.answers import Answer
from tests.acceptance.expectations import CHECKS
from tests.acceptance.giving_way import pods_left
from tests.acceptance.neutral import Case, Member, variants
from tests.kube.objects import GPU, Object, node, pod, snapshot, thing
from tests.paths import SHARED

KEYS = {"id", "theme", "ref", "title", "ask", "expect", "name", "assume", "why", "trap"}
KEYS |= {"nodes", "running", "pending", "jobs", "queues"}
NODE_KEYS = {"name", "gpus", "cpu", "mem", "gpu_model", "labels", "taints", "ready", "cordoned"}
NODE_KEYS |= {"capacity", "allocatable", "rack", "domain"}
RUNNING_KEYS = {"pod", "node", "gpus", "cpu", "mem", "priority", "job", "queue"}
JOB_KEYS = {"job", "pods", "gang", "min", "gpus", "cpu", "mem", "node_selector", "tolerations"}
JOB_KEYS |= {"priority", "same", "queue", "tasks"}
QUEUE_KEYS = {"name", "quota", "weight"}
COST_KEYS = {"movable", "evict_cost"}
UNSAYABLE: Mapping[str, str] = {
    "ask: effective-request": "of single pods: the acceptance runner asks the reader of pods",
    "ask: parse": "of quantities: the acceptance runner asks the reader of quantities",
    "ask: fair-share": "of demands that no work is behind",
    "ask: plan-mig": "of one GPU, before there is any object",
    "ask: simulate": "of what comes and ends: objects know what is now",
    "evict_cost": "what a stop costs is a key of the spec",
    "requeues": "whether a pod may move is a key of the spec",
    "bound_to_node": "whether a pod may move is a key of the spec",
    "owner": "goes with bound_to_node",
    "groups": "no object of the common schedulers has jobs that start together",
    "link": "the API has counts of devices and no links between them",
    "links": "the API has counts of devices and no links between them",
    "topo_text": "the API has counts of devices and no links between them",
    "list of gpus": "labels of the model are about a whole node",
    "gpu_model": "goes with models that differ within a node",
}
"""What keeps a case from being told by objects, and why."""
ASKS = {"place", "explain", "plan-preemption"}
CHECKED = ("place", "placed_pods", "numbers", "victims", "final_gpus")
LABELS = {"rack": "cloud.provider.com/topology-rack", "domain": "nvidia.com/gpu.clique"}


def unsayable(case: Case) -> set[str]:
    """What of a case objects cannot say, in the words of `UNSAYABLE`."""
    if case["ask"] not in ASKS:
        return {f"ask: {case['ask']}"}
    running = RUNNING_KEYS if case["ask"] == "plan-preemption" else RUNNING_KEYS | COST_KEYS
    known = {"nodes": NODE_KEYS, "running": running, "pending": JOB_KEYS, "queues": QUEUE_KEYS}
    found = set(case) - KEYS
    for section, keys in known.items():
        for entry in case.get(section, []):
            found |= set(entry) - keys
            found |= {"list of gpus"} if isinstance(entry.get("gpus"), list) else set()
    return found


def cases() -> list[tuple[str, Case]]:
    folder = Path(SHARED) / "cases"
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
    return [entry for file in files for entry in variants(yaml.safe_load(file.read_text()))]


ALL = cases()
CASES = [(name, case) for name, case in ALL if not unsayable(case)]


def objects(case: Case) -> list[Object]:
    """The case as kubectl would show it."""
    return [
        *(_node(entry) for entry in case["nodes"]),
        *(_queue(entry) for entry in case.get("queues", [])),
        *_running_groups(case),
        *(_running(entry) for entry in case.get("running", [])),
        *(o for at, entry in enumerate(case["pending"]) for o in _pending(entry, at)),
    ]


def _queue(entry: Mapping[str, Any]) -> Object:
    gpu = {"quota": entry.get("quota", {}).get("gpus", 0), "limit": -1}
    gpu |= {"overQuotaWeight": entry["weight"]} if "weight" in entry else {}
    return thing("Queue", "scheduling.run.ai/v2", entry["name"], {"resources": {"gpu": gpu}})


def _amounts(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        key: str(entry[word]) for key, word in (("cpu", "cpu"), ("memory", "mem")) if word in entry
    }
    return {"cpu": "0", "memory": "0", **found}


def _node(entry: Mapping[str, Any]) -> Object:
    size = {**entry, **entry.get("capacity", {})}
    usable = {**size, **entry.get("allocatable", {})}
    labels = {**entry.get("labels", {}), **{LABELS[k]: entry[k] for k in LABELS if k in entry}}
    if "gpu_model" in entry:
        labels["nvidia.com/gpu.product"] = entry["gpu_model"]
    made = node(
        entry["name"],
        size.get("gpus", 0),
        allocatable=usable.get("gpus", 0),
        labels=labels,
        taints=tuple(entry.get("taints", ())),
        ready="True" if entry.get("ready", True) else "False",
        cordoned=entry.get("cordoned", False),
    )
    for amounts, of in (
        (made["status"]["capacity"], size),
        (made["status"]["allocatable"], usable),
    ):
        for name, word in (("cpu", "cpu"), ("memory", "mem")):
            if word in of:
                amounts[name] = str(of[word])
            else:
                del amounts[name]
    return made


def _running_groups(case: Case) -> list[Object]:
    """Gangs of which several pods run."""
    least = {fact["job"]: fact["min"] for fact in case.get("jobs", []) if "min" in fact}
    pods = Counter(entry["job"] for entry in case.get("running", []) if "job" in entry)
    return [_pod_group(job, least.get(job, count)) for job, count in pods.items()]


def _pod_group(job: str, least: int) -> Object:
    spec = {"minMember": least}
    return thing("PodGroup", "scheduling.x-k8s.io/v1alpha1", job.lower(), spec, namespace="team")


def _marks(entry: Mapping[str, Any], *, together: bool) -> dict[str, str]:
    marks = {"kai.scheduler/queue": entry["queue"]} if "queue" in entry else {}
    return marks | ({"scheduling.x-k8s.io/pod-group": entry["job"].lower()} if together else {})


def _gpus(entry: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
    """Whole GPUs, or the annotation of a part of one."""
    gpus = Fraction(str(entry.get("gpus", 0)))
    if gpus.denominator == 1:
        return int(gpus), {}
    return 0, {"gpu-fraction": str(entry["gpus"])}


def _running(entry: Mapping[str, Any]) -> Object:
    gpus, parts = _gpus(entry)
    rest = {"priority": entry["priority"]} if "priority" in entry else {}
    return pod(
        entry["pod"].lower(),
        gpus,
        on=entry["node"],
        owner=("ReplicaSet", entry["pod"].lower()),
        labels=_marks(entry, together="job" in entry),
        annotations=parts,
        **_amounts(entry),
        **rest,
    )


def _pending(entry: Mapping[str, Any], at: int) -> list[Object]:
    together = bool(entry.get("gang")) or "min" in entry
    same: dict[str, Any] = {"created": f"2026-01-01T00:00:{at:02}Z"}
    same |= {"priority": entry["priority"]} if "priority" in entry else {}
    same |= {"nodeSelector": entry["node_selector"]} if "node_selector" in entry else {}
    same |= {"tolerations": entry["tolerations"]} if "tolerations" in entry else {}
    name = entry["job"].lower()
    topology = (
        {"kueue.x-k8s.io/podset-required-topology": LABELS[entry["same"]]}
        if "same" in entry
        else {}
    )
    members = entry.get("tasks") or [entry] * entry.get("pods", 1)
    made = [_pod_group(name, entry.get("min", len(members)))] if together else []
    for number, member in enumerate(members):
        gpus, parts = _gpus(member)
        made.append(
            pod(
                f"{name}-{number}",
                gpus,
                owner=("ReplicaSet", name),
                labels=_marks(entry, together=together),
                annotations={**topology, **parts},
                **_amounts(member),
                **same,
            )
        )
    return made


def told_of(case: Case) -> Answer:
    """The answer to the case by way of objects, with the case's jobs by their names there."""
    text = import_cluster(snapshot(objects(case))).text
    if case["ask"] == "plan-preemption" and len(case.get("queues", [])) > 1:
        # Who may be evicted for whom is the spec's to say, not the queues'.
        text += "preempt_for: [priority, guarantee, fair_share]\n"
    problem = compile_spec(parse_spec(text)).problem
    result = solve(problem, SolveOptions(workers=1, time_limit_s=20), "cp-sat")
    broken = verify(problem, result.plan)
    assert not broken, explain_violations(broken)
    members = {
        entry["job"]: Member(
            f"team/{entry['job'].lower()}",
            None,
            len(entry.get("tasks", ())) or entry.get("pods", 1),
        )
        for entry in case["pending"]
    }
    running = [
        {**entry, "job": f"team/{entry.get('job', entry['pod']).lower()}"}
        for entry in case.get("running", [])
    ]
    return Answer({**case, "running": running}, problem, result, members)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_a_case_by_way_of_objects_has_the_same_answer(case: Case):
    answer = told_of(case)

    expected = case["expect"]
    found = [
        line
        for key in CHECKED
        if key in expected
        for line in CHECKS[key](answer, _known(key, expected[key]))
    ]
    for key, left in expected.items():
        job = key.removeprefix("left_of_")
        if job != key and pods_left(answer, f"team/{job.lower()}") != left:
            found.append(f"{key}: expected {left}")
    if "idle" in expected:
        found += CHECKS["numbers"](answer, {"idle": expected["idle"]})
    for job, facts in expected.get("pending", {}).items():
        waits = answer.pending(job)
        assert waits is not None, f"{job} is not said to wait"
        if waits.reason != facts["reason"]:
            found.append(f"{job} waits for {waits.reason}, expected {facts['reason']}")

    assert found == []


def _known(key: str, expected: Mapping[str, Any]) -> Mapping[str, Any]:
    """Numbers that need what only a question about fixes has are another page's."""
    later = {"free_by_naive_sum", "largest_free_on_one_node", "free_total", "free_schedulable"}
    return {k: v for k, v in expected.items() if key != "numbers" or k not in later}


@pytest.mark.skipif(not CASES, reason="the shared reference data is not here")
def test_the_themes_that_are_about_clusters_are_among_them():
    names = {name for name, _ in CASES}

    assert {"node-01", "node-03", "lab-01", "gang-03", "cpu-01", "frag-01", "topo-05"} <= names
    assert {"cpu-03", "fair-01", "fair-07", "frac-01", "frac-03", "pre-04-three"} <= names


@pytest.mark.parametrize("case", [case for _, case in ALL], ids=[name for name, _ in ALL])
def test_what_objects_cannot_say_of_a_case_has_a_reason(case: Case):
    assert unsayable(case) <= set(UNSAYABLE)


def test_gpus_of_cases_are_those_of_the_default_resource():
    assert (
        objects({"nodes": [{"name": "n", "gpus": 2}], "pending": []})[0]["status"]["capacity"][GPU]
        == "2"
    )
