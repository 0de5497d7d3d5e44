"""Queues of Kueue, Volcano and KAI."""

from __future__ import annotations

from solver.api import solve
from solver.options import SolveOptions
from tests.kube.objects import GPU, gang, node, pod, read, thing


def cluster_queue(name, gpus, *, borrows=None, **spec):
    resources = [
        {"name": GPU, "nominalQuota": str(gpus)} | ({"borrowingLimit": borrows} if borrows else {}),
        {"name": "cpu", "nominalQuota": "100"},
        {"name": "memory", "nominalQuota": "1Ti"},
    ]
    return kueue("ClusterQueue", name, flavors={"f": resources}, namespaceSelector={}, **spec)


def kueue(kind, name, *, flavors=None, **spec):
    """A ClusterQueue or a Cohort; flavors have their resources."""
    if flavors:
        covered = [resource["name"] for resource in next(iter(flavors.values()))]
        told = [{"name": name, "resources": resources} for name, resources in flavors.items()]
        spec["resourceGroups"] = [{"coveredResources": covered, "flavors": told}]
    return thing(kind, "kueue.x-k8s.io/v1beta2", name, spec)


def gpus(amount, **limits):
    return {"name": GPU, "nominalQuota": str(amount), **limits}


def local_queue(name, of, **spec):
    spec = {"clusterQueue": of, **spec}
    return thing("LocalQueue", "kueue.x-k8s.io/v1beta2", name, spec, namespace="team")


def workload(name, queue, *pod_sets, owner=("Job", "big"), conditions=(), **spec):
    status = {"conditions": [{"type": one, "status": "True"} for one in conditions]}
    spec = {"queueName": queue, "podSets": list(pod_sets), **spec}
    return thing(
        "Workload",
        "kueue.x-k8s.io/v1beta2",
        name,
        spec,
        namespace="team",
        owner=owner,
        status=status,
    )


def pod_set(name, count, gpus, **rest):
    limits = {GPU: str(gpus), "cpu": "1", "memory": "1Gi"}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {"name": name, "count": count, "template": {"spec": {"containers": containers}}, **rest}


def queue(told, name):
    return next(queue for queue in told.problem.queues if queue.name == name)


def started(told):
    """Jobs that a plan starts."""
    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")
    return {placement.job for placement in result.plan.placements}


def test_a_cluster_queue_without_a_cohort_cannot_borrow():
    told = read(node("n1", 8), cluster_queue("cq", 4))

    assert queue(told, "cq").quota == {
        "gpu_milli": 4000,
        "cpu_milli": 100_000,
        "memory_mib": 1 << 20,
    }
    assert queue(told, "cq").limit["gpu_milli"] == 4000
    assert told.says("ignored", "preemption rules of ClusterQueues", "cq")


def test_in_a_cohort_it_borrows_up_to_its_limit_and_the_cohort_is_its_parent():
    told = read(
        node("n1", 8),
        cluster_queue("a", 4, cohort="org", borrows="2"),
        cluster_queue("b", 4, cohortName="org"),
    )

    assert queue(told, "a").parent == "org"
    assert queue(told, "a").limit["gpu_milli"] == 6000
    assert "gpu_milli" not in queue(told, "b").limit
    assert queue(told, "org").quota == {}


def test_a_cohort_is_never_worth_more_than_the_quotas_in_it():
    """Two quotas of 8 on a cluster of 64: a job for 32 waits, one for 16 starts."""
    queues = [cluster_queue("a", 8, cohortName="c"), cluster_queue("b", 8, cohortName="c")]
    machines = [node(f"n{i}", 8) for i in range(8)]
    lq = local_queue("lq", "a")

    told = read(*machines, *queues, lq, workload("w", "lq", pod_set("main", 4, 8)))
    less = read(*machines, *queues, lq, workload("w", "lq", pod_set("main", 2, 8)))

    assert queue(told, "c").limit["gpu_milli"] == 16_000
    assert "gpu_milli" not in queue(told, "a").limit, "its cohort has the same limit"
    assert started(told) == set()
    assert started(less) == {"team/big"}


