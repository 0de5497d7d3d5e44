"""From the neutral schema of case files to a spec, as text that a user could have written.

The schema is described beside the shared cases; each key of it has one place here. Nothing is
checked: what a case may not say, the spec's own loader refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Case = dict[str, Any]

LINK_RULES = {"require": "required", "prefer": "preferred"}

PER_POD = {
    "gpus": "gpus",
    "cpu": "cpu",
    "mem": "memory",
    "node_selector": "node_selector",
    "tolerations": "tolerations",
}
"""Keys of a pod's request: the case's word and the spec's."""


@dataclass(frozen=True)
class Member:
    """Where a job of the case is found in the spec."""

    job: str
    role: str | None = None
    pods: int = 1


@dataclass(frozen=True)
class SpecText:
    """A spec, the topology files it names, and the case's jobs in it."""

    document: dict[str, Any]
    members: Mapping[str, Member]
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Put the spec and its files into a folder; returns the spec's path."""
        for name, text in self.files.items():
            (folder / name).write_text(text)
        path = folder / "cluster.yaml"
        path.write_text(yaml.safe_dump(self.document, sort_keys=False))
        return path


def variants(case: Case) -> list[tuple[str, Case]]:
    """The case, or each of its variants with what they share, by name."""
    if "variants" not in case:
        return [(str(case["id"]), case)]
    shared = {key: value for key, value in case.items() if key not in ("variants", "expect")}
    return [
        (f"{case['id']}-{variant['name']}", {**shared, **variant}) for variant in case["variants"]
    ]


def spec_text(case: Case) -> SpecText:
    """The spec that says what the case says."""
    jobs, members = _jobs(case)
    nodes = [_node(node, case) for node in case.get("nodes", [])]
    cluster: dict[str, Any] = {"name": str(case["id"]), "nodes": nodes}
    if any("rack" in node for node in case.get("nodes", [])):
        cluster["levels"] = ["rack"]
    document: dict[str, Any] = {"cluster": cluster}
    if "queues" in case:
        document["queues"] = [_queue(queue) for queue in case["queues"]]
    document["running"] = _running(case)
    if case["ask"] == "plan-preemption" and len(case.get("queues", [])) > 1:
        document["preempt_for"] = ["priority", "guarantee", "fair_share"]
    document["jobs"] = jobs
    files = {"topo.txt": case["topo_text"]} if "topo_text" in case else {}
    return SpecText(document, members, files)


def _node(node: Case, case: Case) -> dict[str, Any]:
    size = {**node, **node.get("capacity", {})}
    usable = {**size, **node.get("allocatable", {})}
    gpus = size.get("gpus", 0)
    spec: dict[str, Any] = {"name": node["name"]}
    if isinstance(gpus, list):
        devices = sorted(gpus, key=lambda device: device["i"])
        default = node.get("gpu_model", "GPU")
        spec["gpus"] = [{"model": device.get("model", default)} for device in devices]
        dead = [device["i"] for device in devices if not device.get("healthy", True)]
    else:
        spec["gpus"] = gpus
        # Which of them are dead is not said: the last ones.
        dead = list(range(usable.get("gpus", gpus), gpus))
        if "gpu_model" in node:
            spec["gpu_model"] = node["gpu_model"]
    if dead:
        spec["gpus_unhealthy"] = dead
    if "topo_text" in case and gpus:
        spec["topology"] = {"file": "topo.txt"}
    links = [link for link in case.get("links", []) if link["node"] == node["name"]]
    if links:
        spec["links"] = [{"a": x["a"], "b": x["b"], "kind": x["type"]} for x in links]
    if "cpu" in usable:
        spec["cpu"] = usable["cpu"]
    if "mem" in usable:
        spec["memory"] = usable["mem"]
    place = {level: node[level] for level in ("rack", "domain") if level in node}
    if place:
        spec["location"] = place
    same = ("labels", "taints", "ready", "cordoned")
    return spec | {key: node[key] for key in same if key in node}


def _queue(queue: Case) -> dict[str, Any]:
    names = {"over_quota_weight": "weight", "requested": "demand"}
    return {names.get(key, key): value for key, value in queue.items() if key != "order"}


