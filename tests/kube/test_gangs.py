"""What starts together: gangs from every kind of object that makes them."""

from __future__ import annotations

import pytest

from solver.api import solve
from solver.options import SolveOptions
from specs.errors import SpecErrors
from tests.kube.objects import CREATED, GPU, gang, node, pod, read, thing


def template(gpus=1, **labels):
    amounts = {"limits": {GPU: str(gpus)}}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "resources": amounts}]},
    }


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def sizes(job):
    """Role to replicas and minimum."""
    return {role.name: (role.replicas, role.min_replicas) for role in job.roles}


def test_a_pod_group_starts_whole_or_not_at_all():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 3}, namespace="team"
    )
    told = read(node("n1", 2), group, gang("g", 3, 1), pod("s", 1))

    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    assert told.job("team/g").gang
    assert {p.job for p in result.plan.placements} == {"team/s"}


@pytest.mark.parametrize(
    ("api", "mark", "where"),
    [
        ("scheduling.x-k8s.io/v1alpha1", "scheduling.x-k8s.io/pod-group", "labels"),
        ("scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/group-name", "annotations"),
        ("scheduling.run.ai/v2alpha2", "pod-group-name", "annotations"),
    ],
)
def test_min_member_below_the_size_makes_a_gang_elastic(api, mark, where):
    group = thing("PodGroup", api, "g", {"minMember": 2}, namespace="team")
    pods = [pod(f"g-{i}", 1, **{where: {mark: "g"}}) for i in range(4)]

    told = read(node("n1", 8), group, pods)

    assert sizes(told.job("team/g")) == {"replica": (4, 2)}


def test_members_that_are_not_made_yet_are_wanted_too():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 5}, namespace="team"
    )

    told = read(node("n1", 8), group, gang("g", 3, 1))

    assert sizes(told.job("team/g")) == {"replica": (5, 5)}
    assert told.says("assumed", "not made yet", "(2")


def test_what_waits_of_a_gang_that_runs_needs_only_the_rest_of_its_minimum():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 3}, namespace="team"
    )
    marks = {"scheduling.x-k8s.io/pod-group": "g"}
    runs = [pod(f"r{i}", 1, on="n1", labels=marks) for i in range(2)]

    told = read(node("n1", 8), group, runs, gang("g", 3, 1))

    assert sizes(told.job("team/g/rest")) == {"replica": (3, 1)}
    assert len(told.running("team/g").replicas) == 2


def test_without_its_object_a_pod_group_starts_whole_and_that_is_said():
    told = read(node("n1", 8), gang("g", 3, 1))

    assert told.job("team/g").gang
    assert told.says("assumed", "PodGroup", "team/g")


def test_a_pod_group_of_one_is_no_gang():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 1}, namespace="team"
    )

    assert not read(node("n1", 8), group, gang("g", 3, 1)).job("team/g").gang


def test_a_workload_waits_for_its_queue_before_there_is_any_pod():
    workload = thing(
        "Workload",
        "kueue.x-k8s.io/v1beta1",
        "w",
        {
            "queueName": "lq",
            "priority": 50,
            "podSets": [
                {"name": "leader", "count": 1, "template": template(0)},
                {
                    "name": "worker",
                    "count": 4,
                    "minCount": 2,
                    "template": template(8),
                    "topologyRequest": {"required": "cloud.provider.com/topology-rack"},
                },
            ],
        },
        namespace="team",
        owner=("JobSet", "train"),
    )
    job_set = thing(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "train",
        {"suspend": True, "replicatedJobs": []},
        namespace="team",
        labels={"kueue.x-k8s.io/queue-name": "lq"},
    )
    local = thing(
        "LocalQueue", "kueue.x-k8s.io/v1beta1", "lq", {"clusterQueue": "cq"}, namespace="team"
    )
    told = read(
        node("n1", 8, labels={"cloud.provider.com/topology-rack": "r"}), workload, job_set, local
    )

    job = told.job("team/train")
    assert sizes(job) == {"leader": (1, 1), "worker": (4, 2)}
    assert (job.queue, job.priority) == ("cq", 50)
    assert (job.topology.within, job.topology.required) == ("rack", True)
    assert len(told.problem.jobs) == 1


