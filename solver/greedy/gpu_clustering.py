"""GPU clustering: work of one kind together, kinds being shares and 1, 2, 4, 8 … GPUs.

``base = trunc(25 * (G - u) / G)`` with u the node's milli-GPU left and G the largest node's
amount. A replica without GPUs scores 0 everywhere. A node that has the replica's kind scores
``base + 75`` where that is its only kind, else ``base + 50``; one that has it not, ``base + 25``
where it has no kind at all, else ``base``.

References
----------
GpuClustering in Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6, after W. Xiao et al., "Gandiva",
OSDI 2018.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from solver.cluster import Node
from solver.greedy.scoring import PlacementPolicy, Scale, Score, work_kind
from solver.state import NodeState
from solver.workload import Shape


def gpu_clustering_score(
    gpu_milli_left: int, kinds: AbstractSet[str], kind: str | None, scale: Scale
) -> int:
    """Score of a node, 0 to 100.

    Parameters
    ----------
    kinds
        Kinds of work on the node, running and placed; work without GPUs does not count.
    kind
        Kind of the replica; None where it needs no GPU.

    Examples
    --------
    >>> gpu_clustering_score(6_000, {"1"}, "1", Scale(128_000, 8_000))
    81
    >>> gpu_clustering_score(6_000, {"1"}, "2", Scale(128_000, 8_000))
    6
    """
    if kind is None:
        return 0
    used = scale.gpu_milli - gpu_milli_left
    base = int(25 * used / scale.gpu_milli) if scale.gpu_milli else 0
    if kind in kinds:
        return base + (75 if len(kinds) == 1 else 50)
    return base + (0 if kinds else 25)


class GpuClustering(PlacementPolicy):
    """Like goes with like."""

    watches_kinds = True

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """Higher where the node has work of the replica's kind, and nothing else."""
        return (gpu_clustering_score(state.free_milli, kinds, work_kind(shape), self._scale),)
