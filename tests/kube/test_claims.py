"""GPUs by resource claim (DRA): as they are read, counted once, or listed."""

from __future__ import annotations

import pytest

from solver.fit import hosts
from tests.kube.objects import Object, node, pod, read, thing

API = "resource.k8s.io"
DRIVER = "gpu.nvidia.com"
CHANNEL = "compute-domain-default-channel.nvidia.com"


def piece(
    on: str, count: int, *, version: str = "v1", generation: int = 1, **more: Object
) -> Object:
    """A ResourceSlice of whole GPUs; `more` are further devices by name."""
    devices = {f"gpu-{i}": {"attributes": {"type": {"string": "gpu"}}} for i in range(count)} | more
    for device in devices.values():
        device["attributes"].setdefault("productName", {"string": "NVIDIA H100 80GB HBM3"})
    spec = {
        "driver": DRIVER,
        "nodeName": on,
        "pool": {"name": on, "generation": generation, "resourceSliceCount": 1},
        "devices": [
            {"name": name, "basic": body} if version == "v1beta1" else {"name": name, **body}
            for name, body in devices.items()
        ],
    }
    return thing("ResourceSlice", f"{API}/{version}", f"{on}-{generation}-{version}", spec)


def wants(count: int = 1, kind: str = DRIVER, version: str = "v1", **more: object) -> Object:
    """Spec of a claim."""
    body = {"deviceClassName": kind, "allocationMode": "ExactCount", "count": count, **more}
    request = {"name": "r", **({"exactly": body} if version != "v1beta1" else body)}
    return {"devices": {"requests": [request]}}


def template(name: str, spec: Object) -> Object:
    return thing("ResourceClaimTemplate", f"{API}/v1", name, {"spec": spec}, namespace="team")


def claim(name: str, spec: Object, *devices: tuple[str, str]) -> Object:
    """A claim, allocated if there are devices (pool and name) for it."""
    results = [{"request": "r", "driver": DRIVER, "pool": p, "device": d} for p, d in devices]
    status = {"allocation": {"devices": {"results": results}}} if results else {}
    return thing("ResourceClaim", f"{API}/v1", name, spec, namespace="team", status=status)


def by_template(name: str) -> list[Object]:
    return [{"name": "gpu", "resourceClaimTemplateName": name}]


def by_name(name: str) -> list[Object]:
    return [{"name": "gpu", "resourceClaimName": name}]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_gpus_of_slices_are_those_of_the_node(version):
    told = read(node("n1"), piece("n1", 8, version=version), pod("p", 1))

    assert told.node("n1").n_gpus == 8
    assert set(told.node("n1").topology.gpu_models) == {"H100-80GB"}
    assert told.says("assumed", "GPUs as ResourceSlices have them", "(8: n1")


def test_only_the_newest_generation_of_a_pool_counts():
    told = read(node("n1"), piece("n1", 8), piece("n1", 7, generation=2))

    assert told.node("n1").n_gpus == 7


def test_gpus_that_a_device_plugin_counts_too_are_not_counted_twice():
    told = read(node("n1", 8), piece("n1", 8))

    assert told.node("n1").n_gpus == 8
    assert told.says("ignored", "a device plugin counts", "(8: n1")


def test_tainted_devices_are_out_of_order_and_parts_of_gpus_are_listed():
    bad = {
        "attributes": {"type": {"string": "gpu"}},
        "taints": [{"key": "x", "effect": "NoExecute"}],
    }
    part = {"attributes": {"type": {"string": "mig"}}}

    told = read(node("n1"), piece("n1", 3, bad=bad, part=part))

    assert told.node("n1").n_gpus == 4
    assert told.spec.cluster.nodes[0].gpus_unhealthy == (3,)
    assert told.says("ignored", "no whole GPUs", "(1")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_waiting_pod_asks_for_what_the_template_of_its_claim_says(version):
    told = read(
        node("n1"),
        piece("n1", 4),
        template("two", wants(2, version=version)),
        pod("p", resourceClaims=by_template("two")),
    )

    assert told.job("team/p").roles[0].shape.gpus == 2
    assert not told.says("DRA")