def test_a_cohort_borrows_on_top_of_what_its_queues_have():
    told = read(
        node("n1", 8),
        cluster_queue("a", 8, cohortName="c"),
        cluster_queue("b", 8, cohortName="c"),
        kueue("Cohort", "c", flavors={"f": [gpus(0, borrowingLimit="4")]}, parentName="root"),
        kueue("Cohort", "root", flavors={"f": [gpus(32)]}),
    )

    assert queue(told, "c").limit["gpu_milli"] == 20_000
    assert queue(told, "c").quota == {}, "the sum of those below it"
    assert queue(told, "root").limit["gpu_milli"] == 48_000
    assert queue(told, "root").quota["gpu_milli"] == 48_000, "its own and those below it"


def test_what_a_queue_does_not_lend_nobody_else_reaches():
    told = read(
        node("n1", 8),
        kueue(
            "ClusterQueue",
            "a",
            flavors={"f": [gpus(8, lendingLimit="2")]},
            cohortName="c",
            namespaceSelector={},
        ),
        cluster_queue("b", 4, cohortName="c"),
        kueue("Cohort", "c", flavors={"f": [gpus(1, lendingLimit="1")]}),
    )

    assert queue(told, "a").limit.get("gpu_milli", 13_000) == 13_000
    assert queue(told, "b").limit["gpu_milli"] == 7000, "its 4, the cohort's 1, and 2 of a's 8"
    assert queue(told, "c").limit["gpu_milli"] == 13_000
    assert told.says("ignored", "lending limits", "2: a, c")


def test_queues_of_two_kinds_with_one_name_are_two_queues():
    told = read(
        node("n1", 8),
        cluster_queue("team", 8, cohortName="team"),
        cluster_queue("other", 8, cohortName="team"),
        thing("Queue", "scheduling.volcano.sh/v1beta1", "team", {"weight": 3}),
    )

    assert queue(told, "team").quota["gpu_milli"] == 8000
    assert queue(told, "team").parent == queue(told, "other").parent == "cohort/team"
    assert queue(told, "cohort/team").limit["gpu_milli"] == 16_000
    assert queue(told, "volcano/team").weight == 3
    assert told.says("assumed", "two kinds with one name", "1: team")


def test_cohorts_that_are_above_themselves_are_cut_and_said():
    told = read(
        node("n1", 8),
        cluster_queue("a", 8, cohortName="c"),
        kueue("Cohort", "c", parentName="d"),
        kueue("Cohort", "d", parentName="c"),
    )

    assert {q.name: q.parent for q in told.problem.queues} == {"a": "c", "c": None, "d": "c"}
    assert told.says("ignored", "circle", "1: c")


def test_what_a_cluster_queue_does_not_cover_does_not_start():
    amounts = [{"name": name, "nominalQuota": "100G"} for name in ("cpu", "memory")]

    told = read(
        node("n1", 8),
        kueue("ClusterQueue", "a", flavors={"f": amounts}, namespaceSelector={}),
        local_queue("lq", "a"),
        workload("w", "lq", pod_set("main", 1, 1)),
    )

    assert queue(told, "a").limit["gpu_milli"] == 0
    assert told.says("assumed", "do not cover GPUs", "1: a")
    assert started(told) == set()


def test_quotas_of_several_flavors_are_one_amount_and_that_is_said():
    told = read(
        node("n1", 8),
        kueue(
            "ClusterQueue",
            "a",
            flavors={"h100": [gpus(8)], "a100": [gpus(4)]},
            namespaceSelector={},
        ),
    )

    assert queue(told, "a").limit["gpu_milli"] == 12_000
    assert told.says("ignored", "flavors of queues count together", "1: a")


def test_fields_of_cluster_queues_that_a_spec_has_no_word_for_are_said():
    spec = {
        "queueingStrategy": "StrictFIFO",
        "admissionChecks": ["provision"],
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
    }

    told = read(node("n1", 8), cluster_queue("a", 8, **spec))

    for word in ("StrictFIFO", "admission checks", "flavorFungibility", "admissionScope"):
        assert told.says("ignored", word, "1: a"), word
    assert not told.says("namespaceSelector")


