"""Inside NVLink islands: how many linked sets fit into them side by side, and who links with all.

An island is what `NodeTopology.islands` says; here are the questions that need a search.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import networkx as nx

from topology.graph import NodeTopology


@lru_cache(maxsize=65536)
def max_disjoint_linked_sets(topology: NodeTopology, free: tuple[int, ...], size: int) -> int:
    """Most disjoint NVLink-connected sets of `size` GPUs inside the free ones; exact.

    That is how many replicas that require a link find room on the node at once.

    Parameters
    ----------
    free
        Free GPUs, in any order; callers pass them sorted so that the cache serves them.
    size
        GPUs per set, at least 1. A single GPU is always linked.

    Raises
    ------
    ValueError
        `size` is not positive.

    Notes
    -----
    The answer adds up over connected parts of the free GPUs. A part in which every pair is
    linked (behind a switch, or a full mesh) gives ``len(part) // size``. Any other part is
    searched: its lowest GPU is in one of the connected sets around it, or in none. The search
    is exponential in the part, which is at most the 8 GPUs of a hybrid cube mesh in machines
    that exist, and it ends as soon as ``len(part) // size`` is reached.

    Examples
    --------
    >>> from topology.presets import preset
    >>> max_disjoint_linked_sets(preset("a100-pcie-pairs"), (0, 2, 3), 2)
    1
    """
    if size < 1:
        raise ValueError(f"a set has at least one GPU, not {size}")
    if size == 1:
        return len(free)
    neighbours = {gpu: frozenset(topology.nvlink_graph[gpu]) for gpu in free}
    return _most_sets(frozenset(free), size, neighbours, {})


def nvlink_cliques(topology: NodeTopology, size: int) -> tuple[tuple[int, ...], ...]:
    """All sets of `size` GPUs in which every pair has NVLink, in order of their GPUs."""
    links = topology.nvlink_graph
    return tuple(
        gpus
        for gpus in combinations(range(topology.n_gpus), size)
        if all(links.has_edge(a, b) for a, b in combinations(gpus, 2))
    )


def is_fully_connected(topology: NodeTopology, island: tuple[int, ...]) -> bool:
    """Whether every pair of the island has a direct link or shares the switch."""
    part = topology.nvlink_graph.subgraph(island)
    n = part.number_of_nodes()
    return part.number_of_edges() == n * (n - 1) // 2


Neighbours = dict[int, frozenset[int]]


def _most_sets(
    free: frozenset[int], size: int, links: Neighbours, known: dict[frozenset[int], int]
) -> int:
    return sum(_most_in_part(part, size, links, known) for part in _parts(free, links))


def _most_in_part(
    part: frozenset[int], size: int, links: Neighbours, known: dict[frozenset[int], int]
) -> int:
    if len(part) < 2 * size:  # a connected part holds one set as soon as it is large enough
        return int(len(part) >= size)
    if all(part - {gpu} <= links[gpu] for gpu in part):
        return len(part) // size
    if part not in known:
        known[part] = _search(part, size, links, known)
    return known[part]


def _search(
    part: frozenset[int], size: int, links: Neighbours, known: dict[frozenset[int], int]
) -> int:
    """Branch on the lowest GPU: it is in one of its connected sets, or in none."""
    lowest, most = min(part), len(part) // size
    best = 0
    for chosen in _connected_sets(lowest, part, size, links):
        best = max(best, 1 + _most_sets(part - chosen, size, links, known))
        if best == most:
            return best
    return max(best, _most_sets(part - {lowest}, size, links, known))


def _connected_sets(
    start: int, part: frozenset[int], size: int, links: Neighbours
) -> list[frozenset[int]]:
    """Every connected set of `size` GPUs of the part that holds `start`, grown GPU by GPU."""
    grown = {frozenset((start,))}
    for _ in range(size - 1):
        grown = {
            chosen | {gpu}
            for chosen in grown
            for member in chosen
            for gpu in (links[member] & part) - chosen
        }
    return sorted(grown, key=sorted)


def _parts(free: frozenset[int], links: Neighbours) -> list[frozenset[int]]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(sorted(free))
    graph.add_edges_from((a, b) for a in sorted(free) for b in sorted(links[a] & free))
    return [frozenset(part) for part in nx.connected_components(graph)]
