"""Stranded GPUs: what is free and of no use to the reference workload.

``stranded_k = sum over nodes n of (free_n - gpus_k * fit_n(k))`` for a shape k, over ready,
uncordoned nodes that could host it when empty; ``fit_n(k)`` is the most replicas of k that n takes
now, a preferred link counting as required. The headline is the mean over shapes, by weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.cluster import GPU_MILLI, HOSTNAME, Node
from solver.fit import (
    fit_by_resource,
    hosts,
    least_milli,
    strictly_linked,
    unlinked,
)
from solver.problem import Problem
from solver.state import NodeState, States
from solver.workload import LinkRule, Shape
from topology.graph import NodeTopology
from topology.islands import max_disjoint_linked_sets

CAUSES = ("shape", "links", "cpu", "memory")

NO_LIMIT = np.iinfo(np.int64).max // 4
"""CPU or memory left where a node has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """Stranded GPUs of one shape, in milli-GPU, by cause.

    Leftovers that do not make up one more replica are the cause ``shape``; then come what missing
    links, CPU and memory take away, in this order.
    """

    shape: Shape
    weight: int
    by_cause: Mapping[str, int]

    @property
    def milli(self) -> int:
        """All causes together."""
        return sum(self.by_cause.values())


class StrandingMeter:
    """Measures the states of one problem's nodes again and again.

    Whole-GPU shapes are measured as arrays, shape by shape; of required links, only the sets of
    linked GPUs are counted node by node (once for nodes of one kind with the same idle GPUs).
    Nodes of several GPU models, and shares of a GPU, are looked at one by one.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._shapes = [(shape, strictly_linked(shape), w) for shape, w in problem.reference]
        self._kinds = list(dict.fromkeys(node.kind for node in problem.nodes))
        number = {kind: place for place, kind in enumerate(self._kinds)}
        self._kind_of = np.array([number[node.kind] for node in problem.nodes], dtype=np.intp)
        one_model = np.array([_one_model(kind.topology) for kind in self._kinds], dtype=bool)
        counted = one_model[self._kind_of]
        self._linked: dict[tuple[NodeTopology, tuple[int, ...], int], int] = {}
        self._as_array: list[NDArray[np.intp]] = []
        self._one_by_one: list[list[Node]] = []
        masks: dict[Shape, NDArray[np.bool_]] = {}
        places: dict[bytes, NDArray[np.intp]] = {}
        for _, strict, _ in self._shapes:
            bare = replace(strict, cpu_milli=0, memory_mib=0)
            mask = masks[bare] if bare in masks else masks.setdefault(bare, self._hosting(bare))
            mask = mask & self._large_enough(strict)
            fast = counted & mask if strict.gpus else np.zeros_like(mask)
            self._as_array.append(_shared(places, np.flatnonzero(fast)))
            slow = _shared(places, np.flatnonzero(mask & ~fast))
            self._one_by_one.append([problem.nodes[i] for i in slow])

    def _large_enough(self, shape: Shape) -> NDArray[np.bool_]:
        """Which nodes have the CPU and memory for a replica when empty."""
        enough = [
            (kind.cpu_milli is None or shape.cpu_milli <= kind.cpu_milli)
            and (kind.memory_mib is None or shape.memory_mib <= kind.memory_mib)
            for kind in self._kinds
        ]
        return np.array(enough, dtype=bool)[self._kind_of]

    def _hosting(self, shape: Shape) -> NDArray[np.bool_]:
        """Which nodes would host the shape when empty; asked once per kind of node."""
        if any(key == HOSTNAME for key, _ in shape.node_selector):
            return np.array([hosts(node, shape) for node in self._problem.nodes], dtype=bool)
        answers = np.array([hosts(kind, shape) for kind in self._kinds], dtype=bool)
        return answers[self._kind_of]

    def measure(self, states: States) -> tuple[Stranded, ...]:
        """Stranded GPUs of every shape of the reference, heaviest shape first."""
        ordered = [states[node.name] for node in self._problem.nodes]
        left = _Left(ordered, self._kind_of)
        found = []
        for place, (shape, strict, weight) in enumerate(self._shapes):
            linked = self._linked_fits(strict, self._as_array[place], left)
            total = left.stranded(strict, self._as_array[place], linked)
            for part in _each_kind(strict, self._one_by_one[place], states):
                for cause in CAUSES:
                    total[cause] += part[cause]
            found.append(Stranded(shape=shape, weight=weight, by_cause=total))
        return tuple(found)

    def _linked_fits(
        self, shape: Shape, places: NDArray[np.intp], left: _Left
    ) -> NDArray[np.int64] | None:
        """Replicas by linked sets of GPUs on nodes where links matter; None where they do not."""
        if shape.link is not LinkRule.REQUIRED or shape.gpus == 1:
            return None
        by_idle = []
        for kind, idle in left.idle_sets:
            key = (self._kinds[kind].topology, idle, shape.gpus)
            if key not in self._linked:
                self._linked[key] = max_disjoint_linked_sets(*key)
            by_idle.append(self._linked[key])
        return np.array(by_idle, dtype=np.int64)[left.idle_set_of[places]]

    def weighted_milli(self, states: States) -> int:
        """Sum over shapes of weight times stranded milli-GPU; by `scale` it becomes GPUs."""
        return sum(part.weight * part.milli for part in self.measure(states))


def _shared(known: dict[bytes, NDArray[np.intp]], places: NDArray[np.intp]) -> NDArray[np.intp]:
    """The one array for equal places: there are many shapes, and few sets of nodes for them."""
    return known.setdefault(places.tobytes(), places)


class _Left:
    """What nodes have left, as arrays in the order of the nodes.

    Attributes
    ----------
    idle_sets, idle_set_of
        The distinct (number of the kind of node, idle GPUs), and the place there of each node's.
    """

    def __init__(self, states: Sequence[NodeState], kind_of: NDArray[np.intp]) -> None:
        number: dict[tuple[int, tuple[int, ...]], int] = {}
        idle = [state.idle_gpus for state in states]
        sets = zip(kind_of.tolist(), idle, strict=True)
        self.idle_set_of = np.array([number.setdefault(s, len(number)) for s in sets], np.intp)
        self.idle_sets = tuple(number)
        self.free = np.array([state.free_milli for state in states], dtype=np.int64)
        self.idle = np.array([len(gpus) for gpus in idle], dtype=np.int64)
        self.cpu = _amounts([state.cpu_left for state in states])
        self.memory = _amounts([state.memory_left for state in states])

    def stranded(
        self, shape: Shape, places: NDArray[np.intp], linked: NDArray[np.int64] | None
    ) -> dict[str, int]:
        """Causes of one whole-GPU shape on the nodes at `places`, whose GPUs are counted.

        Parameters
        ----------
        linked
            Replicas by linked sets of GPUs, where the shape insists on them.
        """
        if not len(places):
            return dict.fromkeys(CAUSES, 0)
        loose = self.idle[places] // shape.gpus
        by_gpus = loose if linked is None else linked
        with_cpu = by_gpus
        if shape.cpu_milli:
            with_cpu = np.minimum(by_gpus, self.cpu[places] // shape.cpu_milli)
        with_all = with_cpu
        if shape.memory_mib:
            with_all = np.minimum(with_cpu, self.memory[places] // shape.memory_mib)
        milli = shape.gpus * GPU_MILLI
        loose_fits = int(loose.sum())
        fits, cpu_fits, all_fit = (int(part.sum()) for part in (by_gpus, with_cpu, with_all))
        return {
            "shape": int(self.free[places].sum()) - milli * loose_fits,
            "links": milli * (loose_fits - fits),
            "cpu": milli * (fits - cpu_fits),
            "memory": milli * (cpu_fits - all_fit),
        }


def _one_model(topology: NodeTopology) -> bool:
    """Whether the GPUs of a node differ in nothing but their links."""
    return len(set(topology.gpu_models)) <= 1 and len(set(topology.gpu_memory_mib)) <= 1


def _amounts(values: list[int | None]) -> NDArray[np.int64]:
    return np.array([NO_LIMIT if value is None else value for value in values], dtype=np.int64)


def _each_kind(shape: Shape, nodes: Sequence[Node], states: States) -> list[dict[str, int]]:
    """Causes node by node; nodes of one kind in equal states are looked at once."""
    seen: dict[tuple[object, ...], dict[str, int]] = {}
    parts = []
    for node in nodes:
        state = states[node.name]
        kind = (node.topology, node.usable_gpus, state)
        if kind not in seen:
            seen[kind] = node_stranded(node, shape, state)
        parts.append(seen[kind])
    return parts


def node_stranded(node: Node, shape: Shape, state: NodeState) -> dict[str, int]:
    """Stranded milli-GPU of one node for one shape, by cause; the definition in plain words."""
    most = fit_by_resource(node, shape, state)
    loose = fit_by_resource(node, unlinked(shape), state)["gpus"]
    with_cpu = min(most["gpus"], most["cpu"])
    with_all = min(with_cpu, most["memory"])
    milli = least_milli(node, shape)
    return {
        "shape": state.free_milli - milli * loose,
        "links": milli * (loose - most["gpus"]),
        "cpu": milli * (most["gpus"] - with_cpu),
        "memory": milli * (with_cpu - with_all),
    }


def stranded_scale(problem: Problem) -> int:
    """What turns weighted stranded milli-GPU into GPUs: 1000 times the sum of weights."""
    return GPU_MILLI * max(1, sum(weight for _, weight in problem.reference))