@pytest.mark.parametrize("condition", ["Finished", "Admitted"])
def test_workloads_that_are_decided_do_not_wait(condition):
    workload = thing(
        "Workload",
        "kueue.x-k8s.io/v1beta1",
        "w",
        {"podSets": [{"name": "main", "count": 2, "template": template(1)}]},
        status={"conditions": [{"type": condition, "status": "True"}]},
        namespace="team",
    )

    assert read(node("n1", 8), workload).problem.jobs == ()


def test_gated_pods_of_a_kueue_group_are_the_workload_and_not_counted_twice():
    marks = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/queue-name": "lq"}
    pods = [
        pod(f"p{i}", 1, labels=marks, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
        for i in range(2)
    ]
    workload = thing(
        "Workload",
        "kueue.x-k8s.io/v1beta1",
        "g",
        {"queueName": "lq", "podSets": [{"name": "main", "count": 2, "template": template(1)}]},
        namespace="team",
    )
    workload["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": f"p{i}"} for i in range(2)]

    told = read(node("n1", 8), pods, workload)

    assert [job.name for job in told.problem.jobs] == ["team/g"]
    assert sizes(told.job("team/g")) == {"replica": (2, 2)}


def test_a_job_set_starts_whole_with_its_roles():
    def member(role, i, gpus):
        marks = {
            "jobset.sigs.k8s.io/jobset-name": "js",
            "jobset.sigs.k8s.io/replicatedjob-name": role,
        }
        return pod(f"js-{role}-{i}", gpus, labels=marks, owner=("Job", f"js-{role}"))

    told = read(node("n1", 8), member("driver", 0, 1), [member("worker", i, 2) for i in range(3)])

    assert told.job("team/js").gang
    assert sizes(told.job("team/js")) == {"driver": (1, 1), "worker": (3, 3)}


def test_each_group_of_a_leader_worker_set_is_a_gang():
    def member(group, worker):
        marks = {
            "leaderworkerset.sigs.k8s.io/name": "lws",
            "leaderworkerset.sigs.k8s.io/group-index": str(group),
            "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
        }
        return pod(f"lws-{group}-{worker}", 1 + (worker > 0), labels=marks)

    told = read(node("n1", 8), [member(g, w) for g in range(2) for w in range(3)])

    assert [job.name for job in told.problem.jobs] == ["team/lws-0", "team/lws-1"]
    assert sizes(told.job("team/lws-0")) == {"leader": (1, 1), "worker": (2, 2)}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("training.kubeflow.org/job-name", "training.kubeflow.org/replica-type"),
        ("volcano.sh/job-name", "volcano.sh/task-spec"),
    ],
)
def test_jobs_of_training_operators_start_whole(name, role):
    pods = [pod(f"t-{w}", 2, labels={name: "t", role: "Worker"}) for w in range(2)]
    pods.append(pod("t-m", 1, labels={name: "t", role: "Master"}))

    told = read(node("n1", 8), pods)

    assert told.job("team/t").gang
    assert sizes(told.job("team/t")) == {"master": (1, 1), "worker": (2, 2)}


def test_suspended_training_jobs_with_a_queue_wait_and_others_are_held():
    def job(kind, name, labels):
        replicas = {"Master": {"replicas": 1, "template": template(1)}}
        replicas["Worker"] = {"replicas": 3, "template": template(8)}
        key = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}[kind]
        return thing(
            kind,
            "kubeflow.org/v1",
            name,
            {key: replicas, "runPolicy": {"suspend": True}},
            namespace="team",
            labels=labels,
        )

    told = read(
        node("n1", 8),
        job("PyTorchJob", "a", {"kueue.x-k8s.io/queue-name": "q"}),
        job("MPIJob", "b", {}),
    )

    assert sizes(told.job("team/a")) == {"master": (1, 1), "worker": (3, 3)}
    assert [job.name for job in told.problem.jobs] == ["team/a"]
    assert told.says("ignored", "suspended", "team/b")


def test_launcher_and_workers_of_an_mpi_job_are_its_roles():
    def member(name, role):
        marks = {"job-name": "m", "job-role": role}
        labels = {f"training.kubeflow.org/{key}": value for key, value in marks.items()}
        return pod(name, 8 if role == "worker" else 0, labels=labels, owner=("MPIJob", "m"))

    told = read(
        node("n1", 8),
        member("m-launcher", "launcher"),
        member("m-0", "worker"),
        member("m-1", "worker"),
    )

    assert sizes(told.job("team/m")) == {"launcher": (1, 1), "worker": (2, 2)}


