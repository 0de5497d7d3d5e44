"""Objects of a cluster put together: each kind read by its reader, faults gathered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kube import groups
from kube.claims import DRIVERS, Claims, read_claim, read_slice
from kube.flavors import Flavor, read_flavor
from kube.nodes import read_node
from kube.pods import read_pod
from kube.queues import cluster_queue, cohort, kai_queue, local_queue, volcano_queue
from kube.volumes import Volumes, read_volume
from specs.errors import SpecErrors, SpecFault
from specs.importers.fields import Fields, ObjectFault, Place
from specs.importers.report import ImportReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kube.reading import Found
    from kube.records import Group, GroupKey, LocalQueue, Node, Pod, Queue, QueueKey

MAX_FAULTS = 100
"""Faults that are told; a file that has more is not what it should be."""

GROUPS: Mapping[tuple[str, str], Callable[[str, str, Fields], Iterator[Group]]] = {
    ("batch", "Job"): groups.job,
    ("batch.volcano.sh", "Job"): groups.volcano_job,
    ("jobset.x-k8s.io", "JobSet"): groups.job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): groups.leader_worker_set,
    ("kueue.x-k8s.io", "Workload"): groups.workload,
    ("ray.io", "RayCluster"): groups.ray_cluster,
    ("scheduling.x-k8s.io", "PodGroup"): groups.pod_group,
    ("scheduling.sigs.k8s.io", "PodGroup"): groups.pod_group,
    ("scheduling.volcano.sh", "PodGroup"): groups.pod_group,
    ("scheduling.run.ai", "PodGroup"): groups.pod_group,
    **{
        ("kubeflow.org", kind): groups.training_job
        for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
}
QUEUES: Mapping[tuple[str, str], Callable[[str, Fields], Queue]] = {
    ("kueue.x-k8s.io", "ClusterQueue"): cluster_queue,
    ("kueue.x-k8s.io", "Cohort"): cohort,
    ("scheduling.volcano.sh", "Queue"): volcano_queue,
    ("scheduling.run.ai", "Queue"): kai_queue,
}
TOPOLOGIES = (("kueue.x-k8s.io", "Topology"), ("kai.scheduler", "Topology"))
DEVICES = "resource.k8s.io"
DEVICE_KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
NOT_USED = {
    ("policy", "PodDisruptionBudget"): "PodDisruptionBudgets",
}


@dataclass
class Snapshot:
    """A cluster as its objects say it is.

    Parameters
    ----------
    flavors
        ResourceFlavors of Kueue by name.
    local_queues
        LocalQueues by namespace and name.
    priority_classes
        Value of each class; that of the name ``""`` is the default.
    topologies
        Labels of the levels of each Topology object, outermost first.
    device_claims
        Devices that drivers offer, and claims for them (DRA).
    volumes
        Persistent volumes and claims for them.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    queues: dict[QueueKey, Queue] = field(default_factory=dict)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], LocalQueue] = field(default_factory=dict)
    priority_classes: dict[str, int] = field(default_factory=dict)
    topologies: list[tuple[str, ...]] = field(default_factory=list)
    device_claims: Claims = field(default_factory=Claims)
    volumes: Volumes = field(default_factory=Volumes)
    report: ImportReport = field(default_factory=ImportReport)
    _faults: list[SpecFault] = field(default_factory=list)
    _seen: set[tuple[str, ...]] = field(default_factory=set)

    def add_all(self, objects: Iterable[Found]) -> None:
        """Take objects in.

        Raises
        ------
        SpecErrors
            The file cannot be read, or more than a hundred objects are none of the API's.
        """
        for found in objects:
            try:
                self._add(found.data, found.place)
            except ObjectFault as error:
                self._faults.append(error.fault)
                if len(self._faults) >= MAX_FAULTS:
                    break
        if len(self._faults) >= MAX_FAULTS:
            raise SpecErrors(self._faults)

    def check(self) -> None:
        """Raise what was wrong with objects, all of it.

        Raises
        ------
        SpecErrors
            Some object is none of the API's, or there is no node.
        """
        if self._faults:
            raise SpecErrors(self._faults)
        if not self.nodes:
            hint = "Use: kubectl get nodes,pods -A -o json"
            raise SpecErrors([SpecFault(file="input", rule="there is no Node in it", hint=hint)])

    def _add(self, data: Any, place: Place) -> None:  # noqa: ANN401
        top = Fields(data, place, "object")
        kind = top.text("kind")
        if not kind:
            raise top.fault("kind", "an object of the API has a kind", hint="Is it such an object?")
        if kind == "Status":
            said = top.text("message")
            raise top.fault("", "the API gave this answer, and no objects", said, "Read it again")
        group = top.text("apiVersion").rpartition("/")[0]
        meta = Fields(top.data.get("metadata"), place, f"{kind}.metadata")
        name, namespace = meta.name("name"), meta.name("namespace", "default")
        full_name = f"{namespace}/{name}" if meta.has("namespace") else name
        obj = Fields(data, place, f"{kind} {full_name}")
        identity = (group, kind, namespace, name)
        if identity in self._seen:
            remark = f"{kind} objects that came twice: the last one counts"
            self.report.ignored.add(remark, full_name)
        else:
            self._seen.add(identity)
            self.report.read.add(_plural(kind))
        self._read((group, kind), namespace, name, obj)

    def _read(self, kind: tuple[str, str], namespace: str, name: str, obj: Fields) -> None:
        if kind == ("", "Pod"):
            pod = read_pod(namespace, name, obj)
            self.pods.pop((namespace, name), None)
            if pod is not None:
                self.pods[namespace, name] = pod
            else:
                self.report.ignored.add("pods that have ended")
        elif kind == ("", "Node"):
            self.nodes[name] = read_node(name, obj)
        elif kind in GROUPS:
            for group in GROUPS[kind](namespace, name, obj):
                self.groups[group.key] = group
                for remark in group.ignored:
                    self.report.ignored.add(remark, str(group.key))
        elif kind[0] == DEVICES and kind[1] in DEVICE_KINDS:
            self._read_devices(kind[1], (namespace, name), obj)
        elif kind == ("", "PersistentVolume"):
            self.volumes.places[name] = read_volume(obj)
        elif kind == ("", "PersistentVolumeClaim"):
            self.volumes.bound[namespace, name] = obj.map("spec").text("volumeName")
        elif kind in QUEUES:
            queue = QUEUES[kind](name, obj)
            self.queues[queue.key] = queue
        elif kind == ("kueue.x-k8s.io", "ResourceFlavor"):
            self.flavors[name], remarks = read_flavor(obj)
            for remark in remarks:
                self.report.ignored.add(remark, name)
        elif kind == ("kueue.x-k8s.io", "LocalQueue"):
            key, local = local_queue(namespace, name, obj)
            self.local_queues[key] = local
        elif kind == ("scheduling.k8s.io", "PriorityClass"):
            self.priority_classes[name] = obj.whole("value", 0)
            if obj.flag("globalDefault"):
                self.priority_classes[""] = obj.whole("value", 0)
        elif kind in TOPOLOGIES:
            keys = [level.text("nodeLabel") for level in obj.map("spec").maps("levels")]
            self.topologies.append(tuple(key for key in keys if key))
        else:
            self.report.ignored.add(NOT_USED.get(kind, f"objects of kind {kind[1]}"), name)

    def _read_devices(self, kind: str, key: tuple[str, str], obj: Fields) -> None:
        known, spec = self.device_claims, obj.map("spec")
        if kind == "ResourceSlice":
            known.slices[key[1]] = read_slice(obj)
        elif kind == "ResourceClaim":
            known.claims[key] = read_claim(spec, obj.map("status"))
        elif kind == "ResourceClaimTemplate":
            known.templates[key] = read_claim(spec.map("spec"), spec.map("status"))
        elif spec.text("extendedResourceName") in DRIVERS.values():
            known.resources.setdefault(key[1], spec.text("extendedResourceName"))
            known.extended.add(spec.text("extendedResourceName"))


def _plural(kind: str) -> str:
    word = kind.lower() if kind in ("Node", "Pod") else kind
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"
