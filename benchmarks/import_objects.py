"""``run import``: time and memory of importing what kubectl prints about large clusters."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from benchmarks.registry import Benchmark, Row

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"S": (500, 5_000), "L": (5_000, 50_000)}
"""Nodes and pods; the stated numbers are for L."""

LIMIT_S, LIMIT_MIB = 30.0, 2048.0
NODE_GPUS = 8
DAEMON_PODS = 4

ONE_RUN = """
import json, resource, sys, time
import cli
began = time.monotonic()
try:
    cli.main(["import", "kubernetes", sys.argv[1], "--save", sys.argv[2]])
except SystemExit as leaving:
    assert not leaving.code, leaving.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"run_s": time.monotonic() - began, "peak_mib": peak}))
"""


def run(size: str | None) -> Iterator[Row]:
    """Measure one size, or all."""
    for name, (nodes, pods) in SIZES.items():
        if size in (None, name):
            yield from _measure(name, nodes, pods)


def _measure(name: str, nodes: int, pods: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "objects.json", Path(folder) / "spec.yaml"
        with source.open("w", encoding="utf-8") as stream:
            write_objects(stream, nodes, pods)
        size_mib = source.stat().st_size / 2**20
        command = [sys.executable, "-c", ONE_RUN, str(source), str(target)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        spec_mib = target.stat().st_size / 2**20
    instance = f"{name}: {nodes:,} nodes, {pods:,} pods"
    judged = name == "L"
    note = f"{size_mib:.0f} MiB of JSON to {spec_mib:.1f} MiB of YAML"
    yield Row(
        instance=instance,
        measure="import kubernetes",
        value=told["run_s"],
        unit="s",
        limit=LIMIT_S if judged else None,
        note=note,
    )
    yield Row(
        instance=instance,
        measure="peak memory",
        value=told["peak_mib"],
        unit="MiB",
        limit=LIMIT_MIB if judged else None,
    )


def write_objects(stream: IO[str], nodes: int, pods: int) -> None:
    """Write a List as ``kubectl get nodes,pods -A -o json`` prints it, as large as real ones are.

    Nine of ten pods run: agents on every node, replicas with GPUs, and services without.
    """
    stream.write('{\n    "apiVersion": "v1",\n    "items": [\n')
    for index in range(nodes):
        _item(stream, _node(index), first=index == 0)
    for index in range(pods):
        _item(stream, _pod(index, nodes))
    stream.write('\n    ],\n    "kind": "List",\n    "metadata": {"resourceVersion": ""}\n}\n')


def _item(stream: IO[str], item: dict[str, Any], *, first: bool = False) -> None:
    stream.write(("" if first else ",\n") + json.dumps(item, indent=4))


def _node(index: int) -> dict[str, Any]:
    name = f"gpu-{index:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": str(NODE_GPUS),
        "cloud.provider.com/topology-block": f"b{index // 256}",
        "cloud.provider.com/topology-rack": f"r{index // 16}",
        **{f"feature.node.kubernetes.io/cpu-flag-{i}": "true" for i in range(60)},
    }
    amounts = {"cpu": "192", "memory": "2113513216Ki", "nvidia.com/gpu": str(NODE_GPUS)}
    images = [
        {"names": [f"registry.example.com/team/image-{i}@sha256:{i:064}"], "sizeBytes": i * 10**6}
        for i in range(40)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "uid": f"node-{index}"},
        "spec": {"providerID": f"provider://{index}"},
        "status": {
            "capacity": {**amounts, "pods": "110"},
            "allocatable": {**amounts, "cpu": "191", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "images": images,
        },
    }


def _pod(index: int, nodes: int) -> dict[str, Any]:
    running = index % 10 != 9
    kind = index % 10
    agent = kind < DAEMON_PODS
    gpus = 0 if agent or kind == DAEMON_PODS else 2
    owner = ("DaemonSet", f"agent-{kind}") if agent else ("Job", f"job-{index // 40}")
    resources = {"cpu": "250m" if agent else "4", "memory": "256Mi" if agent else "32Gi"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    environment = [{"name": f"SETTING_{i}", "value": f"value-{i}-{index}"} for i in range(25)]
    container = {
        "name": "main",
        "image": "registry.example.com/team/image:1",
        "env": environment,
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/{i}"} for i in range(6)],
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": f"v{i}", "configMap": {"name": f"c{i}"}} for i in range(6)],
    }
    if running:
        # Ten pods a node, four of them with two GPUs: where all are there, no GPU is free.
        spec["nodeName"] = f"gpu-{(index // 10) % nodes:05}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{index}",
            "namespace": f"team-{index % 20}" if not agent else "kube-system",
            "uid": f"pod-{index}",
            "creationTimestamp": f"2026-01-{1 + index % 28:02}T00:00:00Z",
            "labels": {"app": f"a{index % 100}"},
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}],
        },
        "spec": spec,
        "status": {
            "phase": "Running" if running else "Pending",
            "conditions": [
                {"type": word, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for word in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0}],
        },
    }


IMPORT = Benchmark(
    name="import",
    text="import kubernetes: time and memory for what kubectl prints about large clusters",
    sizes=tuple(SIZES),
    run=run,
)