def test_a_train_job_and_the_job_set_that_it_makes_are_one_job():
    made = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": template(4)}}}]}
    marks = {"jobset.sigs.k8s.io/jobset-name": "t", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    told = read(
        node("n1", 8),
        thing(
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            "t",
            made,
            namespace="team",
            owner=("TrainJob", "t"),
        ),
        thing(
            "Workload",
            "kueue.x-k8s.io/v1beta2",
            "trainjob-t-1a2b",
            {"podSets": [{"name": "node", "count": 1, "template": template(4)}], "queueName": "q"},
            namespace="team",
            owner=("TrainJob", "t"),
        ),
        pod("t-node-0-0", 4, labels=marks, owner=("Job", "t-node-0")),
    )

    assert [job.name for job in told.problem.jobs] == ["team/t"]


def test_a_pod_group_of_sub_groups_alone_needs_the_members_of_them_all():
    spec = {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 3}]}
    told = read(
        node("n1", 3),
        thing("PodGroup", "scheduling.run.ai/v2alpha2", "g", spec, namespace="team"),
        [pod(f"g-{i}", 1, annotations={"pod-group-name": "g"}) for i in range(4)],
    )

    assert told.job("team/g").roles[0].min_replicas == 4
    assert told.says("ignored", "sub-groups of PodGroups", "team/g")


