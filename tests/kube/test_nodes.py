"""Nodes of a cluster as the spec has them."""

from __future__ import annotations

import pytest

from kube.cluster import ImportOptions
from specs.errors import SpecErrors
from tests.kube.objects import node, pod, read, snapshot, thing


def test_allocatable_is_what_can_be_used_and_capacity_what_there_is():
    n = node("n1", 8, cpu="64", memory="512Gi")
    n["status"]["allocatable"] |= {"cpu": "63500m", "memory": "500000Mi"}

    told = read(n)

    assert told.spec.cluster.nodes[0].cpu == 64
    assert told.node("n1").cpu_milli == 63_500
    assert told.node("n1").memory_mib == 500_000


def test_pods_of_daemon_sets_and_nodes_count_as_reserved():
    told = read(
        node("n1", 8, cpu="64"),
        pod("agent", on="n1", cpu="250m", owner=("DaemonSet", "agent")),
        pod("proxy", on="n1", cpu="100m", owner=("Node", "n1")),
    )

    assert told.node("n1").cpu_milli == 63_650
    assert told.problem.running == ()
    assert told.says("DaemonSets", "(2)")


def test_a_gpu_that_died_under_a_pod_is_neither_free_nor_forgotten():
    told = read(node("n1", 4, allocatable=3), node("n2", 1), pod("p0", 4, on="n1"), pod("p1", 1))

    assert told.node("n1").n_gpus == 4
    assert told.running("team/p0").replicas[0].gpus == (0, 1, 2, 3)
    assert told.node("n1").unhealthy_gpus == {3}


@pytest.mark.parametrize("left", [3, 0])
def test_devices_that_vanished_from_the_node_are_still_held(left):
    told = read(node("n1", left), pod("p0", 4, on="n1"))

    assert told.node("n1").n_gpus == 4
    assert len(told.node("n1").unhealthy_gpus) == 4 - left


def test_the_label_with_the_count_tells_of_a_gpu_that_fell_off_the_bus():
    told = read(node("n1", 7, labels={"nvidia.com/gpu.count": "8"}))

    assert told.node("n1").n_gpus == 8
    assert told.node("n1").unhealthy_gpus == {7}


def test_gpus_that_no_device_plugin_offers_any_more_are_out_of_order():
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}

    told = read(node("gone", labels=labels), node("zero", "0", labels=labels), node("cpu"))

    for name in ("gone", "zero"):
        assert told.node(name).unhealthy_gpus == set(range(8))
        assert told.says("assumed", "no device plugin offers", name)
    assert told.node("cpu").n_gpus == 0


def test_a_part_of_a_gpu_that_a_node_counts_is_left_out_and_said():
    told = read(node("n1", "1500m"))

    assert told.node("n1").n_gpus == 1
    assert told.says("assumed", "parts of a GPU", "n1")


def test_gpus_of_two_vendors_on_one_node_are_said():
    told = read(node("n1", 4, more={"amd.com/gpu": "4"}))

    assert told.says("assumed", "two vendors on one node", "n1")


def test_cordons_and_readiness_are_taken_over_without_the_taints_that_repeat_them():
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    told = read(
        node("down", 1, ready="Unknown", taints=(unreachable,)),
        node("closed", 1, cordoned=True, taints=(cordon,)),
        node("open", 1, taints=({"key": "a", "value": "b", "effect": "NoSchedule"},)),
    )

    assert (told.node("down").ready, told.node("down").taints) == (False, ())
    assert (told.node("closed").cordoned, told.node("closed").taints) == (True, ())
    assert [taint.key for taint in told.node("open").taints] == ["a"]


def test_a_node_without_a_ready_condition_counts_as_ready_and_that_is_said():
    bare = node("n1", 1)
    del bare["status"]["conditions"]

    told = read(bare)

    assert told.node("n1").ready
    assert told.says("assumed", "Ready", "n1")


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, "A100-40GB"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "L4-24GB"),
        ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, "T4-16GB"),
        ({"node.kubernetes.io/instance-type": "p5.48xlarge"}, "H100-80GB"),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, "A100-40GB"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, "H100-80GB"),
        (
            {
                "karpenter.k8s.aws/instance-gpu-name": "h100",
                "node.kubernetes.io/instance-type": "p5.48xlarge",
            },
            "H100-80GB",
        ),
        ({"karpenter.k8s.aws/instance-gpu-name": "rtx-new"}, "rtx-new"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "MI300X-192GB"),
        ({}, None),
    ],
)
def test_the_model_is_told_by_whatever_label_tells_it(labels, model):
    told = read(node("n1", 2, labels=labels))

    assert told.node("n1").topology.gpu_models == (model, model)


