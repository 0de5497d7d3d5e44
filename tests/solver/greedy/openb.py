"""The openb cluster and pods as a problem (Weng et al., ATC 2023), pods in order of the file."""

from __future__ import annotations

import csv
from collections import Counter

from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, Role, Shape
from tests.paths import SHARED
from topology.graph import NodeTopology

OPENB = SHARED / "data" / "traces" / "openb"
COVERAGE = 0.95


def read(name: str) -> list[dict[str, str]]:
    with (OPENB / name).open(newline="") as file:
        return list(csv.DictReader(file))


def nodes() -> tuple[Node, ...]:
    kinds: dict[tuple[str, int], NodeTopology] = {}
    found = []
    for row in read("openb_node_list_gpu_node.csv"):
        key = (row["model"], int(row["gpu"]))
        if key not in kinds:
            kinds[key] = NodeTopology(f"{key[1]} {key[0]}", [key[0]] * key[1])
        cpu_milli, memory_mib = int(row["cpu_milli"]), int(row["memory_mib"])
        found.append(
            Node(name=row["sn"], topology=kinds[key], cpu_milli=cpu_milli, memory_mib=memory_mib)
        )
    return tuple(found)


def shape(row: dict[str, str], *, memory: bool = True) -> Shape:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    return Shape(
        gpus=gpus if milli == 1000 else 0,
        share_milli=milli if milli < 1000 else 0,
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]) if memory else 0,
        gpu_models=tuple(sorted(set(filter(None, row["gpu_spec"].split("|"))))),
    )


def targets(rows: list[dict[str, str]]) -> list[tuple[Shape, int]]:
    """The pods' target workload: memory ignored, CPU-only pods included, 95 % of the pods."""
    counts = Counter(
        (int(r["cpu_milli"]), int(r["gpu_milli"]), int(r["num_gpu"]), r["gpu_spec"]) for r in rows
    )
    by_key = {
        (int(r["cpu_milli"]), int(r["gpu_milli"]), int(r["num_gpu"]), r["gpu_spec"]): r
        for r in rows
    }
    ranked = sorted(counts, key=lambda key: (counts[key], key), reverse=True)
    chosen: list[tuple[Shape, int]] = []
    covered = 0
    for key in ranked:
        if covered >= COVERAGE * len(rows):
            break
        chosen.append((shape(by_key[key], memory=False), counts[key]))
        covered += counts[key]
    return chosen


def problem(rows: list[dict[str, str]]) -> Problem:
    jobs = tuple(Job(name=row["name"], roles=(Role(name="pod", shape=shape(row)),)) for row in rows)
    return Problem(name="openb", nodes=nodes(), jobs=jobs)
