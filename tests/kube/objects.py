"""Objects of the API as kubectl prints them, in a few words."""

from __future__ import annotations

import io
import json
from typing import Any

from kube.cluster import ImportOptions
from kube.importer import Imported, import_cluster
from kube.reading import read_objects
from kube.snapshot import Snapshot
from solver.problem import Problem
from specs.compile import compile_spec
from specs.loader import parse_spec

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
CREATED = "2026-01-01T00:00:00Z"


def node(
    name: str,
    gpus: int | str = 0,
    *,
    allocatable: int | str | None = None,
    cpu: str = "64",
    memory: str = "512Gi",
    labels: dict[str, str] | None = None,
    taints: tuple[Object, ...] = (),
    ready: str = "True",
    cordoned: bool = False,
    resource: str = GPU,
    more: dict[str, str] | None = None,
) -> Object:
    """A node; `more` are further resources."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110", **(more or {})}
    usable = dict(capacity)
    if gpus != 0:
        capacity[resource] = str(gpus)
        usable[resource] = str(gpus if allocatable is None else allocatable)
    spec: Object = {"taints": list(taints)} if taints else {}
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": usable,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(
    name: str,
    gpus: int | str = 0,
    *,
    on: str = "",
    namespace: str = "team",
    cpu: str = "1",
    memory: str = "1Gi",
    resource: str = GPU,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    phase: str = "",
    created: str = CREATED,
    leaving: bool = False,
    **spec: Any,
) -> Object:
    """A pod of one container, on a node or waiting for one; `spec` goes into its spec."""
    amounts = {"cpu": cpu, "memory": memory}
    if gpus != 0:
        amounts[resource] = str(gpus)
    meta: Object = {"name": name, "namespace": namespace, "creationTimestamp": created}
    if labels:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = annotations
    if owner is not None:
        reference = {"kind": owner[0], "name": owner[1], "controller": True}
        meta["ownerReferences"] = [reference]
    if leaving:
        meta["deletionTimestamp"] = created
    containers = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
    body = {"containers": containers, **spec}
    if on:
        body["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": body,
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }


def gang(name: str, size: int, gpus: int, **rest: Any) -> list[Object]:
    """Pods of a PodGroup (scheduler-plugins), NAME-0 to NAME-(size-1)."""
    marks = {"scheduling.x-k8s.io/pod-group": name}
    return [pod(f"{name}-{i}", gpus, labels=marks, **rest) for i in range(size)]


def thing(kind: str, api: str, name: str, spec: Object, **rest: Any) -> Object:
    """Any other object; `rest` is beside the spec, or in its metadata (labels, owner)."""
    meta: Object = {"name": name, "creationTimestamp": CREATED}
    meta |= {key: rest.pop(key) for key in ("namespace", "labels", "annotations") if key in rest}
    if "owner" in rest:
        kind_of, named = rest.pop("owner")
        meta["ownerReferences"] = [{"kind": kind_of, "name": named, "controller": True}]
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec, **rest}


def listed(objects: list[Object]) -> bytes:
    """What ``kubectl get -o json`` prints."""
    document = {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {}}
    return json.dumps(document, indent=4).encode()


def snapshot(*objects: Object | list[Object]) -> Snapshot:
    """A snapshot of objects, by way of their JSON."""
    flat: list[Object] = []
    for entry in objects:
        flat += entry if isinstance(entry, list) else [entry]
    found = Snapshot()
    found.add_all(read_objects(io.BytesIO(listed(flat)), "objects.json"))
    return found


class Read:
    """An import with its spec compiled: what is told of a cluster."""

    def __init__(self, taken: Snapshot, options: ImportOptions | None = None) -> None:
        self.imported: Imported = import_cluster(taken, options)
        self.report = list(taken.report.lines())
        self.compiled = compile_spec(parse_spec(self.imported.text))
        self.spec = parse_spec(self.imported.text).spec

    @property
    def problem(self) -> Problem:
        """The problem of the spec."""
        return self.compiled.problem

    def job(self, name: str) -> Any:
        """A pending job of the problem."""
        return next(job for job in self.problem.jobs if job.name == name)

    def running(self, name: str) -> Any:
        """A running job of the problem."""
        return next(job for job in self.problem.running if job.name == name)

    def node(self, name: str) -> Any:
        """A node of the problem."""
        return self.problem.node_by_name[name]

    def says(self, *words: str) -> bool:
        """Whether one line of the report has all these words."""
        return any(all(word in line for word in words) for line in self.report)


def read(*objects: Object | list[Object], options: ImportOptions | None = None) -> Read:
    """Import objects."""
    return Read(snapshot(*objects), options)