def test_a_queue_that_no_namespace_may_use_starts_nothing():
    def work(selector):
        return read(
            node("n1", 8),
            selected("a", selector),
            local_queue("lq", "a"),
            workload("w", "lq", pod_set("main", 1, 1)),
        )

    def selected(name, selector):
        made = cluster_queue(name, 8)
        made["spec"]["namespaceSelector"] = selector
        return made

    closed = work(None)
    some = work({"matchLabels": {"team": "a"}})

    assert closed.problem.jobs == ()
    assert closed.says("ignored", "queue a, which is open to no namespace", "team/w")
    assert [job.name for job in some.problem.jobs] == ["team/big"]
    assert some.says("ignored", "namespaceSelectors", "1: a")


def test_pending_work_of_a_stopped_local_queue_is_left_out_and_said():
    told = read(
        node("n1", 8),
        cluster_queue("a", 8),
        local_queue("lq", "a", stopPolicy="Hold"),
        local_queue("open", "a"),
        workload("w", "lq", pod_set("main", 1, 1)),
        workload("v", "open", pod_set("main", 1, 1), owner=("Job", "small")),
    )

    assert [job.name for job in told.problem.jobs] == ["team/small"]
    assert told.says("ignored", "LocalQueue team/lq, which is stopped", "team/w")


def test_work_without_a_queue_is_not_in_a_queue_that_is_called_default():
    """Else pods that Kueue knows nothing of would use up a team's quota."""
    told = read(
        node("n1", 8),
        node("n2", 8),
        cluster_queue("default", 8),
        local_queue("lq", "default"),
        pod("free", 8, on="n1", owner=("ReplicaSet", "free")),
        workload("w", "lq", pod_set("main", 1, 8)),
    )

    assert told.running("team/free").queue == "unqueued"
    assert told.says("assumed", "names no queue", "unqueued")
    assert started(told) == {"team/big"}


def test_weights_of_fair_sharing_keep_their_proportions():
    told = read(
        node("n1", 8),
        cluster_queue("a", 1, fairSharing={"weight": "1500m"}),
        cluster_queue("b", 1, fairSharing={"weight": "1"}),
        cluster_queue("c", 1),
    )

    assert [queue(told, name).weight for name in "abc"] == [3, 2, 2]


def test_pods_go_to_the_cluster_queue_behind_their_local_queue():
    local = thing(
        "LocalQueue", "kueue.x-k8s.io/v1beta1", "lq", {"clusterQueue": "cq"}, namespace="team"
    )
    told = read(
        node("n1", 8),
        cluster_queue("cq", 4),
        local,
        pod("p", 1, labels={"kueue.x-k8s.io/queue-name": "lq"}),
        pod("free", 1),
    )

    assert told.job("team/p").queue == "cq"
    assert told.job("team/free").queue == "default"


def test_pending_work_of_a_stopped_queue_is_left_out_and_said():
    told = read(
        node("n1", 8),
        cluster_queue("cq", 4, stopPolicy="Hold"),
        pod("p", 1, labels={"kueue.x-k8s.io/queue-name": "cq"}),
    )

    assert told.problem.jobs == ()
    assert told.says("ignored", "stopped", "team/p")


def test_volcano_queues_have_weight_deserved_and_capability():
    spec = {"weight": 3, "deserved": {GPU: "2"}, "capability": {GPU: "4", "cpu": "32"}}
    group = thing(
        "PodGroup",
        "scheduling.volcano.sh/v1beta1",
        "g",
        {"minMember": 2, "queue": "v"},
        namespace="team",
    )
    told = read(
        node("n1", 8),
        thing("Queue", "scheduling.volcano.sh/v1beta1", "v", spec),
        group,
        gang("g", 2, 1),
    )

    found = queue(told, "v")
    assert (found.weight, found.quota, found.limit) == (
        3,
        {"gpu_milli": 2000},
        {"gpu_milli": 4000, "cpu_milli": 32_000},
    )
    assert told.job("team/g").queue == "v"


def test_kai_queues_count_cores_in_thousandths_and_minus_one_is_no_limit():
    spec = {
        "parentQueue": "org",
        "priority": 100,
        "resources": {
            "gpu": {"quota": 2.5, "limit": -1, "overQuotaWeight": 4},
            "cpu": {"quota": -1, "limit": 16000, "overQuotaWeight": 1},
            "memory": {"quota": 1000, "limit": -1},
        },
    }
    told = read(
        node("n1", 8),
        thing("Queue", "scheduling.run.ai/v2", "k", spec),
        pod("p", 1, labels={"kai.scheduler/queue": "k"}),
    )

    found = queue(told, "k")
    assert (found.parent, found.priority, found.weight) == ("org", 100, 4)
    assert found.quota == {"gpu_milli": 2500, "cpu_milli": 16_000, "memory_mib": 953}
    assert found.limit == {"cpu_milli": 16_000}