def _running(case: Case) -> list[dict[str, Any]]:
    """Running pods; those of one job are its replicas."""
    facts = {fact["job"]: fact for fact in case.get("jobs", [])}
    found: dict[str, dict[str, Any]] = {}
    for pod in case.get("running", []):
        name = pod.get("job", pod["pod"])
        if name not in found:
            found[name] = {"job": name, "replicas": []}
            found[name] |= {key: pod[key] for key in ("queue", "priority") if key in pod}
            if "min" in facts.get(name, {}):
                found[name]["min"] = facts[name]["min"]
            if "ends_at" in pod:
                found[name]["ends_in"] = f"{pod['ends_at']}s"
            movable = pod.get("movable", pod.get("requeues", False))
            found[name]["preemption"] = {"movable": movable and not pod.get("bound_to_node", False)}
        if "evict_cost" in pod:
            stop = found[name]["preemption"]
            stop["cost_gpu_s"] = stop.get("cost_gpu_s", 0) + pod["evict_cost"]
        names = {"gpus": "gpus", "cpu": "cpu", "mem": "memory"}
        held = {names[key]: pod[key] for key in names if key in pod}
        found[name]["replicas"].append({"node": pod["node"], **held})
    return list(found.values())


def _jobs(case: Case) -> tuple[list[dict[str, Any]], dict[str, Member]]:
    pending = {job["job"]: job for job in case.get("pending", [])}
    group_of = {job: group for group in case.get("groups", []) for job in group["jobs"]}
    jobs: list[dict[str, Any]] = []
    members: dict[str, Member] = {}
    for name, job in pending.items():
        group = group_of.get(name)
        pods = len(job["tasks"]) if "tasks" in job else job.get("pods", 1)
        if group is None or "same" not in group:
            spec = _job(job)
            if group is not None:
                spec |= {"gang": True, "start_group": group["name"]}
            jobs.append(spec)
            members[name] = Member(name, None, pods)
        else:
            if not any(member.job == group["name"] for member in members.values()):
                jobs.append(_merged(group, [pending[other] for other in group["jobs"]]))
            members[name] = Member(group["name"], name, pods)
    return jobs, members


def _job(job: Case) -> dict[str, Any]:
    """One pending job; pods that are no gang are independent of each other."""
    elastic = "min" in job
    spec = {"name": job["job"], **_request(job)}
    spec |= {key: job[key] for key in ("queue", "priority") if key in job}
    spec["gang"] = bool(job.get("gang", False) or elastic or "same" in job)
    if "same" in job:
        spec["topology"] = {"within": job["same"], "mode": "required"}
    if "tasks" in job:
        spec["roles"] = [
            {"name": f"task-{i}", **_request(task)} for i, task in enumerate(job["tasks"])
        ]
        return spec
    spec["replicas"] = job.get("pods", 1)
    if elastic:
        spec["min"] = job["min"]
    return spec if "gpus" in spec or "cpu" in spec else {"gpus": 0, **spec}


def _merged(group: Case, jobs: list[Case]) -> dict[str, Any]:
    """Jobs that start together in one place are one gang with a role for each."""
    roles = []
    for job in jobs:
        pods = job.get("pods", 1)
        floor = {"min": job["min"]} if "min" in job else {}
        roles.append({"name": job["job"], "replicas": pods, **floor, **_request(job)})
    spec = {"name": group["name"], "roles": roles}
    spec |= {key: jobs[0][key] for key in ("queue", "priority") if key in jobs[0]}
    return spec | {"topology": {"within": group["same"], "mode": "required"}}


def _request(pod: Case) -> dict[str, Any]:
    request = {word: pod[key] for key, word in PER_POD.items() if key in pod}
    if "gpu_model" in pod:
        request["gpu_models"] = [pod["gpu_model"]]
    if "link" in pod:
        request["link"] = LINK_RULES[pod["link"]]
    return request


# What-ifs: the same case with one thing otherwise.


def running_on(case: Case, job: str, node: str) -> Case:
    """The case as it is once a pending job has started on a node."""
    (waits,) = [entry for entry in case["pending"] if entry["job"] == job]
    started = [
        {"pod": f"{job}-{i}", "job": job, "node": node}
        | {key: waits[key] for key in ("gpus", "cpu", "mem", "queue", "priority") if key in waits}
        for i in range(waits.get("pods", 1))
    ]
    pending = [entry for entry in case["pending"] if entry is not waits]
    return {**case, "pending": pending, "running": [*case.get("running", []), *started]}


def only_nodes(case: Case, names: set[str]) -> Case:
    """The case with only some of its nodes."""
    nodes = [node for node in case["nodes"] if node["name"] in names]
    running = [pod for pod in case.get("running", []) if pod["node"] in names]
    return {**case, "nodes": nodes, "running": running}