def test_links_follow_from_model_and_count_and_are_said_to_be_assumed():
    told = read(node("n1", 8, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}))

    assert told.node("n1").topology.gb_s(0, 7) == 450
    assert told.says("assumed", "hgx-h100")


def test_memory_of_a_card_that_nobody_knows_comes_from_its_label():
    labels = {"nvidia.com/gpu.product": "Our-Card", "nvidia.com/gpu.memory": "12288"}

    told = read(node("n1", 2, labels=labels))

    assert told.node("n1").topology.gpu_memory_mib == (12288, 12288)


def test_a_node_full_of_pods_takes_no_more():
    full = node("n1", 8)
    full["status"]["allocatable"]["pods"] = "2"

    told = read(full, pod("a", on="n1"), pod("b", on="n1"))

    assert told.node("n1").cordoned
    assert told.says("as many pods as they take")


# Where nodes are


def test_racks_blocks_and_nvlink_cliques_come_from_known_labels():
    told = read(
        node(
            "n1",
            4,
            labels={
                "cloud.provider.com/topology-block": "b1",
                "cloud.provider.com/topology-rack": "r1",
                "nvidia.com/gpu.clique": "uuid.1",
            },
        ),
        node("n2", 4, labels={"network.topology.nvidia.com/spine": "s1"}),
    )

    assert told.problem.levels == ("spine", "block", "rack")
    assert told.node("n1").location == {"block": "b1", "rack": "r1", "domain": "uuid.1"}


def test_cliques_of_one_fabric_are_different_domains():
    one, other = ({"nvidia.com/gpu.clique": f"rack-a.{i}"} for i in (1, 2))

    told = read(node("n1", 4, labels=one), node("n2", 4, labels=other))

    assert told.node("n1").location != told.node("n2").location


