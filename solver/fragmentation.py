"""Fragmentation: the GPU leftovers that the next task, drawn from a workload, could not use.

For a node with device leftovers of R milli-GPU in total, a task m of the target workload finds

* everything unusable (R) where it needs no GPU, where no GPU is of an allowed model, where the
  CPU left is too little, or where fewer than ``m.gpus`` devices have ``m.gpu_milli`` left;
* otherwise the sum of what is left on devices with less than ``m.gpu_milli``.

``F(node) = sum over m of weight_m * unusable_m``, in milli-GPU, with weights that sum to 1; the
cluster's fragmentation is the sum over its nodes. Memory and links are not looked at.

References
----------
Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from solver.cluster import GPU_MILLI, Node
from solver.fit import allowed_gpus, refusals, share_milli_on
from solver.problem import Problem
from solver.state import NodeState, States
from solver.workload import Shape

OUT_OF_REACH = GPU_MILLI + 1
"""What a task "needs" of a GPU that it may not use: more than any GPU has."""

NO_ACCESS = {"taint", "label", "model-mismatch"}
"""Refusals by which a task cannot come to a node whatever is left there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTask:
    """One kind of task of the target workload, as one kind of node sees it.

    Parameters
    ----------
    weight
        Its share of the workload; the weights of all tasks sum to 1.
    gpus, gpu_milli
        Devices it needs, and thousandths of each (1000: whole ones).
    gpu_milli_by_device
        Thousandths needed of each device of the node, where they are not all `gpu_milli`.
    has_access
        Whether labels, taints and GPU models let it onto the node.
    """

    weight: float
    cpu_milli: int = 0
    gpus: int = 0
    gpu_milli: int = 0
    gpu_milli_by_device: tuple[int, ...] | None = None
    has_access: bool = True


def node_fragmentation_milli(
    cpu_left: int | None, gpu_left: Sequence[int], tasks: Iterable[TargetTask]
) -> float:
    """Expected unusable milli-GPU of one node.

    Parameters
    ----------
    cpu_left
        Milli-CPU left; None is no limit.
    gpu_left
        Thousandths left of each device.

    Examples
    --------
    >>> tasks = (
    ...     TargetTask(weight=0.5, cpu_milli=4000, gpus=1, gpu_milli=500),
    ...     TargetTask(weight=0.3, cpu_milli=8000, gpus=2, gpu_milli=1000),
    ...     TargetTask(weight=0.2, cpu_milli=2000),
    ... )
    >>> node_fragmentation_milli(10_000, (300, 1000, 600, 0), tasks)
    1100.0

    Notes
    -----
    One running sum per way to fail, added up in a fixed order: another order of summation turns
    differences that should be zero into slightly negative ones, which policies then see.
    """
    lefts = sorted(gpu_left)
    below = (0, *accumulate(lefts))
    rest = below[-1]
    lack_both = lack_gpu = lack_cpu = cpu_only = cpu_only_lack = no_access = 0.0
    for task in tasks:
        enough_cpu = cpu_left is None or cpu_left >= task.cpu_milli
        if not task.gpus:
            if enough_cpu:
                cpu_only += task.weight * rest
            else:
                cpu_only_lack += task.weight * rest
            continue
        if not task.has_access:
            no_access += task.weight * rest
            continue
        if task.gpu_milli_by_device is None:
            short = bisect_left(lefts, task.gpu_milli)
            devices, unusable = len(lefts) - short, below[short]
        else:
            pairs = list(zip(gpu_left, task.gpu_milli_by_device, strict=True))
            devices = sum(left >= need for left, need in pairs)
            unusable = sum(left for left, need in pairs if left < need)
        if devices >= task.gpus:
            if enough_cpu:
                lack_gpu += task.weight * unusable
            else:
                lack_cpu += task.weight * rest
        elif enough_cpu:
            lack_gpu += task.weight * rest
        else:
            lack_both += task.weight * rest
    return lack_both + lack_gpu + lack_cpu + cpu_only + cpu_only_lack + no_access


