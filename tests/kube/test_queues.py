"""Queues of Kueue, Volcano and KAI."""

from __future__ import annotations

from tests.kube.objects import GPU, gang, node, pod, read, thing


def cluster_queue(name, gpus, *, borrows=None, **spec):
    resources = [
        {"name": GPU, "nominalQuota": str(gpus)} | ({"borrowingLimit": borrows} if borrows else {}),
        {"name": "cpu", "nominalQuota": "100"},
    ]
    groups = [
        {"coveredResources": [GPU, "cpu"], "flavors": [{"name": "f", "resources": resources}]}
    ]
    return thing("ClusterQueue", "kueue.x-k8s.io/v1beta1", name, {"resourceGroups": groups, **spec})


def queue(told, name):
    return next(queue for queue in told.problem.queues if queue.name == name)


def test_a_cluster_queue_without_a_cohort_cannot_borrow():
    told = read(node("n1", 8), cluster_queue("cq", 4))

    assert queue(told, "cq").quota == {"gpu_milli": 4000, "cpu_milli": 100_000}
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