def test_what_else_groups_ask_of_their_place_is_listed():
    told = read(
        node("n1", 8),
        thing(
            "PodGroup",
            "scheduling.volcano.sh/v1beta1",
            "v",
            {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
            namespace="team",
        ),
        thing(
            "Workload",
            "kueue.x-k8s.io/v1beta2",
            "w",
            {
                "podSets": [
                    {
                        "name": "main",
                        "count": 4,
                        "template": template(1),
                        "topologyRequest": {
                            "podSetSliceRequiredTopology": "rack",
                            "podSetSliceSize": 2,
                        },
                    }
                ]
            },
            namespace="team",
        ),
    )

    assert told.says("ignored", "networkTopology of Volcano", "(1: team/v")
    assert told.says("ignored", "topology of slices of pod sets", "(1: team/w")


def job_object(**spec):
    return thing("Job", "batch/v1", "j", {"template": template(1), **spec}, namespace="team")


@pytest.mark.parametrize(
    ("spec", "together"),
    [
        ({"parallelism": 4, "completions": 4, "completionMode": "Indexed"}, True),
        ({"parallelism": 4, "completions": 8, "completionMode": "Indexed"}, False),
        ({"parallelism": 4}, False),
    ],
)
def test_a_job_is_a_gang_where_each_pod_does_its_own_part(spec, together):
    pods = [pod(f"j-{i}", 1, owner=("Job", "j")) for i in range(4)]

    assert read(node("n1", 8), job_object(**spec), pods).job("team/j").gang is together


def test_without_its_object_the_completion_index_tells_that_a_job_is_a_gang():
    marks = {"batch.kubernetes.io/job-name": "j"}
    index = "batch.kubernetes.io/job-completion-index"
    pods = [
        pod(f"j-{i}", 1, labels=marks, annotations={index: str(i)}, owner=("Job", "j"))
        for i in range(12)
    ]

    told = read(node("n1", 8), pods)

    assert told.job("team/j").gang
    order = [p.name for p in told.imported.pending["team/j"].tasks[0].pods]
    assert order == [f"j-{i}" for i in range(12)]


def test_replicas_of_a_deployment_start_each_for_itself():
    pods = [pod(f"web-{i}", 1, owner=("ReplicaSet", "web")) for i in range(3)]

    assert not read(node("n1", 8), pods).job("team/web").gang


def test_pods_of_a_gang_that_runs_are_one_job():
    told = read(node("n1", 8), gang("g", 3, 1, on="n1"), pod("alone", 1, on="n1"))

    assert told.running("team/g").min_replicas is None
    assert len(told.running("team/g").replicas) == 3


def test_equal_names_of_different_objects_are_told_apart():
    told = read(node("n1", 8), pod("x", 1), pod("x-1", 1, owner=("ReplicaSet", "x")))

    assert {job.name for job in told.problem.jobs} == {"team/x", "team/replicaset/x"}


def test_the_gang_waits_since_its_first_pod_came():
    early, late = "2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z"
    marks = {"scheduling.x-k8s.io/pod-group": "g"}
    told = read(
        node("n1", 8),
        pod("s", 1, created=late),
        pod("g-0", 1, labels=marks, created=CREATED),
        pod("g-1", 1, labels=marks, created=early),
    )

    assert [job.name for job in told.problem.jobs] == ["team/g", "team/s"]


def test_jobs_of_a_job_set_are_not_counted_beside_it():
    spec = {"suspend": True, "template": template(1), "parallelism": 2}
    marks = {"kueue.x-k8s.io/queue-name": "q"}
    inner = {"template": template(1), "parallelism": 2}
    job_set = thing(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "js",
        {"suspend": True, "replicatedJobs": [{"name": "w", "template": {"spec": inner}}]},
        namespace="team",
        labels=marks,
    )
    child = thing("Job", "batch/v1", "js-w-0", spec, namespace="team", owner=("JobSet", "js"))
    alone = thing(
        "Job", "batch/v1", "c-1", spec, namespace="team", labels=marks, owner=("CronJob", "c")
    )

    told = read(node("n1", 8), job_set, child, alone)

    assert {job.name: sizes(job) for job in told.problem.jobs} == {
        "team/js": {"replica": (2, 2)},
        "team/c-1": {"replica": (2, 2)},
    }


def test_running_work_of_a_workload_has_its_priority_too():
    workload = thing(
        "Workload",
        "kueue.x-k8s.io/v1beta1",
        "w",
        {"priority": 70, "podSets": [{"name": "main", "count": 1, "template": template(1)}]},
        status={"conditions": [{"type": "Admitted", "status": "True"}]},
        namespace="team",
        owner=("Job", "j"),
    )

    told = read(node("n1", 8), workload, pod("j-0", 1, on="n1", owner=("Job", "j"), priority=0))

    assert told.running("team/j").priority == 70


def test_the_rest_of_a_gang_with_a_topology_is_said_to_be_planned_without_its_running_part():
    marks = {"scheduling.x-k8s.io/pod-group": "g"}
    near = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    runs = pod("g-0", 1, on="n1", labels=marks, annotations=near)

    told = read(node("n1", 8), runs, pod("g-1", 1, labels=marks, annotations=near))

    assert told.job("team/g/rest").topology.within == "node"
    assert told.says("ignored", "running part", "team/g/rest")


def kueue_group(name: str, owner: tuple[str, str], *, controls: bool = True):
    """A Workload of two pods of eight GPUs."""
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 2, "template": template(8)}]}
    found = thing("Workload", "kueue.x-k8s.io/v1beta1", name, spec, namespace="team", owner=owner)
    found["metadata"]["ownerReferences"][0]["controller"] = controls
    return found


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "StatefulSet"])
def test_pods_that_bear_the_name_of_their_workload_are_counted_once(kind: str):
    marks = {"kueue.x-k8s.io/pod-group-name": "w", "kueue.x-k8s.io/queue-name": "lq"}
    pods = [pod(f"vllm-{i}", 8, labels=marks, owner=("StatefulSet", "vllm")) for i in (0, 1)]

    told = read(node("n1", 8), kueue_group("w", (kind, "vllm"), controls=False), pods)

    assert [(job.name, job.replicas) for job in told.problem.jobs] == [("team/w", 2)]


def test_the_workload_of_a_single_pod_is_that_pod():
    workload = kueue_group("pod-notebook-1a2b3", ("Pod", "notebook"))
    workload["spec"]["podSets"][0]["count"] = 1
    workload["spec"]["priority"] = 7

    told = read(node("n1", 8), workload, pod("notebook", 8))

    assert [(job.name, job.priority) for job in told.problem.jobs] == [("team/notebook", 7)]


def test_what_is_part_of_its_node_is_not_stopped():
    told = read(node("n1", 8), pod("agent-x", 1, on="n1", owner=("DaemonSet", "agent")))

    assert [job.preemption.allowed for job in told.problem.running] == [False]


RACK, BLOCK = "cloud.provider.com/topology-rack", "cloud.provider.com/topology-block"