def test_without_any_queue_there_is_none_in_the_spec():
    assert read(node("n1", 8), pod("p", 1)).spec.queues == ()


def test_queues_that_are_only_named_are_there_and_said():
    told = read(node("n1", 8), pod("p", 1, labels={"kai.scheduler/queue": "gone"}))

    assert told.job("team/p").queue == "gone"
    assert told.says("assumed", "only named", "gone")


def test_amounts_that_are_not_counted_are_said():
    spec = {"capability": {"example.com/fpga": "4"}}

    told = read(node("n1", 8), thing("Queue", "scheduling.volcano.sh/v1beta1", "v", spec))

    assert told.says("ignored", "queue amounts of example.com/fpga", "v")


def kai(name, *, parent="", **spec):
    """A Queue of KAI; amounts are (quota, limit, weight)."""
    amounts = {key: spec.pop(key) for key in ("gpu", "cpu", "memory") if key in spec}
    if amounts:
        keys = ("quota", "limit", "overQuotaWeight")
        spec["resources"] = {
            key: {k: v for k, v in zip(keys, told, strict=True) if v is not None}
            for key, told in amounts.items()
        }
    if parent:
        spec["parentQueue"] = parent
    return thing("Queue", "scheduling.run.ai/v2", name, spec)


OPEN = (0, -1, 1)


def kai_pod(name, gpus, queue, **rest):
    return pod(name, gpus, labels={"kai.scheduler/queue": queue}, **rest)


def test_a_kai_queue_that_says_no_priority_has_one_of_100():
    """One of priority 50 is behind it, not before it."""
    told = read(
        node("n1", 8),
        kai("low", gpu=OPEN, cpu=OPEN, memory=OPEN, priority=50),
        kai("norm", gpu=OPEN, cpu=OPEN, memory=OPEN, parent="org"),
        kai_pod("l", 8, "low"),
        kai_pod("n", 8, "norm", created="2026-01-02T00:00:00Z"),
    )

    assert [queue(told, name).priority for name in ("low", "norm", "org")] == [50, 100, 100]


def test_what_a_kai_queue_does_not_say_is_nothing():
    """A limit is 0 where it is not said, as for its scheduler: only -1 is without end."""
    told = read(
        node("n1", 16),
        kai("some", gpu=(8, None, None), cpu=OPEN, memory=OPEN),
        kai("none"),
        kai_pod("p", 8, "some"),
        kai_pod("q", 1, "none"),
    )

    assert queue(told, "some").limit == {"gpu_milli": 0}
    assert queue(told, "some").weight == 0
    assert queue(told, "none").limit == {"gpu_milli": 0, "cpu_milli": 0, "memory_mib": 0}
    assert told.says("assumed", "no limit of gpu", "2: some, none")
    assert started(told) == set()


def test_what_else_kai_queues_say_is_listed():
    told = read(
        node("n1", 8),
        kai("a", gpu=(8, -1, 2), cpu=(0, -1, 5), memory=OPEN, preemptMinRuntime="1h"),
    )

    assert told.says("ignored", "least run times", "1: a")
    assert told.says("ignored", "weights of CPU and memory", "1: a")


def volcano(name, **spec):
    return thing("Queue", "scheduling.volcano.sh/v1beta1", name, spec)


def test_the_root_queue_of_volcano_is_above_all_others():
    """What it may use at most binds all of them together."""
    told = read(
        [node(f"n{i}", 8) for i in range(4)],
        volcano("root", capability={GPU: "16"}),
        volcano("a", parent="root"),
        volcano("b"),
    )

    assert queue(told, "root").limit["gpu_milli"] == 16_000
    assert queue(told, "a").parent == queue(told, "b").parent == "root"
    assert queue(read(node("n1", 8), volcano("a", parent="root")), "a").parent is None


