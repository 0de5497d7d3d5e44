"""Object lists of clusters of several kinds, and what a person would expect of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube.reading import read_objects
from kube.snapshot import Snapshot
from solver.api import solve
from solver.options import SolveOptions
from solver.verify import verify
from tests.kube.objects import Read

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kubernetes"


def recorded(name: str) -> Read:
    found = Snapshot()
    with (FOLDER / name).open("rb") as stream:
        found.add_all(read_objects(stream, name))
    return Read(found)


def free(told: Read) -> dict[str, int]:
    """GPUs of each node that new work may have."""
    held = {(r.node, gpu) for job in told.problem.running for r in job.replicas for gpu in r.gpus}
    return {
        node.name: sum((node.name, gpu) not in held for gpu in node.usable_gpus)
        for node in told.problem.nodes
        if node.n_gpus and node.ready and not node.cordoned
    }


def wants(told: Read) -> dict[str, list[tuple[int, int, int]]]:
    """Pending job to replicas, minimum and GPUs of each of its roles."""
    return {
        job.name: [(role.replicas, role.min_replicas, role.shape.gpus) for role in job.roles]
        for job in told.problem.jobs
    }


def starts(told: Read) -> dict[str, set[str]]:
    """Job that starts to its nodes."""
    result = solve(told.problem, SolveOptions(workers=1, time_limit_s=20), "cp-sat")
    assert not verify(told.problem, result.plan)
    return {job: {p.node for p in places} for job, places in result.plan.by_job.items()}


def test_kind_with_fake_gpus():
    told = recorded("kind-fake-gpus.yaml")

    assert free(told) == {"kind-worker": 1, "kind-worker2": 2}
    assert wants(told) == {"default/two-gpus": [(1, 1, 2)]}
    assert starts(told) == {"default/two-gpus": {"kind-worker2"}}
    assert told.node("kind-worker").cpu_milli == 7900
    assert told.says("ended", "(1)")


def test_gke_with_a_shared_pool():
    told = recorded("gke.yaml")

    assert told.problem.levels == ("region", "zone", "gce-block", "gce-subblock", "gce-host")
    assert free(told) == {"gke-a3-0": 5, "gke-a3-1": 8, "gke-a3-2": 8, "gke-l4-shared": 1}
    assert wants(told) == {"serving/chat/rest": [(1, 1, 0)], "research/pretrain": [(2, 2, 8)]}
    assert told.job("serving/chat/rest").roles[0].shape.share_milli == 250
    assert told.job("research/pretrain").gang
    assert starts(told) == {
        "serving/chat/rest": {"gke-l4-shared"},
        "research/pretrain": {"gke-a3-1", "gke-a3-2"},
    }


def test_eks_with_a_lost_gpu_and_sidecars():
    told = recorded("eks.yaml")

    lost = "ip-10-0-1-11.ec2.internal"
    assert told.node(lost).unhealthy_gpus == {7}
    assert len(told.running("ml/sidecar").replicas[0].gpus) == 8
    assert told.running("ml/sidecar").replicas[0].cpu_milli == 100_000
    assert free(told) == {"ip-10-0-1-10.ec2.internal": 8, lost: 0, "ip-10-0-2-20.ec2.internal": 4}
    assert told.job("ml/finetune").priority == 1000
    assert wants(told) == {"ml/finetune": [(2, 2, 4)]}
    assert starts(told) == {"ml/finetune": {"ip-10-0-1-10.ec2.internal"}}
    assert told.says("ignored", "vpc.amazonaws.com/efa", "ml/finetune")


def test_on_premises_with_volcano():
    told = recorded("on-prem-volcano.yaml")

    assert free(told) == {"dgx-01": 8, "dgx-02": 6, "pcie-01": 0}
    assert not told.node("dgx-04").ready
    assert told.node("dgx-03").cordoned
    assert wants(told) == {"nlp/llm-pg": [(4, 3, 8)]}
    queues = {queue.name: queue for queue in told.problem.queues}
    assert (queues["nlp"].quota, queues["nlp"].weight) == ({"gpu_milli": 16_000}, 2)
    assert told.running("vision/seg").queue == "vision"
    assert starts(told) == {}
    racks = {n.name: n.group("rack", told.problem.levels) for n in told.problem.nodes}
    assert racks["dgx-01"] == racks["dgx-02"] != racks["dgx-04"]


def test_kueue_with_topology_aware_scheduling():
    told = recorded("kueue-tas.json")

    assert told.problem.levels == ("block", "rack")
    assert free(told) == {"n1": 0, "n2": 0, "n3": 8, "n4": 8}
    job = told.job("team-b/tas")
    assert (job.queue, job.priority) == ("team-b-cq", 100)
    assert (job.topology.within, job.topology.required) == ("block", True)
    assert wants(told) == {"team-b/tas": [(2, 2, 8)]}
    result = solve(told.problem, SolveOptions(workers=1, time_limit_s=20), "cp-sat")
    nodes = {place.node for place in result.plan.placements}
    assert len(nodes) == 2, "the two free nodes are in different blocks"
    assert "n4" not in nodes
    assert [eviction.job for eviction in result.plan.evictions] == ["team-a/running"]
    queues = {queue.name: queue for queue in told.problem.queues}
    assert queues["team-a-cq"].limit["gpu_milli"] == 24_000
    assert queues["team-a-cq"].parent == "org"
    assert told.running("team-a/running").queue == "team-a-cq"
    assert told.imported.admitted == {"team-a/running"}
    assert told.spec.jobs[0].node_selector == {"pool": "h100"}, "the labels of its queue's flavor"


def test_mig_in_mixed_mode():
    told = recorded("mig-mixed.yaml")

    assert told.node("mig-01").n_gpus == 4
    assert told.node("mig-01").mig_gpus == {2, 3}
    layout = [sorted(i.profile for i in gpu.instances) for gpu in told.spec.cluster.nodes[0].mig]
    assert layout == [["1g.5gb", "1g.5gb", "3g.20gb"]] * 2
    assert free(told) == {"mig-01": 1}
    assert starts(told) == {"lab/wants-gpu": {"mig-01"}, "lab/wants-slice": {"mig-01"}}
    used = [i.used_by for gpu in told.spec.cluster.nodes[0].mig for i in gpu.instances if i.used_by]
    assert sorted(used) == ["lab/nb", "lab/nb2"]


def test_gb200_racks_are_nvlink_domains():
    told = recorded("gb200.yaml")

    assert free(told) == {f"rack{r}-tray{i}": 4 for r, n in ((1, 3), (2, 2)) for i in range(n)}
    assert [job.topology.within for job in told.problem.jobs] == ["domain", "domain"]
    racks = [{node[:5] for node in nodes} for nodes in starts(told).values()]
    assert racks == [{"rack1"}, {"rack2"}] or racks == [{"rack2"}, {"rack1"}]
    assert told.says("DRA", "serve/claimed")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.[yj]*")), ids=lambda path: path.name)
def test_no_gpu_is_counted_twice(path):
    told = recorded(path.name)

    load: dict[tuple[str, int], int] = {}
    for replica in (r for job in told.problem.running for r in job.replicas):
        for gpu in replica.gpus:
            load[replica.node, gpu] = load.get((replica.node, gpu), 0) + replica.share_milli
    assert all(milli <= 1000 for milli in load.values())