def kueue_workload(*pod_sets, owner=("JobSet", "train"), **status):
    spec = {"queueName": "lq", "podSets": list(pod_sets)}
    api = "kueue.x-k8s.io/v1beta2"
    return thing("Workload", api, "w", spec, namespace="team", owner=owner, **status)


def pod_set(name, count, gpus, **request):
    return {
        "name": name,
        "count": count,
        "template": template(gpus),
        "topologyRequest": request or None,
    }


def racks(count):
    """Racks of two nodes of 8 GPUs each, two racks in a block."""
    return [
        node(f"n{i}", 8, labels={RACK: f"r{i // 2}", BLOCK: f"b{i // 4}"}) for i in range(2 * count)
    ]


def test_racks_of_pod_sets_are_no_rack_of_the_whole_gang():
    """Two pod sets, each in a rack of its own, fill two racks; one rack could not hold both."""
    told = read(
        racks(2),
        kueue_workload(pod_set("a", 2, 8, required=RACK), pod_set("b", 2, 8, required=RACK)),
    )

    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    assert not told.job("team/train").topology.required
    assert told.says("ignored", "topology of each pod set", "team/w")
    assert {placement.job for placement in result.plan.placements} == {"team/train"}


def test_pod_sets_of_one_group_are_in_one_rack():
    both = {"required": RACK, "podSetGroupName": "pair"}

    told = read(racks(2), kueue_workload(pod_set("a", 1, 8, **both), pod_set("b", 1, 8, **both)))

    assert told.job("team/train").topology.required
    assert not told.says("topology of each pod set")


def test_a_second_pod_set_without_a_rule_may_be_anywhere():
    told = read(racks(2), kueue_workload(pod_set("a", 2, 8, required=RACK), pod_set("b", 2, 8)))

    assert not told.job("team/train").topology.required
    assert told.says("ignored", "topology of each pod set", "team/w")


def test_annotations_of_roles_are_rules_of_roles_too():
    def role(name):
        inner = template(8)
        inner["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}
        return {"name": name, "template": {"spec": {"parallelism": 2, "template": inner}}}

    spec = {"suspend": True, "replicatedJobs": [role("a"), role("b")]}
    queue = {"kueue.x-k8s.io/queue-name": "lq"}

    told = read(
        racks(2),
        thing("JobSet", "jobset.x-k8s.io/v1alpha2", "js", spec, namespace="team", labels=queue),
    )

    assert not told.job("team/js").topology.required
    assert told.says("ignored", "topology of each pod set", "team/js")


def topology(name, *labels):
    levels = [{"nodeLabel": label} for label in labels]
    return thing("Topology", "kueue.x-k8s.io/v1beta2", name, {"levels": levels})


def test_levels_of_two_topologies_are_in_the_order_of_both():
    """A zone of four nodes holds a gang of four, whichever topology came first."""
    machines = [
        node(
            f"n{i}", 8, labels={"t/zone": f"z{i // 4}", "t/block": f"b{i // 2}", "t/rack": f"r{i}"}
        )
        for i in range(8)
    ]
    told = read(
        machines,
        topology("a", "t/block", "t/rack", "kubernetes.io/hostname"),
        topology("b", "t/zone", "t/block"),
        kueue_workload(pod_set("main", 4, 8, required="t/zone"), owner=("Job", "wide")),
    )

    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    assert told.problem.levels == ("zone", "block", "rack")
    assert not told.says("no one line")
    assert {placement.job for placement in result.plan.placements} == {"team/wide"}


def test_topologies_that_are_no_one_line_are_said():
    machines = [node("n1", 8, labels={"t/row": "1", "t/power": "a", "t/rack": "r"})]

    told = read(machines, topology("a", "t/row", "t/rack"), topology("b", "t/power", "t/rack"))

    assert told.says("assumed", "no one line", "t/row > t/power > t/rack")


@pytest.mark.parametrize("object_is_there", [True, False])
def test_pods_of_a_ray_job_are_in_the_queue_that_admitted_it(object_is_there):
    marks = {"ray.io/cluster": "r-raycluster-x1y2z", "ray.io/node-type": "worker"}
    conditions = [{"type": "Admitted", "status": "True"}]
    cluster = thing(
        "RayCluster",
        "ray.io/v1",
        marks["ray.io/cluster"],
        {},
        namespace="team",
        owner=("RayJob", "r"),
    )
    told = read(
        node("n1", 8),
        kueue_workload(
            pod_set("head", 1, 0),
            pod_set("w", 2, 4),
            owner=("RayJob", "r"),
            status={"conditions": conditions},
        ),
        [
            pod(f"p{i}", 4, on="n1", labels=marks, owner=("RayCluster", marks["ray.io/cluster"]))
            for i in range(2)
        ],
        *([cluster] if object_is_there else []),
    )

    assert told.running("team/r-raycluster-x1y2z").queue == "lq"
    assert told.says("assumed", "RayJobs that their names tell") != object_is_there
    assert not told.says("Workload objects without pods")


def test_members_of_other_roles_that_are_not_made_yet_are_not_taken_for_those_that_are():
    """The head of a RayCluster has no GPUs: it is no third worker with eight."""
    marks = {"ray.io/cluster": "r-x1y2z", "ray.io/node-type": "worker"}
    pods = [pod(f"p{i}", 8, labels=marks, owner=("RayCluster", "r-x1y2z")) for i in range(2)]
    sets = pod_set("head", 1, 0), pod_set("w", 2, 8)

    told = read(node("n1", 8), kueue_workload(*sets, owner=("RayJob", "r")), pods)

    assert sizes(told.job("team/r-x1y2z")) == {"replica": (2, 2)}
    assert told.says("ignored", "several roles that are not made yet", "1: team/r-x1y2z")
    assert told.says("assumed", "RayJobs that their names tell", "1: team/r-x1y2z")


def test_members_that_are_not_made_yet_are_said_of_a_gang_of_several_kinds_of_pods():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": 5}, namespace="team"
    )
    marks = {"scheduling.x-k8s.io/pod-group": "g"}

    told = read(node("n1", 8), group, *gang("g", 2, 1), pod("leader", labels=marks))

    assert sum(most for most, _ in sizes(told.job("team/g")).values()) == 3
    assert told.says("ignored", "not made yet: not planned", "2: team/g")


