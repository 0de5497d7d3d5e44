"""What cases expect of an explanation: the cheapest fix, and what a matrix really says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solver.explain.answer import explain
from solver.options import SolveOptions
from topology.parsers.nvidia_smi import parse_topo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from solver.explain.explanation import Explanation
    from tests.acceptance.answers import Answer

KINDS = {"relax-same": "relax-topology"}
"""Words of cases for the kinds of fixes."""

PARAMS = {
    "pods_moved": "replicas",
    "gpus_moved": "gpus",
    "domains_used": "groups_used",
    "racks_used": "groups_used",
    "node": "nodes",
}
"""Words of cases for what a fix says."""


def per_node(told: Answer, job: str) -> dict[str, Any]:
    """Why each node does not take the job: a rule, or what is free of what is needed."""
    found: dict[str, Any] = {}
    for group in _explained(told, job).nodes:
        short = group.reason in ("gpu-short", "gpu-fragmented")
        amounts = {"free": group.facts["free_min"], "needs": group.facts["needs"]}
        found |= dict.fromkeys(group.names, amounts if short else group.reason)
    return found


def _explained(told: Answer, job: str) -> Explanation:
    return explain(told.problem, told.result.plan, told.members[job].job, SolveOptions(workers=1))


def check_cheapest_fix(told: Answer, expected: Mapping[str, Any]) -> list[str]:
    """The first of the fixes, its kind and its amounts; each is verified."""
    waits = [name for name in told.members if told.pending(name) is not None]
    job = expected.get("job", waits[0])
    fixes = _explained(told, job).fixes
    if not fixes:
        return [f"cheapest_fix: none for {job}"]
    found = [f"cheapest_fix: {f.kind} is not verified" for f in fixes if not f.verified]
    first = fixes[0]
    kind = KINDS.get(expected["kind"], expected["kind"])
    if first.kind != kind:
        return [*found, f"cheapest_fix: is {first.kind}, expected {kind}"]
    for key, value in expected.items():
        if key in ("kind", "job"):
            continue
        said = first.params.get(PARAMS.get(key, key))
        if said not in (value, [value]):
            found.append(f"cheapest_fix: {key} is {said!r}, expected {value!r}")
    return found


def check_parsed(told: Answer, expected: Mapping[str, Any]) -> list[str]:
    """What the matrix of the case says, as we read it."""
    read = parse_topo(told.case["topo_text"])
    numa = read.numa_affinity
    said: dict[str, Any] = {
        "gpus": read.n_gpus,
        "nics": len(read.nics),
        "nvlink_pairs": sorted(sorted(pair) for pair in read.nvlink_graph.edges),
        "numa": {gpu: int(node) for gpu, node in numa.items() if node is not None},
    }
    return [
        f"parsed: {key} is {said[key]!r}, expected {value!r}"
        for key, value in expected.items()
        if said[key] != value
    ]


def check_fair_share(told: Answer, expected: Mapping[str, int]) -> list[str]:
    """GPUs that each queue is entitled to."""
    entitled = {queue.name: queue.entitled["gpu_milli"] for queue in told.result.queues}
    return [
        f"fair_share: {queue} is entitled to {entitled[queue] / 1000:g}, expected {gpus}"
        for queue, gpus in expected.items()
        if entitled[queue] != gpus * 1000
    ]
