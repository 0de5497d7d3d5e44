"""How good a set of GPUs is: the one definition that the solver and the plugin share."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, islice
from math import comb

import networkx as nx

from topology.graph import NodeTopology

GpuSet = tuple[int, ...]


def bottleneck_gb_s(topology: NodeTopology, gpus: GpuSet) -> int:
    """Bandwidth of the slowest pair inside a set, GB/s per direction; 0 for a single GPU."""
    return min((topology.gb_s(a, b) for a, b in combinations(gpus, 2)), default=0)


def total_gb_s(topology: NodeTopology, gpus: GpuSet) -> int:
    """Bandwidth of all pairs inside a set added up, GB/s per direction."""
    return sum(topology.gb_s(a, b) for a, b in combinations(gpus, 2))


@lru_cache(maxsize=4096)
def is_linked(topology: NodeTopology, gpus: GpuSet) -> bool:
    """Whether the set is connected over NVLink alone; a single GPU always is."""
    return len(gpus) == 1 or nx.is_connected(topology.nvlink_graph.subgraph(gpus))


@lru_cache(maxsize=1024)
def best_bottleneck_gb_s(topology: NodeTopology, size: int) -> int:
    """Best bottleneck that any set of `size` GPUs has on an empty node of this kind.

    0 for a single GPU, and where the node has fewer GPUs.

    Notes
    -----
    A set with a bottleneck of at least t is a clique of the pairs that reach t, so the largest
    t with a clique of `size` GPUs is the answer; this needs no look at every set.
    """
    if not 2 <= size <= topology.n_gpus:
        return 0
    if topology.is_uniform:
        return topology.gb_s(0, 1)
    edges = [(a, b, speed) for a, b, _, speed in topology.edges()]
    for least in sorted({speed for _, _, speed in edges}, reverse=True):
        fast: nx.Graph[int] = nx.Graph()
        fast.add_edges_from((a, b) for a, b, speed in edges if speed >= least)
        if any(len(clique) >= size for clique in nx.find_cliques(fast)):
            return least
    return 0  # not reached: at the slowest speed all GPUs are one clique


def lost_gb_s(topology: NodeTopology, gpus: GpuSet) -> int:
    """Bandwidth lost against the best set of that size on an empty node (bottleneck pairs).

    This is the topology cost of a replica that gets these GPUs.
    """
    return best_bottleneck_gb_s(topology, len(gpus)) - bottleneck_gb_s(topology, gpus)


def rank(topology: NodeTopology, gpus: GpuSet) -> tuple[int, int, GpuSet]:
    """Sort key, best first: least lost bandwidth, then most total, then the lowest indices."""
    return (lost_gb_s(topology, gpus), -total_gb_s(topology, gpus), gpus)


@lru_cache(maxsize=256)
def best_sets(topology: NodeTopology, size: int) -> tuple[GpuSet, ...]:
    """All sets of `size` GPUs with the best bottleneck and, among those, the most bandwidth.

    Returns
    -------
    tuple of tuples
        In order of their indices; empty where the node has fewer GPUs.

    Notes
    -----
    Every set is looked at: up to C(16, 8) = 12870 in machines that exist. `first_best_sets`
    stays cheap on uniform nodes of any size.
    """
    every = combinations(range(topology.n_gpus), size)
    if topology.is_uniform:
        return tuple(every)
    ranked = [(rank(topology, gpus)[:2], gpus) for gpus in every]
    best = min((key for key, _ in ranked), default=None)
    return tuple(gpus for key, gpus in ranked if key == best)


def first_best_sets(
    topology: NodeTopology, size: int, limit: int
) -> tuple[tuple[GpuSet, ...], int]:
    """List the first `limit` of the best sets, and count all of them.

    On uniform nodes every set is a best one, so they are counted without being listed.
    """
    if topology.is_uniform:
        every = combinations(range(topology.n_gpus), size)
        return tuple(islice(every, limit)), comb(topology.n_gpus, size)
    sets = best_sets(topology, size)
    return sets[:limit], len(sets)
