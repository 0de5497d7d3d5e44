"""What a pod belongs to, told by its labels, annotations and controller.

Who decides about a start comes first: a pod group of Kueue, a PodGroup of a scheduler; then the
controller that makes the pods: JobSet, LeaderWorkerSet, training operators, Ray, Job.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kube.records import GroupKey

if TYPE_CHECKING:
    from collections.abc import Mapping

POD_GROUPS: tuple[tuple[str, str], ...] = (
    ("PodGroup", "scheduling.x-k8s.io/pod-group"),
    ("PodGroup", "pod-group.scheduling.sigs.k8s.io"),
    ("PodGroup", "scheduling.k8s.io/group-name"),
    ("PodGroup", "pod-group-name"),
)
"""Marks of PodGroups: scheduler-plugins, its former name, Volcano, KAI."""

CONTROLLERS: tuple[tuple[str, str, str], ...] = (
    ("JobSet", "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"),
    ("TrainingJob", "training.kubeflow.org/job-name", "training.kubeflow.org/replica-type"),
    ("TrainingJob", "mpi-job-name", "mpi-job-role"),
    ("VolcanoJob", "volcano.sh/job-name", "volcano.sh/task-spec"),
    ("RayCluster", "ray.io/cluster", "ray.io/node-type"),
)
"""Kind of a controller, the label with its name, the label with the role of the pod."""

JOB_ROLE = "training.kubeflow.org/job-role"
JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
INDICES = (
    JOB_INDEX,
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    LWS_WORKER,
    "apps.kubernetes.io/pod-index",
)
QUEUES = (
    "kueue.x-k8s.io/queue-name",
    # Of pods that Kueue has admitted, also where only their job names a queue.
    "kueue.x-k8s.io/local-queue-name",
    "kai.scheduler/queue",
    "runai/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)

KINDS: Mapping[str, str] = {
    "PyTorchJob": "TrainingJob",
    "TFJob": "TrainingJob",
    "XGBoostJob": "TrainingJob",
    "PaddleJob": "TrainingJob",
    "JAXJob": "TrainingJob",
    "MPIJob": "TrainingJob",
    # A TrainJob of the trainer makes a JobSet of its own name.
    "TrainJob": "JobSet",
}
"""Objects whose pods carry the same labels are one kind here."""


class Membership(NamedTuple):
    """What a pod belongs to, and as what.

    `independent`: its peers can do without it; `made_by`: the controller that makes its pods.
    """

    group: GroupKey
    role: str
    order: int
    independent: bool
    made_by: GroupKey | None = None


def membership(
    namespace: str,
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner: GroupKey | None,
) -> Membership:
    """What the pod belongs to; a pod that belongs to nothing is a group of its own."""
    marks = {**annotations, **labels}
    order = next((int(marks[key]) for key in INDICES if _index(marks.get(key))), _suffix(name))
    made_by, role, independent = _made_by(namespace, marks, owner)
    if marks.get(KUEUE_GROUP):
        group = GroupKey("PodSet", namespace, marks[KUEUE_GROUP])
        return Membership(group, role, order, False, made_by)
    for kind, key in POD_GROUPS:
        if marks.get(key):
            group = GroupKey(kind, namespace, marks[key])
            return Membership(group, role, order, False, made_by)
    if made_by is None:
        return Membership(GroupKey("Pod", namespace, name), "", order, True)
    return Membership(made_by, role, order, independent, made_by)


def _made_by(
    namespace: str, marks: Mapping[str, str], owner: GroupKey | None
) -> tuple[GroupKey | None, str, bool]:
    """The controller, the role in it, and whether its pods are independent."""
    if marks.get(LWS_NAME):
        name = f"{marks[LWS_NAME]}-{marks.get(LWS_GROUP, '0')}"
        role = "leader" if marks.get(LWS_WORKER) == "0" else "worker"
        return GroupKey("LeaderWorkerSet", namespace, name), role, False
    for kind, key, role_key in CONTROLLERS:
        if marks.get(key):
            # The MPI operator says launcher and worker by a label of their own.
            role = marks.get(role_key, "") or marks.get(JOB_ROLE, "")
            role = role.lower()
            return GroupKey(kind, namespace, marks[key]), role, kind == "RayCluster"
    for key in JOB_NAMES:
        if marks.get(key) and (owner is None or owner.kind == "Job"):
            return GroupKey("Job", namespace, marks[key]), "", JOB_INDEX not in marks
    if owner is not None and owner.kind == "Job":
        return owner, "", JOB_INDEX not in marks
    return owner, "", True


def queue_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The queue that an object names; of Kueue this is the name of a LocalQueue."""
    for key in QUEUES:
        for marks in (labels, annotations):
            if marks.get(key):
                return marks[key]
    return ""


def _index(value: str | None) -> bool:
    return value is not None and value.isascii() and value.isdigit() and len(value) < 10


def _suffix(name: str) -> int:
    found = re.search(r"-(\d{1,9})$", name)
    return int(found[1]) if found else 0