def test_topology_objects_say_which_labels_are_levels():
    topology = thing(
        "Topology",
        "kueue.x-k8s.io/v1beta1",
        "t",
        {"levels": [{"nodeLabel": "x/row"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    )

    told = read(topology, node("n1", 1, labels={"x/row": "7", "topology.kubernetes.io/zone": "z"}))

    assert told.problem.levels == ("row",)


def test_levels_can_be_given_and_domains_too():
    options = ImportOptions(levels=(("hall", "dc/hall"),), domains=("dc/fabric",))

    told = read(node("n1", 1, labels={"dc/hall": "h", "dc/fabric": "f"}), options=options)

    assert told.node("n1").location == {"hall": "h", "domain": "f"}


def test_a_level_that_no_node_has_is_said():
    told = read(node("n1", 1), options=ImportOptions(levels=(("rack", "example.com/rack"),)))

    assert told.says("ignored", "level rack: no node has the label example.com/rack")


# Parts of GPUs


def test_time_sliced_gpus_are_counted_once_and_their_pods_hold_shares():
    shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"}
    told = read(
        node("n1", 8, labels=shared), *(pod(f"p{i}", 1, on="n1") for i in range(8)), pod("late", 1)
    )

    assert told.node("n1").n_gpus == 2
    assert {r.share_milli for job in told.problem.running for r in job.replicas} == {250}
    assert told.job("team/late").roles[0].shape.share_milli == 250


def test_shares_under_their_own_name_go_to_nodes_that_have_them():
    shared = {"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.count": "1"}
    told = read(
        node("whole", 2),
        node("sliced", 2, resource="nvidia.com/gpu.shared", labels=shared),
        pod("small", 1, resource="nvidia.com/gpu.shared"),
        pod("big", 1),
    )

    small, big = (told.job(f"team/{name}").roles[0].shape for name in ("small", "big"))
    assert small.share_milli == 500
    assert big.gpus == 1
    labels = told.node("sliced").labels
    assert all(labels.get(key) == value for key, value in small.node_selector)
    assert not all(labels.get(key) == value for key, value in big.node_selector)


def test_more_units_than_gpus_are_shares_whoever_advertises_them():
    told = read(node("n1", 80, labels={"nvidia.com/gpu.count": "8"}))

    assert told.node("n1").n_gpus == 8
    assert told.says("assumed", "each is a share", "n1")


def test_mig_instances_are_parts_of_gpus_and_not_gpus():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/mig.strategy": "mixed",
    }
    told = read(
        node("n1", 6, labels=labels, more={"nvidia.com/mig-1g.10gb": "14"}),
        pod("slice", 1, on="n1", resource="nvidia.com/mig-1g.10gb"),
        pod("wants", 1, resource="nvidia.com/mig-1g.10gb"),
    )

    assert told.node("n1").n_gpus == 8
    assert told.node("n1").mig_gpus == {6, 7}
    assert [len(gpu.instances) for gpu in told.spec.cluster.nodes[0].mig] == [7, 7]
    assert told.spec.running[0].mig == {"1g.10gb": 1}
    assert told.job("team/wants").roles[0].shape.slices
    used = [i.used_by for gpu in told.spec.cluster.nodes[0].mig for i in gpu.instances if i.used_by]
    assert used == ["team/slice"]


def test_instances_that_no_layout_has_are_never_free():
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "1"}

    told = read(node("n1", labels=labels, more={"nvidia.com/mig-9g.99gb": "1"}))

    assert told.node("n1").unhealthy_gpus == {0}
    assert told.says("assumed", "do not fit on their model", "n1")


def test_pods_that_ask_for_instances_that_no_node_has_are_said():
    told = read(node("n1", 8), pod("p", 1, resource="nvidia.com/mig-1g.10gb"))

    assert told.problem.jobs == ()
    assert told.says("ignored", "instances that no node has", "team/p")


def test_a_node_that_is_cut_alike_sells_its_slices_as_gpus():
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    labels["nvidia.com/gpu.count"] = "14"

    told = read(node("n1", 14, labels=labels), pod("p", 1, on="n1"))

    assert told.node("n1").n_gpus == 2
    assert told.spec.running[0].mig == {"1g.5gb": 1}


A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "1"}
CUT = {"nvidia.com/mig-1g.5gb.count": "7", "nvidia.com/mig-1g.5gb.replicas": "2"}


