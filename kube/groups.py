"""Objects that say how pods belong together: PodGroups, Workloads, and controllers of jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kube.membership import KINDS, queue_of
from kube.pods import controller, read_template
from kube.proximity import gang_topology
from kube.records import Group, GroupKey, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specs.importers.fields import Fields

FINER = {
    "subGroups": "sub-groups of PodGroups: members of all of them count together",
    "subGroupPolicy": "sub-groups of PodGroups: members of all of them count together",
    "networkTopology": "networkTopology of Volcano, which is about tiers of HyperNodes",
    "minResources": "minResources of PodGroups: what their pods ask for counts",
}
"""Fields of PodGroups that say more than a spec can, and the remark about each."""
IN_ORDER = "order of Jobs in a JobSet (startupPolicy, dependsOn): all start together"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
EXCLUSIVE_JOBS = "exclusive topology of JobSets: each Job in a place of its own, others kept away"
ELASTIC = "elasticPolicy of training jobs: they start with all their replicas"
LOWEST = -(2**31)
KAI_FIXED = 100
"""Priority from which on KAI stops work for nobody, where its PodGroup does not say."""

GROUPED = frozenset({"LeaderWorkerSet", "StatefulSet"})
"""Kinds whose pods bear the name of their Workload as that of a pod group."""


def pod_group(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A PodGroup of scheduler-plugins, Volcano or KAI."""
    spec = obj.map("spec")
    topology = None
    for key, required in (("requiredTopologyLevel", True), ("preferredTopologyLevel", False)):
        level = spec.map("topologyConstraint").text(key)
        topology = topology or ((level, required) if level else None)
    api = obj.text("apiVersion")
    fixed_from = None
    if api.startswith("scheduling.run.ai/"):
        # Without a word about it, KAI stops what has a priority below 100 only.
        said = {"preemptible": None, "non-preemptible": LOWEST}
        fixed_from = said.get(spec.text("preemptibility"), KAI_FIXED)
    yield replace(
        _group(GroupKey("PodGroup", namespace, name), obj),
        least=_least(spec),
        fixed_from=fixed_from,
        least_of_role={
            key.lower(): spec.map("minTaskMember").whole(key, 0, 0)
            for key in spec.table("minTaskMember")
        },
        queue=spec.text("queue") or _queue(obj) or _default_queue(obj),
        priority_class=spec.text("priorityClassName"),
        topology=topology,
        ignored=tuple(remark for key, remark in FINER.items() if spec.has(key)),
    )


def _least(spec: Fields) -> int:
    """How many pods of a PodGroup start together; KAI may say that by its sub-groups alone."""
    parts = list(spec.maps("subGroups"))
    if spec.has("minMember") or not parts:
        return spec.whole("minMember", 1, 0)
    return max(1, sum(part.whole("minMember", 0, 0) for part in parts))