def test_a_running_pod_holds_the_devices_of_its_claim():
    runs = pod("p", on="n1", resourceClaims=by_template("two"))
    runs["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "p-gpu-x7"}]

    told = read(
        node("n1"),
        piece("n1", 4),
        template("two", wants(2)),
        claim("p-gpu-x7", wants(2), ("n1", "gpu-0"), ("n1", "gpu-1")),
        runs,
    )

    assert sum(len(r.gpus) for r in told.running("team/p").replicas) == 2
    assert told.node("n1").n_gpus == 4


def test_a_gpu_that_running_pods_share_counts_once():
    told = read(
        node("n1"),
        piece("n1", 2),
        claim("one", wants(), ("n1", "gpu-0")),
        *(pod(f"p{i}", on="n1", resourceClaims=by_name("one")) for i in range(3)),
    )

    assert sum(len(r.gpus) for job in told.problem.running for r in job.replicas) == 1
    assert told.says("assumed", "share the GPU of a claim", "(2:")


def test_channels_between_nodes_do_not_keep_a_pod_out_of_the_plan():
    told = read(
        node("n1", 4),
        template("channel", wants(kind=CHANNEL)),
        pod("p", 2, resourceClaims=by_template("channel")),
    )

    assert told.job("team/p").roles[0].shape.gpus == 2
    assert told.says("ignored", f"claims for devices of class {CHANNEL}", "(1: team/p")


def test_the_class_that_stands_behind_an_extended_resource_is_known():
    told = read(
        node("n1"),
        piece("n1", 4),
        thing("DeviceClass", f"{API}/v1", "ours", {"extendedResourceName": "nvidia.com/gpu"}),
        template("t", wants(3, kind="ours")),
        pod("p", resourceClaims=by_template("t")),
    )

    assert told.job("team/p").roles[0].shape.gpus == 3


@pytest.mark.parametrize(
    "spec",
    [
        wants(selectors=[{"cel": {"expression": "true"}}]),
        wants(allocationMode="All"),
        wants(kind="somebodys-own"),
        wants(capacity={"requests": {"memory": "10Gi"}}),
        {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}},
    ],
    ids=["selectors", "all", "unknown class", "capacity", "alternatives"],
)
def test_what_is_not_that_simple_is_left_out_and_listed(spec):
    told = read(
        node("n1"), piece("n1", 4), template("t", spec), pod("p", resourceClaims=by_template("t"))
    )

    assert told.problem.jobs == ()
    assert told.says("ignored", "pending pods with resource claims (DRA)", "team/p")


def test_waiting_pods_that_share_a_claim_are_listed_but_for_the_first():
    told = read(
        node("n1"),
        piece("n1", 4),
        claim("one", wants()),
        *(pod(f"p{i}", resourceClaims=by_name("one")) for i in range(2)),
    )

    assert [job.name for job in told.problem.jobs] == ["team/p0"]
    assert told.says("ignored", "pending pods with resource claims (DRA)", "team/p1")


def test_who_only_watches_devices_holds_none():
    told = read(
        node("n1"),
        piece("n1", 2),
        claim("look", wants(adminAccess=True), ("n1", "gpu-0")),
        pod("monitor", on="n1", resourceClaims=by_name("look")),
    )

    assert sum(len(r.gpus) for job in told.problem.running for r in job.replicas) == 0


@pytest.mark.parametrize("extended", [False, True])
def test_gpus_by_claim_and_those_of_a_device_plugin_are_kept_apart(extended):
    kind = {"extendedResourceName": "nvidia.com/gpu"} if extended else {}
    told = read(
        node("by-claim"),
        piece("by-claim", 8),
        node("by-plugin", 8),
        node("without"),
        thing("DeviceClass", f"{API}/v1", DRIVER, kind),
        template("two", wants(2)),
        pod("claims", resourceClaims=by_template("two")),
        pod("plain", 2),
    )

    allowed = {
        job.name: {n.name for n in told.problem.nodes if hosts(n, job.roles[0].shape)}
        for job in told.problem.jobs
    }
    assert allowed["team/claims"] == {"by-claim"}
    assert allowed["team/plain"] == ({"by-claim", "by-plugin"} if extended else {"by-plugin"})
    assert told.says("assumed", "are kept apart", "by-claim", "by-plugin")


def test_where_all_gpus_are_by_claim_nothing_is_labelled():
    told = read(
        node("n1"),
        piece("n1", 8),
        template("t", wants(1)),
        pod("p", resourceClaims=by_template("t")),
    )

    assert not told.says("assumed", "are kept apart")