def test_a_gang_of_pods_with_mig_instances_is_a_spec():
    told = read(
        node("n1", 0, more={"nvidia.com/mig-1g.10gb": "7"}, labels=H100),
        *gang("g", 2, 1, resource="nvidia.com/mig-1g.10gb"),
    )

    assert told.job("team/g").gang
    assert told.spec.jobs[0].across_instances


def test_admitted_pods_say_their_local_queue_themselves():
    told = read(
        node("n1", 8), pod("p", 1, on="n1", labels={"kueue.x-k8s.io/local-queue-name": "lq"})
    )

    assert told.running("team/p").queue == "lq"


def volcano_job(phase, *, least=3, **tasks):
    told = [
        {"name": name, "replicas": count, "template": template(gpus)}
        for name, (count, gpus) in tasks.items()
    ]
    spec = {"minAvailable": least, "queue": "v", "tasks": told}
    status = {"state": {"phase": phase}}
    api = "batch.volcano.sh/v1alpha1"
    return thing("Job", api, "vj", spec, namespace="team", status=status)


def volcano_group(least):
    spec = {"minMember": least, "queue": "v"}
    api = "scheduling.volcano.sh/v1beta1"
    return thing("PodGroup", api, "vj-uid", spec, namespace="team", owner=("Job", "vj"))


def test_a_volcano_job_waits_before_volcano_makes_its_pods():
    """Volcano makes them when the PodGroup may have room: that is the job one asks about."""
    job = volcano_job("Pending", least=3, worker=(4, 8))

    told = read([node(f"n{i}", 8) for i in range(3)], job, volcano_group(3))
    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    assert sizes(told.job("team/vj")) == {"replica": (4, 3)}
    assert told.job("team/vj").queue == "v"
    assert len(result.plan.placements) == 3


def test_a_volcano_job_whose_pods_are_there_is_counted_once():
    marks = {"volcano.sh/job-name": "vj", "volcano.sh/task-spec": "worker"}
    pods = [
        pod(
            f"vj-worker-{i}",
            8,
            labels=marks,
            annotations={"scheduling.k8s.io/group-name": "vj-uid"},
            owner=("Job", "vj"),
        )
        for i in range(4)
    ]

    told = read(node("n1", 8), volcano_job("Pending", worker=(4, 8)), volcano_group(3), pods)

    assert [job.name for job in told.problem.jobs] == ["team/vj-uid"]


