"""How many replicas of a shape a node takes, on which GPUs, and why not.

Greedy policies, metrics, reasons and bounds all ask here; `verify` has its own words for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from solver.cluster import GPU_MILLI, HOSTNAME, Node
from solver.slices import most_replicas, pick_instances, slice_gpus
from solver.state import NodeState, empty_state
from solver.workload import ANY_GROUP, LinkRule, Shape
from topology.graph import NodeTopology
from topology.islands import max_disjoint_linked_sets
from topology.scoring import GpuSet, is_linked, rank

UNLIMITED = 1_000_000
"""Replicas that a node takes where nothing limits them."""


def refusals(node: Node, shape: Shape) -> tuple[str, ...]:
    """Rules by which the node would not take the shape even when it is empty.

    Returns
    -------
    tuple of str
        In this order, as they apply: ``not-ready``, ``cordoned``, ``taint``, ``label``,
        ``model-mismatch``, ``no-nvlink-set``, ``impossible`` (too few GPUs, CPU or memory).
    """
    by_name = any(key == HOSTNAME for key, _ in shape.node_selector)
    return _refusals(node if by_name else node.kind, shape)


@lru_cache(maxsize=65536)
def _refusals(node: Node, shape: Shape) -> tuple[str, ...]:
    found = []
    if not node.ready:
        found.append("not-ready")
    if node.cordoned:
        found.append("cordoned")
    if any(t.repels and not any(s.tolerates(t) for s in shape.tolerations) for t in node.taints):
        found.append("taint")
    labels = node.all_labels
    if any(labels.get(key) != value for key, value in shape.node_selector):
        found.append("label")
    if shape.slices:
        if not _cuts(node, shape):
            found.append("model-mismatch" if node.n_gpus else "impossible")
    elif shape.wants_gpu and node.n_gpus and not allowed_gpus(node, shape):
        found.append("model-mismatch")
    elif shape.link is LinkRule.REQUIRED and shape.gpus > 1:
        without_link = _fit_gpus(node, unlinked(shape), empty_state(node))
        if without_link and not _fit_gpus(node, shape, empty_state(node)):
            found.append("no-nvlink-set")
    if not found and fit(node, shape, empty_state(node)) == 0:
        found.append("impossible")
    return tuple(found)


def _cuts(node: Node, shape: Shape) -> bool:
    """Whether every slice of the shape is a profile of some GPU that may be cut."""
    tables = {node.mig_tables[gpu] for gpu in slice_gpus(node, shape, empty_state(node))}
    return all(
        any(table is not None and wish.on(table) is not None for table in tables)
        for wish, _ in shape.slices
    )


def capacity(node: Node, shape: Shape) -> int:
    """Most replicas of the shape that the node would take when it is empty; 0 if it refuses it."""
    return _capacity(node.kind, shape) if hosts(node, shape) else 0


@lru_cache(maxsize=65536)
def _capacity(node: Node, shape: Shape) -> int:
    return fit(node, shape, empty_state(node))


def hosts(node: Node, shape: Shape) -> bool:
    """Whether the node, empty, would take a replica of the shape."""
    return not refusals(node, shape)


@lru_cache(maxsize=4096)
def strictly_linked(shape: Shape) -> Shape:
    """The shape with a preferred link counting as required, as "stranded" is defined."""
    return replace(shape, link=LinkRule.REQUIRED) if shape.link is LinkRule.PREFERRED else shape


@lru_cache(maxsize=4096)
def unlinked(shape: Shape) -> Shape:
    """The shape without its wish for links."""
    return replace(shape, link=LinkRule.NONE) if shape.link is not LinkRule.NONE else shape


@lru_cache(maxsize=65536)
def allowed_gpus(node: Node, shape: Shape) -> tuple[int, ...]:
    """Usable GPUs of a model that will do and, for a share by memory, with enough of it.

    What is left of them is not looked at.
    """
    topology = node.topology
    return tuple(
        gpu
        for gpu in node.usable_gpus
        if (not shape.gpu_models or topology.gpu_models[gpu] in shape.gpu_models)
        and (not shape.is_share or shape.milli_on(topology.gpu_memory_mib[gpu]) is not None)
    )


def share_milli_on(node: Node, shape: Shape, gpu: int) -> int:
    """Thousandths of that GPU which one replica holds (1000 each for whole GPUs)."""
    return shape.milli_on(node.topology.gpu_memory_mib[gpu]) or GPU_MILLI


def idle_allowed(node: Node, shape: Shape, state: NodeState) -> tuple[int, ...]:
    """Fully idle GPUs that the shape may use."""
    return tuple(gpu for gpu in allowed_gpus(node, shape) if state.gpu_left[gpu] == GPU_MILLI)


def feasible_gpus(node: Node, shape: Shape, state: NodeState) -> tuple[int, ...]:
    """GPUs that could serve the replica: with enough left for a share, else fully idle."""
    if not shape.is_share:
        return idle_allowed(node, shape, state)
    return tuple(
        gpu
        for gpu in allowed_gpus(node, shape)
        if state.joins(gpu, shape.share_group) and shares_on(node, shape, state, gpu) > 0
    )


def shares_on(node: Node, shape: Shape, state: NodeState, gpu: int) -> int:
    """Most shares of a shape that a GPU takes, by its memory and by its compute.

    Share groups are not looked at; for shares in general (`ANY_GROUP`), compute is not either.
    """
    milli = share_milli_on(node, shape, gpu)
    room = state.gpu_left[gpu] // milli
    said = shape.compute_milli or state.extra_compute
    if room and said and shape.share_group != ANY_GROUP:
        compute = state.compute_left(gpu, node.compute_limit_milli)
        room = min(room, max(0, compute) // (shape.compute_milli or milli))
    return room


def _joined(node: Node, shape: Shape, state: NodeState) -> tuple[int, ...]:
    """GPUs on which a share is beside shares of its own group, if any."""
    allowed = allowed_gpus(node, shape)
    if not state.groups and shape.share_group in ("", ANY_GROUP):
        return allowed
    return tuple(gpu for gpu in allowed if state.joins(gpu, shape.share_group))


def _fit_gpus(node: Node, shape: Shape, state: NodeState) -> int:
    if shape.slices:
        return most_replicas(node, shape, state)
    if shape.share_milli and not shape.compute_milli and not state.extra_compute:
        left, milli = state.gpu_left, shape.share_milli
        return sum([left[gpu] // milli for gpu in _joined(node, shape, state)])
    if shape.is_share:
        return sum(shares_on(node, shape, state, gpu) for gpu in _joined(node, shape, state))
    if not shape.gpus:
        return UNLIMITED
    if not shape.gpu_models and (shape.link is not LinkRule.REQUIRED or shape.gpus == 1):
        return state.gpu_left.count(GPU_MILLI) // shape.gpus  # what is not usable has nothing left
    idle = idle_allowed(node, shape, state)
    if shape.link is LinkRule.REQUIRED and shape.gpus > 1:
        return max_disjoint_linked_sets(node.topology, idle, shape.gpus)
    return len(idle) // shape.gpus


def fit_by_resource(node: Node, shape: Shape, state: NodeState) -> dict[str, int]:
    """Most replicas by each of GPUs (with their links), CPU and memory alone."""
    table = {"gpus": _fit_gpus(node, shape, state), "cpu": UNLIMITED, "memory": UNLIMITED}
    if shape.cpu_milli and state.cpu_left is not None:
        table["cpu"] = state.cpu_left // shape.cpu_milli
    if shape.memory_mib and state.memory_left is not None:
        table["memory"] = state.memory_left // shape.memory_mib
    return table


def fit(node: Node, shape: Shape, state: NodeState) -> int:
    """Most replicas of the shape that the node takes at once in this state.

    Labels, taints and readiness are not looked at: ask `hosts` for those.
    """
    most = UNLIMITED
    if shape.cpu_milli and state.cpu_left is not None:
        most = state.cpu_left // shape.cpu_milli
    if shape.memory_mib and state.memory_left is not None:
        most = min(most, state.memory_left // shape.memory_mib)
    return min(most, _fit_gpus(node, shape, state)) if most > 0 else 0


def takes(node: Node, shape: Shape, state: NodeState) -> bool:
    """Whether the node takes one replica of the shape in this state; like `fit`, only sooner."""
    if shape.slices:
        bare = replace(shape, slices=())
        return fit(node, bare, state) > 0 and pick_instances(node, shape, state) is not None
    if not shape.share_milli or shape.compute_milli or state.extra_compute:
        return fit(node, shape, state) > 0
    if state.cpu_left is not None and state.cpu_left < shape.cpu_milli:
        return False
    if state.memory_left is not None and state.memory_left < shape.memory_mib:
        return False
    left, milli = state.gpu_left, shape.share_milli
    return any(left[gpu] >= milli for gpu in _joined(node, shape, state))


def pick_gpus(node: Node, shape: Shape, state: NodeState) -> tuple[int, ...] | None:
    """The GPUs that one replica gets by rule: the lowest-numbered idle ones.

    With a link preferred or required it is the linked set that loses the least bandwidth;
    a share takes the feasible GPU with the least left. None where there is no such set. Slices
    take no GPU as a whole: ask `solver.slices.pick_instances`.
    """
    if not shape.wants_gpu or shape.slices:
        return ()
    idle = feasible_gpus(node, shape, state)
    if shape.is_share:
        return (min(idle, key=lambda gpu: (state.gpu_left[gpu], gpu)),) if idle else None
    if len(idle) < shape.gpus:
        return None
    if shape.link is LinkRule.NONE or shape.gpus == 1:
        return idle[: shape.gpus]
    linked = best_linked_set(node, idle, shape.gpus)
    if linked is None and shape.link is LinkRule.PREFERRED:
        return idle[: shape.gpus]
    return linked


def best_linked_set(node: Node, idle: tuple[int, ...], size: int) -> tuple[int, ...] | None:
    """The NVLink-connected set of `size` idle GPUs that loses the least bandwidth, if any."""
    topology = node.topology
    if topology.is_uniform:
        return idle[:size] if topology.islands else None
    sets = (gpus for gpus in combinations(idle, size) if is_linked(topology, gpus))
    return min(sets, key=lambda gpus: rank(topology, gpus), default=None)


def pick_least_lossy(node: Node, shape: Shape, state: NodeState) -> tuple[int, ...] | None:
    """The GPUs of one replica by their links: the set that ranks best; shares go by `pick_gpus`.

    Sets are compared by `topology.scoring.rank`. None where there is no set that will do.
    """
    if shape.gpus < 2:
        return pick_gpus(node, shape, state)
    idle = idle_allowed(node, shape, state)
    if shape.link is not LinkRule.NONE:
        linked = least_lossy_set(node.topology, idle, shape.gpus, linked=True)
        if linked is not None or shape.link is LinkRule.REQUIRED:
            return linked
    return least_lossy_set(node.topology, idle, shape.gpus, linked=False)


@lru_cache(maxsize=65536)
def least_lossy_set(
    topology: NodeTopology, idle: GpuSet, size: int, *, linked: bool
) -> GpuSet | None:
    """The set of `size` idle GPUs that loses the least bandwidth.

    Parameters
    ----------
    linked
        Look only at sets that are connected over NVLink.

    Returns
    -------
    tuple of int or None
        None where there is no such set.
    """
    if len(idle) < size or (linked and topology.is_uniform and not topology.islands):
        return None
    if topology.is_uniform:
        return idle[:size]
    sets = combinations(idle, size)
    if linked:
        sets = (gpus for gpus in sets if is_linked(topology, gpus))  # type: ignore[assignment]
    return min(sets, key=lambda gpus: rank(topology, gpus), default=None)


def least_milli(node: Node, shape: Shape) -> int:
    """The least GPU-milli that one replica takes there: a share by memory on the largest GPU."""
    if shape.is_share:
        takes = [share_milli_on(node, shape, gpu) for gpu in allowed_gpus(node, shape)]
        return min(takes, default=GPU_MILLI)
    return shape.gpus * GPU_MILLI
