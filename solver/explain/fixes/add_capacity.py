"""Add nodes like one that is there: as few GPUs as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.cluster import HOSTNAME, Node
from solver.explain.fixes.change import BOUGHT_S, Change
from solver.explain.question import Case, places_for
from solver.fit import capacity
from solver.problem import Problem
from solver.result_text import counted

KINDS = 8
"""Kinds of nodes (and groups of them) that are tried, those with fewest GPUs first."""

MORE = 3
"""Nodes beyond those that the job needs that are proposed: others that wait have a claim too."""


def add_capacity(case: Case) -> Iterator[Change]:
    """For each kind of node that takes the job: the fewest of them; cheapest first."""
    rule = case.part.topology
    level = rule.within if rule is not None and rule.required else None
    models: dict[object, Node] = {}
    for node in map(_as_bought, case.claim.nodes):
        if any(capacity(node, role.shape) for role in case.part.roles) and node.schedulable:
            group = (
                None
                if level in (None, "node", "island")
                else node.group(level or "", case.claim.levels)
            )
            models.setdefault((node.kind, group), node)
    ranked = sorted(models.values(), key=lambda node: (node.n_gpus, node.name))[:KINDS]
    found: list[Change] = []
    for node in ranked:
        most_gpus = min((change.params["gpus"] for change in found), default=None)
        change = _added(case, node, most_gpus)
        if change is not None:
            found.append(change)
    cheapest_first = sorted(found, key=lambda change: change.cost_gpu_s)
    yield from cheapest_first
    for change in cheapest_first[:1]:
        node = next(node for node in ranked if node.name == change.params["like"])
        for more in range(1, MORE + 1):  # others that wait may take what is added
            yield _change(node, change.params["nodes"] + more)


def _added(case: Case, node: Node, beat_gpus: int | None) -> Change | None:
    """The fewest nodes of a kind, if they have fewer GPUs than were needed of another one."""
    most = sum(job.min_replicas for job in case.question.jobs)
    if beat_gpus is not None and node.n_gpus:
        most = min(most, (beat_gpus - 1) // node.n_gpus)
    if most < 1:
        return None
    counts = range(1, most + 1)

    def works(count: int) -> bool:
        return places_for(_with(node, count)(case.claim)) is not None

    if not works(counts[-1]):
        return None
    return _change(node, counts[bisect_left(counts, True, key=works)])


def _change(node: Node, count: int) -> Change:
    gpus = count * node.n_gpus  # those in MIG mode are bought, too
    return Change(
        kind="add-capacity",
        text=f"add {counted(count, 'node')} like {node.name} ({counted(gpus, 'GPU')})",
        params={"like": node.name, "nodes": count, "gpus": gpus},
        cost_gpu_s=gpus * BOUGHT_S,
        apply=_with(node, count),
    )


def _as_bought(node: Node) -> Node:
    """Another one of the kind has no failed GPUs, and nobody uses its instances."""
    instances = tuple(replace(made, used_by="") for made in node.instances)
    return replace(node, unhealthy_gpus=frozenset(), instances=instances)


def _with(node: Node, count: int) -> Callable[[Problem], Problem]:
    def apply(problem: Problem) -> Problem:
        taken = set(problem.node_by_name)
        names = [f"{node.name}-added-{number}" for number in range(count)]
        labels = {key: value for key, value in node.labels.items() if key != HOSTNAME}
        added = [replace(node, name=n, labels=labels) for n in names if n not in taken]
        return replace(problem, nodes=(*problem.nodes, *added))

    return apply
