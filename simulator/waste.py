"""What is stranded and fragmented on one node, remembered by its kind and state.

The definitions are those of `solver.stranding` and `solver.fragmentation`; here whole workloads
are measured at once, because a simulation asks for every change of every node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.scenario import Scenario
from solver.cluster import GPU_MILLI, HOSTNAME, Node
from solver.fit import hosts, strictly_linked
from solver.state import NodeState
from solver.stranding import node_stranded
from solver.workload import LinkRule, Shape

Ints = NDArray[np.int64]

NO_LIMIT = 2**40
"""CPU or memory left where a node has no limit."""


@dataclass(frozen=True, slots=True)
class _Requests:
    """The reference as one kind of node sees it: plain shapes as arrays, others one by one."""

    gpus: Ints
    milli: Ints
    cpu: Ints
    memory: Ints
    weights: Ints
    others: tuple[tuple[Shape, int], ...]


class Waste:
    """Measures nodes of a scenario again and again."""

    def __init__(self, scenario: Scenario) -> None:
        self._reference = [(strictly_linked(s), w) for s, w in scenario.problem.reference]
        self._by_name = any(k == HOSTNAME for s, _ in self._reference for k, _ in s.node_selector)
        self._total = max(1, sum(weight for _, weight in self._reference))
        self._workload = scenario.workload
        self._requests: dict[Node, _Requests] = {}
        self._known: dict[tuple[Node, NodeState], tuple[float, float]] = {}

    def of(self, node: Node, state: NodeState) -> tuple[float, float]:
        """Stranded and fragmented milli-GPU of a node in a state."""
        if not node.schedulable:
            return (0.0, 0.0)
        kind = node if self._by_name else node.kind
        key = (kind, state)
        found = self._known.get(key)
        if found is None:
            fragmented = self._workload.fragmentation_milli(node, state)
            found = self._known[key] = (self._stranded(kind, state), fragmented)
        return found

    def _stranded(self, kind: Node, state: NodeState) -> float:
        """The mean over the reference, by weight."""
        asks = self._requests.get(kind)
        if asks is None:
            asks = self._requests[kind] = self._seen_by(kind)
        total = 0
        if len(asks.weights):
            cpu = NO_LIMIT if state.cpu_left is None else state.cpu_left
            memory = NO_LIMIT if state.memory_left is None else state.memory_left
            left = np.array(state.gpu_left, dtype=np.int64)
            per_gpu = left[None, :] // np.minimum(asks.milli, GPU_MILLI)[:, None]
            fits = per_gpu.sum(axis=1) // asks.gpus
            fits = np.minimum(fits, cpu // np.maximum(asks.cpu, 1))
            fits = np.minimum(fits, memory // np.maximum(asks.memory, 1))
            stranded = state.free_milli - asks.milli * asks.gpus * fits
            total += int((asks.weights * stranded).sum())
        for shape, weight in asks.others:
            total += weight * sum(node_stranded(kind, shape, state).values())
        return total / self._total

    def _seen_by(self, kind: Node) -> _Requests:
        plain: list[tuple[Shape, int]] = []
        others: list[tuple[Shape, int]] = []
        for shape, weight in self._reference:
            if not hosts(kind, shape):
                continue
            (plain if _is_plain(kind, shape) else others).append((shape, weight))
        rows = [
            (max(s.gpus, 1), s.share_milli or GPU_MILLI, s.cpu_milli, s.memory_mib, w)
            for s, w in plain
        ]
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), 5).T
        gpus, milli, cpu, memory, weights = columns
        return _Requests(gpus, milli, cpu, memory, weights, tuple(others))


def _is_plain(kind: Node, shape: Shape) -> bool:
    """Whether the replicas that fit follow from amounts alone."""
    linked = shape.link is LinkRule.REQUIRED and shape.gpus > 1
    mixed = len(set(kind.topology.gpu_models)) > 1 and bool(shape.gpu_models)
    return shape.wants_gpu and not (linked or mixed or shape.share_memory_mib)