@pytest.mark.parametrize(
    ("labels", "resource", "units"),
    [
        (
            {
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
                "nvidia.com/gpu.count": "7",
                "nvidia.com/gpu.replicas": "2",
            },
            "nvidia.com/gpu",
            14,
        ),
        ({**A100, **CUT, "nvidia.com/gpu.replicas": "0"}, "nvidia.com/mig-1g.5gb", 14),
        ({**A100, **CUT, "nvidia.com/gpu.replicas": "0"}, "nvidia.com/mig-1g.5gb.shared", 14),
        (
            {
                "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
                "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
                "cloud.google.com/gke-max-shared-clients-per-gpu": "3",
            },
            "nvidia.com/gpu",
            21,
        ),
    ],
    ids=["single", "mixed", "mixed, renamed", "GKE"],
)
def test_shares_of_mig_instances_make_no_more_gpus(labels, resource, units):
    held = [pod(f"p{i}", 1, on="n1", resource=resource) for i in range(5)]
    told = read(
        node("n1", units, resource=resource, labels=labels),
        *held,
        pod("late", 1, resource=resource),
    )

    (gpu,) = told.spec.cluster.nodes[0].mig
    parts = units // 7
    assert told.node("n1").n_gpus == 1
    assert len(gpu.instances) == 7
    assert sum(bool(instance.used_by) for instance in gpu.instances) == -(-5 // parts)
    assert len(told.problem.running) == 5
    assert told.says("assumed", "pods that share a MIG instance", f"({5 - -(-5 // parts)}:")
    assert told.job("team/late").roles[0].shape.slices
    assert told.says("assumed", "a share of a MIG instance is planned as all of it", "team/late")


def test_pods_of_one_set_that_share_instances_are_told_by_what_each_holds():
    labels = {**A100, **CUT, "nvidia.com/gpu.replicas": "0"}
    resource, owner = "nvidia.com/mig-1g.5gb", ("ReplicaSet", "d")
    held = [pod(f"p{i}", 1, on="n1", resource=resource, owner=owner) for i in range(4)]

    told = read(node("n1", 14, resource=resource, labels=labels), *held)

    (job,) = told.spec.running
    assert sorted((list((role.mig or {}).items()), role.replicas) for role in job.roles) == [
        ([], 2),
        ([("1g.5gb", 1)], 2),
    ]


def test_jobs_that_could_have_a_whole_gpu_or_a_share_are_all_counted():
    shared = {"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.count": "1"}

    told = read(
        node("whole", 2), node("sliced", 2, labels=shared), *(pod(f"p{i}", 1) for i in "ab")
    )

    assert told.says("assumed", "a whole GPU on some nodes", "(2: team/pa, team/pb)")


def test_fractions_by_annotation_share_the_gpu_of_their_group():
    def part(name, amount, group):
        marks = {"runai-gpu-group": group}
        return pod(name, annotations={"gpu-fraction": amount}, labels=marks, on="n1")

    told = read(
        node("n1", 2),
        part("a", "0.3", "x"),
        part("b", "0.5", "y"),
        part("c", "0.6", "x"),
        pod("r1", 1, namespace="kai-resource-reservation", on="n1"),
        pod("r2", 1, namespace="kai-resource-reservation", on="n1"),
        pod("waits", annotations={"gpu-fraction": "0.5"}),
        pod("by-memory", annotations={"gpu-memory": "20000"}),
    )

    at = {job.name: job.replicas[0].gpus for job in told.problem.running}
    assert at["team/a"] == at["team/c"] != at["team/b"]
    assert told.node("n1").n_gpus == 2
    assert told.job("team/waits").roles[0].shape.share_milli == 500
    assert told.job("team/by-memory").roles[0].shape.share_memory_mib == 20000


def test_gpus_of_two_vendors_are_not_taken_for_each_other():
    told = read(
        node("n1", 1), node("n2", 1, resource="amd.com/gpu"), pod("p", 1, resource="amd.com/gpu")
    )

    shape = told.job("team/p").roles[0].shape
    assert all(told.node("n2").labels.get(key) == value for key, value in shape.node_selector)
    assert shape.node_selector


def test_other_devices_can_be_said_to_be_gpus():
    n = node("n1", 4, resource="habana.ai/gaudi")

    assert read(n, pod("p")).node("n1").n_gpus == 0
    options = ImportOptions(gpu_resources=("habana.ai/gaudi",))
    assert read(n, options=options).node("n1").n_gpus == 4


def test_gpu_resources_that_are_named_in_vain_or_left_out_are_said():
    options = ImportOptions(gpu_resources=("nvidia.com/gpuu",))

    told = read(node("n1", 4), options=options)

    assert told.says("ignored", "that no node has", "nvidia.com/gpuu")
    assert told.says("ignored", "not among those named", "nvidia.com/gpu)")
    assert not read(node("n1", 4)).says("GPU resources")


def test_more_gpus_than_a_node_can_have_are_refused():
    with pytest.raises(SpecErrors, match="Node n1: a node has at most 256 GPUs"):
        read(node("n1", 300))


# What is wrong


def test_an_input_without_nodes_is_refused_with_the_command_that_would_help():
    with pytest.raises(SpecErrors, match="kubectl get nodes,pods"):
        read(pod("p"))


def test_all_objects_at_fault_are_named_with_their_lines():
    broken, odd = node("n1", "1.5x"), pod("p", cpu="many")
    taken = snapshot(broken, odd)

    with pytest.raises(SpecErrors) as caught:
        taken.check()

    first, second = caught.value.faults
    assert str(first).startswith("objects.json:4:1: Node n1.status.")
    assert 'Pod team/p.spec.containers[0].resources.limits.cpu: "many": not a quantity' in str(
        second
    )


def test_a_share_by_memory_on_a_node_with_too_many_gpus_is_refused_like_any_other():
    with pytest.raises(SpecErrors, match="at most 256 GPUs"):
        read(node("n1", 300), pod("p", on="n1", annotations={"gpu-memory": "1000"}))