def test_a_limit_of_one_gpu_resource_is_none_of_all_gpus():
    """GPUs and MIG instances are one amount: a limit of the instances alone binds no GPU."""
    slices = {"name": "nvidia.com/mig-1g.10gb", "nominalQuota": "3", "borrowingLimit": "0"}
    told = read(
        node("n1", 8),
        kueue("ClusterQueue", "cq", flavors={"f": [gpus(1), slices]}, cohortName="c"),
        kueue("Cohort", "c", flavors={"f": [gpus(4), {**slices, "nominalQuota": "2"}]}),
        volcano("v", deserved={GPU: "1", slices["name"]: "7"}, capability={GPU: "2"}),
    )

    cq, v = queue(told, "cq"), queue(told, "v")
    assert (cq.quota["gpu_milli"], cq.limit["gpu_milli"]) == (4000, 8000)
    assert (v.quota["gpu_milli"], v.limit.get("gpu_milli")) == (8000, None)
    assert told.says("ignored", "limit of nvidia.com/gpu alone", "(1: v)")


def test_what_else_volcano_queues_say_is_listed():
    made = volcano(
        "a",
        reclaimable=False,
        affinity={"nodeGroupAffinity": {}},
        dequeueStrategy="fifo",
        guarantee={"resource": {GPU: "4"}},
        deserved={GPU: "8"},
    )
    made["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/sci/dev"}

    told = read(node("n1", 8), made)

    for word in ("reclaimable", "affinity", "dequeueStrategy", "guarantees", "hierarchy"):
        assert told.says("ignored", word, "1: a"), word


def test_a_pod_group_of_volcano_that_names_no_queue_is_in_default():
    group = thing(
        "PodGroup", "scheduling.volcano.sh/v1beta1", "g", {"minMember": 2}, namespace="team"
    )

    told = read(node("n1", 8), volcano("default"), group, gang("g", 2, 1), pod("free", 1))

    assert told.job("team/g").queue == "default"
    assert told.job("team/free").queue == "unqueued"


def flavor(name, labels, **spec):
    spec = {"nodeLabels": labels, **spec}
    return thing("ResourceFlavor", "kueue.x-k8s.io/v1beta2", name, spec)


def test_work_goes_to_nodes_of_a_flavor_of_its_queue():
    """Kueue puts the flavor's labels into the pods: the plan names no other node."""
    spot = {"key": "spot", "effect": "NoSchedule"}
    amounts = [
        gpus(16),
        {"name": "cpu", "nominalQuota": "9"},
        {"name": "memory", "nominalQuota": "9Gi"},
    ]
    told = read(
        node("a1", 8, labels={"pool": "a100"}),
        node("h1", 8, labels={"pool": "h100"}, taints=(spot,)),
        kueue("ClusterQueue", "h", flavors={"h100": amounts}, namespaceSelector={}),
        flavor("h100", {"pool": "h100"}, tolerations=[{**spot, "operator": "Exists"}]),
        local_queue("lq", "h"),
        workload("w", "lq", pod_set("main", 2, 4), pod_set("launcher", 1, 0)),
    )

    result = solve(told.problem, SolveOptions(workers=1), "cp-sat")

    roles = {role.name: role.node_selector for role in told.spec.jobs[0].roles}
    assert roles == {"main": {"pool": "h100"}, "launcher": {}}
    assert {p.node for p in result.plan.placements if p.role == "main"} == {"h1"}


def test_work_of_a_queue_with_two_flavors_goes_to_nodes_of_either():
    def planned(flavors):
        told = read(
            node("other", 8),
            node("a1", 8, labels={"pool": "a100"}),
            node("h1", 8, labels={"pool": "h100"}),
            kueue(
                "ClusterQueue", "c", flavors={"h": [gpus(9)], "a": [gpus(9)]}, namespaceSelector={}
            ),
            flavors,
            local_queue("lq", "c"),
            workload("w", "lq", pod_set("main", 2, 8)),
        )
        return told.spec.jobs[0].node_selector, told.says("assumed", "ResourceFlavors", "team/big")

    either = planned([flavor("h", {"pool": "h100"}), flavor("a", {"pool": "a100"})])

    assert either == ({"affinity-1": "yes"}, False)
    assert planned([flavor("h", {"pool": "h100"})]) == ({}, True), "nobody knows the other"
