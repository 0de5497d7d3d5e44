"""Volumes bind pods to places: as they are read, else listed."""

from __future__ import annotations

from solver.api import solve
from solver.options import SolveOptions
from tests.kube.objects import Object, Read, node, pod, read, thing

NODES = [node(f"n{i}", 1, labels={"zone": "ab"[i % 2]}) for i in range(4)]
KEY = "requiredDuringSchedulingIgnoredDuringExecution"


def on(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def volume(name: str, *terms: Object, **rest: Object) -> Object:
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return thing("PersistentVolume", "v1", name, spec, **rest)


def claim(name: str, volume_name: str = "") -> Object:
    spec = {"volumeName": volume_name} if volume_name else {}
    return thing("PersistentVolumeClaim", "v1", name, spec, namespace="team")


def using(name: str, *claims: str, **rest: object) -> Object:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod(name, 1, volumes=volumes, **rest)


def place(told: Read) -> list[str]:
    return [p.node for p in solve(told.problem, SolveOptions(workers=1), "cp-sat").plan.placements]


def test_a_pod_goes_where_its_local_volume_is():
    told = read(
        *NODES, volume("v", on("kubernetes.io/hostname", "n2")), claim("c", "v"), using("p", "c")
    )

    assert place(told) == ["n2"]
    assert not told.says("persistent volumes")


def test_affinity_of_the_pod_and_of_each_volume_hold_together():
    near = {"nodeAffinity": {KEY: {"nodeSelectorTerms": [on("zone", "a"), on("zone", "c")]}}}
    told = read(
        *NODES,
        volume("v", on("kubernetes.io/hostname", "n1", "n2")),
        volume("w"),
        claim("c", "v"),
        claim("d", "w"),
        using("p", "c", "d", affinity=near),
    )

    assert place(told) == ["n2"]


def test_volumes_of_a_cloud_say_their_zone_by_label():
    labels = {"topology.kubernetes.io/zone": "z1__z2"}
    nodes = [node(f"n{i}", 1, labels={"topology.kubernetes.io/zone": f"z{i}"}) for i in range(2)]
    told = read(*nodes, volume("v", labels=labels), claim("c", "v"), using("p", "c"))

    assert place(told) == ["n1"]


def test_an_ephemeral_volume_has_the_claim_of_its_pod():
    told = read(
        *NODES,
        volume("v", on("kubernetes.io/hostname", "n3")),
        claim("p-scratch", "v"),
        pod("p", 1, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]),
    )

    assert place(told) == ["n3"]


def test_volumes_that_are_not_known_or_not_bound_are_listed():
    told = read(
        *NODES,
        claim("later"),
        claim("lost", "gone"),
        using("a", "later"),
        using("b", "lost"),
        using("c", "nowhere"),
    )

    assert told.says("ignored", "persistent volumes", "(3: team/a, team/b, team/c")
