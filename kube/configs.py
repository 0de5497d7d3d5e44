"""What else a plan means for a cluster: MIG layouts, sharing of GPUs, levels of its topology.

Each is a file in the format of its reader, with the node labels that go with it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import yaml

from solver.cluster import GPU_MILLI
from solver.geometry import gpu_plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from solver.problem import Problem
    from solver.solution import Plan

MIG_CONFIG = "nvidia.com/mig.config"
PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
OWN_LEVEL = "unstrand/"
Labels = dict[str, dict[str, str]]
"""Node to labels."""

UNCUT = "all-disabled"

Profiles = tuple[tuple[str, int], ...]
"""MIG profiles of a GPU with how many there are of each."""


def mig_parted(problem: Problem, plan: Plan) -> tuple[str, Labels]:
    """A mig-parted configuration of the geometry after the plan, and the label of each node.

    Nodes that are cut alike share one entry. mig-parted takes counts of profiles: the starts of
    instances are the driver's choice. The GPU operator's default, `UNCUT`, is there too: nodes
    that the plan does not know have that label.
    """
    cut: dict[str, dict[int, Profiles]] = defaultdict(dict)
    for gpu in gpu_plans(problem, plan):
        if gpu.switch != "off":
            counted = Counter(instance.profile for instance, _ in gpu.final)
            cut[gpu.node][gpu.gpu] = tuple(sorted(counted.items()))
    names: dict[tuple[tuple[tuple[int, ...], Profiles | None], ...], str] = {}
    labels: Labels = {}
    for node, gpus in cut.items():
        alike: dict[Profiles | None, list[int]] = defaultdict(list)
        for index in range(problem.node_by_name[node].n_gpus):
            alike[gpus.get(index)].append(index)
        layout = tuple((tuple(devices), profiles) for profiles, devices in alike.items())
        labels[node] = {MIG_CONFIG: names.setdefault(layout, f"unstrand-{len(names) + 1}")}
    entries = {
        name: [
            {"devices": list(devices), "mig-enabled": profiles is not None}
            | ({"mig-devices": dict(profiles)} if profiles else {})
            for devices, profiles in layout
        ]
        for layout, name in names.items()
    }
    whole = {UNCUT: [{"devices": "all", "mig-enabled": False}]}
    return _yaml({"version": "v1", "mig-configs": {**whole, **entries}}), labels


def mig_parted_remarks(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """What mig-parted cannot do of a plan: it clears a GPU before it cuts it."""
    return tuple(
        f"{gpu.node} gpu {gpu.gpu}: an instance is in use, and mig-parted clears a GPU before it "
        "cuts it. Follow the steps of mig plan for this one"
        for gpu in gpu_plans(problem, plan)
        if gpu.changed and problem.node_by_name[gpu.node].used_layouts[gpu.gpu]
    )


def device_plugin(problem: Problem, plan: Plan) -> tuple[str, Labels, tuple[str, ...]]:
    """Time-slicing configurations for nodes with shares, their labels, and what they cannot do.

    A node that runs shares of 1/4 of a GPU or more advertises each of its GPUs as four.
    """
    shares: dict[str, set[int]] = defaultdict(set)
    whole: set[str] = set()
    for node, milli in _held(problem, plan):
        if milli < GPU_MILLI:
            shares[node].add(milli)
        else:
            whole.add(node)
    labels: Labels = {}
    remarks = []
    parts: set[int] = set()
    for node, sizes in sorted(shares.items()):
        replicas = max(2, GPU_MILLI // min(sizes))
        parts.add(replicas)
        labels[node] = {PLUGIN_CONFIG: f"shared-by-{replicas}"}
        if len(sizes) > 1:
            listed = ", ".join(f"{size / GPU_MILLI:g}" for size in sorted(sizes))
            remarks.append(f"{node} has shares of {listed}: the plugin sells parts of 1/{replicas}")
        if node in whole:
            remarks.append(f"{node} also runs whole GPUs: all of its GPUs would be shared")
    # Nodes without a label take the one that is called so, or else the only one there is.
    configs: dict[str, object] = {"default": {"version": "v1"}} if parts else {}
    configs |= {
        f"shared-by-{replicas}": {
            "version": "v1",
            "sharing": {
                "timeSlicing": {
                    "failRequestsGreaterThanOne": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}],
                }
            },
        }
        for replicas in sorted(parts)
    }
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "device-plugin-config", "namespace": "gpu-operator"},
        "data": {name: _yaml(config) for name, config in configs.items()},
    }
    return _yaml(config_map), labels, tuple(remarks)


def _held(problem: Problem, plan: Plan) -> Iterator[tuple[str, int]]:
    """Node and thousandths of every GPU that is held once the plan is there."""
    for job in problem.running:
        gone = plan.displaced.get(job.name, frozenset())
        for number, replica in enumerate(job.replicas):
            if replica.gpus and number not in gone:
                yield replica.node, replica.share_milli
    yield from ((start.node, start.share_milli) for start in plan.placements if start.gpus)
    yield from ((move.node, move.share_milli) for move in plan.moves if move.gpus)


def kueue_topology(
    name: str, problem: Problem, keys: Mapping[str, str]
) -> tuple[str, Labels, tuple[str, ...]]:
    """A Topology of Kueue with the cluster's levels, labels for levels that have none, remarks.

    Parameters
    ----------
    keys
        Level to the label that nodes already carry; others get one of our own.
    """
    own = {level: OWN_LEVEL + level for level in problem.levels if level not in keys}
    levels = [{"nodeLabel": keys.get(level) or own[level]} for level in problem.levels]
    labels = {
        node.name: found
        for node in problem.nodes
        if (
            found := {
                key: node.location[level] for level, key in own.items() if level in node.location
            }
        )
    }
    topology = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": _object_name(name)},
        "spec": {"levels": [*levels, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    remarks = []
    if own:
        remarks.append(
            f"labels of our own for {', '.join(own)}: --objects or --level NAME=LABEL tells those "
            "that nodes carry"
        )
    if apart := [n.name for n in problem.nodes if not n.location.keys() >= set(problem.levels)]:
        names = ", ".join(apart[:3]) + (", …" if len(apart) > 3 else "")
        remarks.append(f"nodes without all levels, which Kueue leaves out: {len(apart)} ({names})")
    return _yaml(topology), labels, tuple(remarks)


def _object_name(text: str) -> str:
    """A name that the API takes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:63].strip("-") or "cluster"


def label_script(labels: Labels) -> str:
    """Kubectl commands that label nodes."""
    lines = ["#!/bin/sh", "# Read it first.", "set -eu"]
    for node, values in sorted(labels.items()):
        pairs = [f"{key}={value}" for key, value in sorted(values.items())]
        lines.append(shlex.join(["kubectl", "label", "--overwrite", "node", "--", node, *pairs]))
    return "\n".join(lines) + "\n"


def _yaml(document: object) -> str:
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