class TargetWorkload:
    """A workload that fragmentation is relative to, with what was computed so far.

    Parameters
    ----------
    shapes
        (shape, weight) in the order in which they are to be summed; weights are counts.
    population
        The count that these were chosen from. The published weights are shares of it, scaled up
        so that they sum to 1; that matters only for how they are rounded, and so for ties.

    Notes
    -----
    A node's F depends on its kind, on the devices' leftovers in any order (where its GPUs are
    interchangeable), and on which tasks its CPU is enough for; equal cases are computed once.
    """

    def __init__(self, shapes: Sequence[tuple[Shape, int]], population: int | None = None) -> None:
        self._shapes = tuple(shapes)
        covered = sum(weight for _, weight in shapes)
        self._population = population or covered
        self._coverage = covered / self._population if covered else 1.0
        self._cpu_steps = sorted({shape.cpu_milli for shape, _ in shapes})
        self._label_keys = sorted({key for shape, _ in shapes for key, _ in shape.node_selector})
        self._tasks_by_node: dict[Node, tuple[int, bool, tuple[TargetTask, ...]]] = {}
        self._tasks_by_kind: dict[Hashable, tuple[int, bool, tuple[TargetTask, ...]]] = {}
        self._known: dict[tuple[int, tuple[int, ...], int], float] = {}

    def tasks_on(self, node: Node) -> tuple[TargetTask, ...]:
        """The workload as this node sees it."""
        return self._kind(node)[2]

    def fragmentation_milli(self, node: Node, state: NodeState) -> float:
        """F of a node in a state, in milli-GPU."""
        kind, uniform, tasks = self._tasks_by_node.get(node) or self._kind(node)
        lefts = tuple(sorted(state.gpu_left)) if uniform else state.gpu_left
        cpu = state.cpu_left
        enough_for = -1 if cpu is None else bisect_right(self._cpu_steps, cpu)
        key = (kind, lefts, enough_for)
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = node_fragmentation_milli(cpu, state.gpu_left, tasks)
        return value

    def _kind(self, node: Node) -> tuple[int, bool, tuple[TargetTask, ...]]:
        if node not in self._tasks_by_node:
            labels = tuple(node.all_labels.get(key) for key in self._label_keys)
            key = (node.topology, node.usable_gpus, node.taints, labels)
            if key not in self._tasks_by_kind:
                tasks = tuple(self._task(node, shape, weight) for shape, weight in self._shapes)
                uniform = all(task.gpu_milli_by_device is None for task in tasks)
                self._tasks_by_kind[key] = (len(self._tasks_by_kind), uniform, tasks)
            self._tasks_by_node[node] = self._tasks_by_kind[key]
        return self._tasks_by_node[node]

    def _task(self, node: Node, shape: Shape, weight: int) -> TargetTask:
        allowed = set(allowed_gpus(node, shape))
        needs = tuple(
            share_milli_on(node, shape, gpu) if gpu in allowed else OUT_OF_REACH
            for gpu in range(node.n_gpus)
        )
        # A GPU that is out of use has nothing left, so what is needed of it cannot matter.
        distinct = {needs[gpu] for gpu in node.usable_gpus}
        gpus = 1 if shape.is_share else shape.gpus
        return TargetTask(
            weight=weight / self._population / self._coverage,
            cpu_milli=shape.cpu_milli,
            gpus=gpus,
            gpu_milli=max(distinct, default=0) if gpus else 0,
            gpu_milli_by_device=needs if gpus and len(distinct) > 1 else None,
            has_access=bool(allowed) and not NO_ACCESS.intersection(refusals(node, shape)),
        )


def cluster_fragmentation_milli(problem: Problem, states: States) -> float:
    """Fragmentation of the cluster: the sum over the nodes that take replicas, in milli-GPU.

    The target workload is the problem's reference. Nodes that are not ready, or cordoned,
    offer nothing and so have nothing to waste.
    """
    workload = TargetWorkload(problem.reference)
    return sum(
        workload.fragmentation_milli(node, states[node.name])
        for node in problem.nodes
        if node.schedulable
    )
