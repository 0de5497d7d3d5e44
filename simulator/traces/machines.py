"""The machines of a trace: it says how many GPUs there are, and little else."""

from __future__ import annotations

from functools import lru_cache

from simulator.traces.submission import GPUS_PER_NODE
from solver.cluster import Node
from topology.graph import NodeTopology


@lru_cache(maxsize=256)
def opaque_gpus(gpus: int) -> NodeTopology:
    """GPUs of which a trace says neither the model nor the links; one object for all alike."""
    return NodeTopology(f"{gpus} GPUs", [None] * gpus)


def nodes_of(
    name: str,
    gpus: int,
    label: str = "",
    cpu_milli: int | None = None,
    memory_mib: int | None = None,
) -> tuple[Node, ...]:
    """Nodes ``<name>-0``, ``<name>-1``, … that have `gpus` GPUs together; the last may be smaller.

    Without any GPU it is one node, for work without GPUs.

    Parameters
    ----------
    label
        Label that has `name` for its value; empty: the nodes have none.
    cpu_milli, memory_mib
        What each of them has; None is no limit.
    """
    full, rest = divmod(gpus, GPUS_PER_NODE)
    sizes = [GPUS_PER_NODE] * full + [rest] * (rest > 0 or not full)
    labels = {label: name} if label else {}
    return tuple(
        Node(
            name=f"{name}-{index}",
            topology=opaque_gpus(size),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            labels=labels,
        )
        for index, size in enumerate(sizes)
    )