@pytest.mark.parametrize("phase", ["Aborted", "Completed", "Terminated", "Failed"])
def test_volcano_jobs_that_have_ended_do_not_wait(phase):
    assert read(node("n1", 8), volcano_job(phase, worker=(4, 8))).problem.jobs == ()


def test_several_tasks_of_a_volcano_job_start_whole_and_that_is_said():
    told = read(node("n1", 8), volcano_job("", least=2, ps=(1, 1), worker=(4, 1)))

    assert sizes(told.job("team/vj")) == {"ps": (1, 1), "worker": (4, 4)}
    assert told.says("assumed", "several roles start whole", "team/vj")


def kai_group(**spec):
    spec = {"minMember": 1, **spec}
    return thing("PodGroup", "scheduling.run.ai/v2alpha2", "g", spec, namespace="team")


@pytest.mark.parametrize(
    ("preemptibility", "priority", "fixed"),
    [("", 50, False), ("", 100, True), ("preemptible", 100, False), ("non-preemptible", 50, True)],
)
def test_kai_says_which_work_is_stopped_for_nobody(preemptibility, priority, fixed):
    marks, owner = {"pod-group-name": "g"}, ("ReplicaSet", "rs")
    group = kai_group(preemptibility=preemptibility)

    told = read(
        node("n1", 8),
        group,
        pod("p", 1, on="n1", annotations=marks, owner=owner, priority=priority),
    )

    assert told.running("team/g").preemption.allowed is not fixed
    assert told.says("assumed", "stops for nobody", "team/g") is fixed


def test_a_pod_that_volcano_does_not_preempt_is_not_preempted():
    marks = {"volcano.sh/preemptable": "false"}

    told = read(node("n1", 8), pod("p", 1, on="n1", annotations=marks, owner=("Job", "j")))

    assert not told.running("team/j").preemption.allowed


def test_orders_and_places_of_job_sets_that_a_spec_cannot_say_are_listed():
    away = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    entry = {
        "name": "w",
        "dependsOn": [{"name": "x", "status": "Ready"}],
        "template": {"metadata": {"annotations": away}, "spec": {"template": template(1)}},
    }
    spec = {"suspend": True, "replicatedJobs": [entry]}

    told = read(
        node("n1", 8),
        thing("JobSet", "jobset.x-k8s.io/v1alpha2", "js", spec, namespace="team"),
    )

    assert told.says("ignored", "dependsOn", "team/js")
    assert told.says("ignored", "exclusive topology of JobSets", "team/js")


def test_what_training_jobs_need_at_least_counts_before_their_pods_are_made():
    queue = {"kueue.x-k8s.io/queue-name": "lq"}
    spec = {
        "runPolicy": {"suspend": True, "schedulingPolicy": {"minAvailable": 2}},
        "elasticPolicy": {"minReplicas": 2},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template(8)}},
    }

    told = read(
        node("n1", 8),
        thing("PyTorchJob", "kubeflow.org/v1", "pt", spec, namespace="team", labels=queue),
    )

    assert sizes(told.job("team/pt")) == {"replica": (4, 2)}
    assert told.says("ignored", "elasticPolicy", "team/pt")


def test_a_pod_group_of_less_than_nobody_is_refused():
    group = thing(
        "PodGroup", "scheduling.x-k8s.io/v1alpha1", "g", {"minMember": -1}, namespace="team"
    )

    with pytest.raises(SpecErrors, match="minMember"):
        read(node("n1", 8), group)


def test_a_suspended_ray_cluster_is_said_where_nothing_else_speaks_for_it():
    made = thing("RayCluster", "ray.io/v1", "rc", {"suspend": True}, namespace="team")
    queued = kueue_workload(pod_set("w", 2, 4), owner=("RayCluster", "rc"))

    alone, waits = read(node("n1", 8), made), read(node("n1", 8), made, queued)

    assert alone.says("ignored", "RayCluster objects suspended", "1: team/rc")
    assert [job.name for job in waits.problem.jobs] == ["team/rc"]
    assert not waits.says("suspended")