def workload(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A Workload of Kueue: what a job or a group of pods asks of its queue."""
    spec = obj.map("spec")
    true = {
        condition.text("type")
        for condition in obj.map("status").maps("conditions")
        if condition.text("status") == "True"
    }
    inactive = spec.has("active") and not spec.flag("active")
    state = "waits"
    if "Finished" in true or inactive:
        state = "held"
    elif "Admitted" in true:
        state = "goes"
    owners = list(obj.map("metadata").maps("ownerReferences"))
    stands_for = controller(namespace, obj.map("metadata"))
    grouped = stands_for is None and any(owner.text("kind") == "Pod" for owner in owners)
    if stands_for is None and owners:
        stands_for = GroupKey(owners[0].text("kind"), namespace, owners[0].name("name"))
    if grouped or (stands_for is not None and stands_for.kind in GROUPED):
        # A Workload of a pod group bears the name of the group; one of a single pod has that
        # pod as its controller.
        stands_for = GroupKey("PodSet", namespace, name)
    elif stands_for is not None:
        kind = KINDS.get(stands_for.kind, stands_for.kind)
        stands_for = GroupKey(kind, namespace, stands_for.name)
    members = []
    ignored: dict[str, None] = {}
    for pod_set in spec.maps("podSets"):
        member = _member(pod_set.text("name", "main"), pod_set.whole("count", 1, 0), pod_set)
        request = pod_set.map("topologyRequest")
        for key, required in (("preferred", False), ("required", True)):
            if request.text(key):
                template = replace(
                    member.template,
                    topology=(request.text(key), required),
                    topology_group=request.text("podSetGroupName"),
                )
                member = replace(member, template=template)
        if request.has("podSetSliceRequiredTopology"):
            ignored["topology of slices of pod sets"] = None
        if pod_set.has("minCount"):
            member = replace(member, least=pod_set.whole("minCount", 1, 0))
        members.append(member)
    topology = gang_topology((member.role, member.template) for member in members)
    yield replace(
        _group(GroupKey("Workload", namespace, name), obj),
        stands_for=stands_for,
        members=tuple(members),
        queue=spec.text("queueName"),
        priority=spec.whole("priority", 0) if spec.has("priority") else None,
        priority_class=spec.text("priorityClassName") or spec.map("priorityClassRef").text("name"),
        topology=topology.rule,
        ignored=(*ignored, *topology.ignored),
        state=state,
    )


def job(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A Job: a gang if each of its pods does its own part, else pods that work off a queue."""
    spec = obj.map("spec")
    parallelism = spec.whole("parallelism", 1, 0)
    completions = spec.whole("completions", parallelism, 0)
    count = min(parallelism, completions)
    indexed = spec.text("completionMode") == "Indexed"
    member = _member("", count, spec)
    annotated = obj.map("metadata", "annotations")
    if annotated.has("kueue.x-k8s.io/job-min-parallelism"):
        least = annotated.amount("kueue.x-k8s.io/job-min-parallelism")
        member = replace(member, least=min(count, int(least)))
    yield replace(
        _group(GroupKey("Job", namespace, name), obj),
        members=(member,),
        state=_state(spec.flag("suspend"), obj),
        independent=not (indexed and completions <= parallelism),
    )


def job_set(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A JobSet: all of its Jobs together."""
    spec = obj.map("spec")
    members = []
    ignored: dict[str, None] = {}
    if spec.map("startupPolicy").text("startupPolicyOrder") == "InOrder":
        ignored[IN_ORDER] = None
    if EXCLUSIVE in obj.map("metadata").annotations():
        ignored[EXCLUSIVE_JOBS] = None
    for entry in spec.maps("replicatedJobs"):
        inner = entry.map("template", "spec")
        if entry.has("dependsOn"):
            ignored[IN_ORDER] = None
        if EXCLUSIVE in entry.map("template", "metadata").annotations():
            ignored[EXCLUSIVE_JOBS] = None
        pods = min(inner.whole("parallelism", 1, 0), inner.whole("completions", 2**31 - 1, 0))
        count = pods * entry.whole("replicas", 1, 0, 1_000_000)
        members.append(_member(entry.text("name").lower(), count, inner))
    yield replace(
        _group(GroupKey("JobSet", namespace, name), obj),
        members=tuple(members),
        ignored=tuple(ignored),
        state=_state(spec.flag("suspend"), obj),
    )


def leader_worker_set(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A LeaderWorkerSet: each of its groups is a gang of a leader and its workers."""
    spec = obj.map("spec")
    inner = spec.map("leaderWorkerTemplate")
    size = inner.whole("size", 1, 1, 1_000_000)
    leader = "leaderTemplate" if inner.has("leaderTemplate") else "workerTemplate"
    members = [_member("leader", 1, inner, leader)]
    if size > 1:
        members.append(_member("worker", size - 1, inner, "workerTemplate"))
    for index in range(spec.whole("replicas", 1, 0, 100_000)):
        key = GroupKey("LeaderWorkerSet", namespace, f"{name}-{index}")
        yield replace(_group(key, obj), members=tuple(members))


def ray_cluster(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A RayCluster: which RayJob made it."""
    suspended = obj.map("spec").flag("suspend")
    yield replace(
        _group(GroupKey("RayCluster", namespace, name), obj),
        state="held" if suspended else "goes",
    )


def training_job(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A job of the training operator, or an MPIJob: its replica types are the roles."""
    spec = obj.map("spec")
    key = next((key for key in spec.data if str(key).endswith("ReplicaSpecs")), "replicaSpecs")
    replicas = spec.map(str(key))
    members = [
        _member(
            str(role).lower(), replicas.map(str(role)).whole("replicas", 1, 0), replicas.map(role)
        )
        for role in replicas.data
    ]
    policy = spec.map("runPolicy")
    scheduling = policy.map("schedulingPolicy")
    yield replace(
        _group(GroupKey("TrainingJob", namespace, name), obj),
        members=tuple(members),
        least=scheduling.whole("minAvailable", 1, 0) if scheduling.has("minAvailable") else None,
        ignored=(ELASTIC,) if spec.has("elasticPolicy") else (),
        queue=scheduling.text("queue") or _queue(obj),
        priority_class=scheduling.text("priorityClass"),
        state=_state(policy.flag("suspend"), obj),
    )


def volcano_job(namespace: str, name: str, obj: Fields) -> Iterator[Group]:
    """A Job of Volcano: its tasks are the roles.

    Volcano makes its pods when its PodGroup may have room, so one that is pending waits.
    """
    spec = obj.map("spec")
    phase = obj.map("status", "state").text("phase")
    states = {"": "waits", "Pending": "waits", "Running": "goes", "Restarting": "waits"}
    members = []
    for index, task in enumerate(spec.maps("tasks")):
        count = task.whole("replicas", 1, 0)
        member = _member(task.text("name", f"task{index}").lower(), count, task)
        if task.has("minAvailable"):
            member = replace(member, least=task.whole("minAvailable", 1, 0))
        members.append(member)
    yield replace(
        _group(GroupKey("VolcanoJob", namespace, name), obj),
        members=tuple(members),
        least=spec.whole("minAvailable", 1, 0) if spec.has("minAvailable") else None,
        queue=spec.text("queue") or _queue(obj) or _default_queue(obj),
        priority_class=spec.text("priorityClassName"),
        state=states.get(phase, "held"),
    )


def _group(key: GroupKey, obj: Fields) -> Group:
    """What all of them have in common."""
    return Group(
        key=key,
        stands_for=controller(key.namespace, obj.map("metadata")),
        queue=_queue(obj),
        created=obj.map("metadata").text("creationTimestamp"),
    )


def _default_queue(obj: Fields) -> str:
    """The queue of what names none: Volcano has one for that."""
    volcano = obj.text("apiVersion").partition("/")[0].endswith("volcano.sh")
    return "default" if volcano else ""


def _queue(obj: Fields) -> str:
    meta = obj.map("metadata")
    return queue_of(meta.table("labels"), meta.annotations())


def _member(role: str, count: int, holder: Fields, key: str = "template") -> Member:
    """The pods of a template in `holder`."""
    inner = holder.map(key)
    template = read_template(inner.map("metadata"), inner.map("spec"))
    return Member(role=role, count=count, least=count, template=template)


def _state(suspended: bool, obj: Fields) -> str:
    """A suspended job waits if a queue is to decide; else somebody stopped it on purpose."""
    ended = any(
        condition.text("type") in ("Complete", "Failed", "Completed", "Succeeded")
        and condition.text("status") == "True"
        for condition in obj.map("status").maps("conditions")
    )
    if ended:
        return "held"
    if not suspended:
        return "goes"
    return "waits" if _queue(obj) else "held"
