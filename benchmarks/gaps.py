"""How far an answer is from its bounds, in the terms in which numbers are promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations

from solver.fit import hosts
from solver.problem import Problem
from solver.result import ObjectiveTerm
from solver.workload import Shape
from topology.graph import NodeTopology
from topology.scoring import lost_gb_s

ADMISSION_STEPS = ("started", "surplus", "cpu-only", "oldest")
GPU_MILLI = 1000


def admission_gap(problem: Problem, terms: Iterable[ObjectiveTerm], admitted_gpus: float) -> float:
    """Absolute gaps of the admission steps of all levels, added up, over the GPUs admitted.

    Steps are in milli-GPU; ``oldest`` is divided by the number of pending jobs, which is the most
    that a GPU counts in it. CPU-only steps are left out: their unit is not GPUs.
    """
    gap_gpus = 0.0
    for term in terms:
        if term.name == "priority" and term.step in ADMISSION_STEPS and term.step != "cpu-only":
            gap = abs(term.bound - term.value) / GPU_MILLI
            gap_gpus += gap / len(problem.jobs) if term.step == "oldest" else gap
    return gap_gpus / max(1.0, admitted_gpus)


def cost_gaps(
    problem: Problem, terms: Iterable[ObjectiveTerm], worst: Mapping[str, float]
) -> dict[str, float]:
    """Absolute gap over the worst value on the cluster, by step of the tiers of cost."""
    return {
        f"{term.name} {term.step}": abs(term.bound - term.value) / max(1.0, worst[_kind(term)])
        for term in terms
        if term.name in ("topology", "stranded")
    }


def worst_values(problem: Problem) -> dict[str, float]:
    """The worst value that a step of cost can have on a cluster, by its kind.

    ``groups``: every replica of every pending gang in a group of its own. ``links``: every replica
    on the slowest set of GPUs of the node where most is lost, in GB/s. ``stranded``: all free
    GPUs.
    """
    held = sum(len(replica.gpus) for job in problem.running for replica in job.replicas)
    usable = sum(len(node.usable_gpus) for node in problem.nodes)
    return {
        "groups": sum(job.replicas for job in problem.jobs if job.gang and job.replicas > 1),
        "links": _worst_links(problem),
        "stranded": usable - held,
    }


def _worst_links(problem: Problem) -> float:
    nodes = list({node.topology: node for node in problem.nodes}.values())
    known: dict[Shape, float] = {}
    total = 0.0
    for job in problem.jobs:
        for role in job.roles:
            if role.shape not in known:
                losses = [
                    _most_lost(node.topology, role.shape.gpus)
                    for node in nodes
                    if hosts(node, role.shape)
                ]
                known[role.shape] = max(losses, default=0.0)
            total += known[role.shape] * role.replicas
    return total


@cache
def _most_lost(topology: NodeTopology, gpus: int) -> float:
    """Bandwidth that the worst set of so many GPUs loses."""
    if not 1 < gpus <= topology.n_gpus:
        return 0.0
    return max(lost_gb_s(topology, s) for s in combinations(range(topology.n_gpus), gpus))


def _kind(term: ObjectiveTerm) -> str:
    if term.name == "stranded":
        return "stranded"
    return "links" if term.step == "links" else "groups"
