"""NVLink islands under a plan: a GPU that is in MIG mode has left the island of its node.

Where every pair of an island is joined directly or by a switch, the others are still joined
without it. On directly linked nodes it may have been the only bridge between two others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

import networkx as nx

from solver.cluster import GPU_MILLI, Node
from solver.state import NodeState
from topology.scoring import GpuSet


def parts_without(node: Node, gone: Iterable[int]) -> tuple[GpuSet, ...]:
    """The islands of a node once these GPUs have left theirs; each of them is one by itself."""
    return node.topology.without_nvlink(frozenset(gone)).parts


def parts_now(node: Node, state: NodeState) -> tuple[GpuSet, ...]:
    """The islands of a node whose GPUs are cut as in a state.

    One that may leave MIG mode counts as gone: whether it does, its owner decides.
    """
    if node.topology.is_uniform or not (state.layouts or node.switchable_gpus):
        return node.topology.parts
    cut = {gpu for gpu in range(node.n_gpus) if state.layout(gpu)}
    return parts_without(node, cut | node.switchable_gpus)


def may_leave(node: Node, state: NodeState) -> frozenset[int]:
    """GPUs that a plan may cut, or leave in MIG mode, or not."""
    idle = {gpu for gpu in node.cuttable_gpus if state.gpu_left[gpu] == GPU_MILLI}
    return frozenset(
        gpu
        for gpu in idle | node.switchable_gpus
        if node.mig_tables[gpu] is not None and gpu not in node.unhealthy_gpus
    )


def is_fragile(node: Node, part: GpuSet, leaving: frozenset[int]) -> bool:
    """Whether an island could fall apart when some of these GPUs leave it."""
    links = node.topology.nvlink_graph
    some = leaving.intersection(part)
    return bool(some) and any(not links.has_edge(a, b) for a, b in combinations(part, 2))


@lru_cache(maxsize=1024)
def remainders(node: Node, part: GpuSet, leaving: frozenset[int]) -> tuple[GpuSet, ...]:
    """What an island may be after a plan: its connected subsets without some of `leaving`.

    There are 2^n subsets of n GPUs; an island without a switch has eight at most.
    """
    links = node.topology.nvlink_graph
    found = []
    for size in range(1, len(part) + 1):
        for gpus in combinations(part, size):
            inside = set(gpus)
            around = {n for gpu in gpus for n in links[gpu]} - inside
            if around <= leaving and nx.is_connected(links.subgraph(gpus)):
                found.append(gpus)
    return tuple(found)
