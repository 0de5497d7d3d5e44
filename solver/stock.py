"""What every node has left, as arrays: where a whole gang goes is a few array operations.

The arrays say how many replicas a node takes as far as whole GPUs, CPU and memory go. For nodes
whose GPUs are interchangeable that is exact; for shares, mixed models and required links it is an
upper bound, and the node's state has the last word when a replica takes its seat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.cluster import GPU_MILLI, HOSTNAME, Node
from solver.fit import fit, hosts, pick_least_lossy, share_milli_on
from solver.problem import Problem
from solver.solution import PlacedInstance
from solver.state import NodeState, States, initial_states
from solver.workload import LinkRule, Shape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
"""Numbers of nodes: their places in the problem."""

NO_LIMIT = 2**40
"""CPU or memory left where a node has no limit; far beyond any request."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A place for one replica: the node's number, the GPUs, thousandths of each."""

    node: int
    gpus: tuple[int, ...]
    share_milli: int
    instances: tuple[PlacedInstance, ...] = ()


class Stock:
    """The nodes of a problem with what is left of them: after the running work, or in `states`.

    Attributes
    ----------
    idle, milli, cpu, memory
        By node: fully idle GPUs, GPU-milli, milli-CPU and MiB left.
    """

    def __init__(self, problem: Problem, states: States | None = None) -> None:
        self.problem = problem
        self.nodes: Sequence[Node] = problem.nodes
        states = initial_states(problem) if states is None else states
        self.states: list[NodeState] = [states[node.name] for node in problem.nodes]
        self.idle: Ints = np.array([len(s.idle_gpus) for s in self.states], dtype=np.int64)
        self.milli: Ints = np.array([s.free_milli for s in self.states], dtype=np.int64)
        self.cpu = _amounts(s.cpu_left for s in self.states)
        self.memory = _amounts(s.memory_left for s in self.states)
        self._kinds = list(dict.fromkeys(node.kind for node in problem.nodes))
        place = {kind: number for number, kind in enumerate(self._kinds)}
        self.kind_of: Numbers = np.array([place[node.kind] for node in problem.nodes], np.intp)
        self._one_model = np.array(
            [len(set(k.topology.gpu_models)) <= 1 for k in self._kinds], dtype=bool
        )
        self._uniform = np.array([k.topology.is_uniform for k in self._kinds], dtype=bool)
        self._hosting: dict[Shape, NDArray[np.bool_]] = {}
        self._groups: dict[str, Numbers] = {}
        self.forget()

    def group_of(self, level: str) -> Numbers:
        """The number of the group of a level that each node is in."""
        if level not in self._groups:
            number: dict[tuple[str, ...], int] = {}
            levels = self.problem.levels
            groups = (node.group(level, levels) for node in self.nodes)
            self._groups[level] = np.array(
                [number.setdefault(group, len(number)) for group in groups], dtype=np.intp
            )
        return self._groups[level]

    def copy(self) -> Stock:
        """The same nodes, whose states go their own way from here."""
        twin = copy(self)
        twin.states = list(self.states)
        twin.idle, twin.milli = self.idle.copy(), self.milli.copy()
        twin.cpu, twin.memory = self.cpu.copy(), self.memory.copy()
        twin.forget()
        return twin

    def forget(self) -> None:
        """What was done so far cannot be rolled back any more."""
        self._journal: list[tuple[int, NodeState]] = []

    def hosts(self, shape: Shape) -> NDArray[np.bool_]:
        """Nodes that would take the shape when empty."""
        if any(key == HOSTNAME for key, _ in shape.node_selector):
            return np.array([hosts(node, shape) for node in self.nodes], dtype=bool)
        return np.array([hosts(kind, shape) for kind in self._kinds], dtype=bool)[self.kind_of]

    def hosting(self, shape: Shape) -> NDArray[np.bool_]:
        """Nodes that would take the shape when empty, were it not for its CPU and memory."""
        if shape not in self._hosting:
            bare = replace(shape, cpu_milli=0, memory_mib=0)
            if bare not in self._hosting:
                if any(key == HOSTNAME for key, _ in bare.node_selector):
                    mask = np.array([hosts(node, bare) for node in self.nodes], dtype=bool)
                else:
                    mask = np.array([hosts(k, bare) for k in self._kinds], bool)[self.kind_of]
                self._hosting[bare] = mask
            self._hosting[shape] = self._hosting[bare]
        return self._hosting[shape]

    def room(self, shape: Shape) -> Ints:
        """By node, the most replicas it takes as far as the arrays know."""
        if shape.gpus:
            room = self.idle // shape.gpus
        elif shape.slices:
            fits = [fit(*pair) for pair in self._with(shape)]
            room = np.array(fits, dtype=np.int64)
        elif shape.wants_gpu:
            room = self.milli // max(1, shape.share_milli)
        else:
            room = np.full(len(self.nodes), NO_LIMIT)
        if shape.cpu_milli:
            room = np.minimum(room, self.cpu // shape.cpu_milli)
        if shape.memory_mib:
            room = np.minimum(room, self.memory // shape.memory_mib)
        return np.where(self.hosting(shape), room, 0)

    def _with(self, shape: Shape) -> list[tuple[Node, Shape, NodeState]]:
        return [(n, shape, s) for n, s in zip(self.nodes, self.states, strict=True)]

    def exact(self, shape: Shape) -> NDArray[np.bool_]:
        """Nodes of which `room` is exact."""
        if not shape.wants_gpu:
            return np.ones(len(self.nodes), dtype=bool)
        if shape.is_share or shape.slices:
            return np.zeros(len(self.nodes), dtype=bool)
        if shape.link is LinkRule.REQUIRED and shape.gpus > 1:
            return self._uniform[self.kind_of]
        if shape.gpu_models:
            return self._one_model[self.kind_of]
        return np.ones(len(self.nodes), dtype=bool)

    def most(self, shape: Shape) -> Ints:
        """By node, the most replicas it takes: exact everywhere."""
        room = self.room(shape)
        for n in np.flatnonzero((room > 0) & ~self.exact(shape)):
            room[n] = self.fit(int(n), shape)
        return room

    def fit(self, n: int, shape: Shape) -> int:
        """Most replicas of a shape that a node takes at once."""
        if not self.hosting(shape)[n]:
            return 0
        return fit(self.nodes[n], shape, self.states[n])

    def seat(self, n: int, shape: Shape, gpus: frozenset[int] | None = None) -> Seat | None:
        """Let one replica have the best GPUs of a node; None where it does not fit.

        Parameters
        ----------
        gpus
            The GPUs of the node that may be taken; None is any.
        """
        state = whole = self.states[n]
        if gpus is not None:
            left = tuple(x if g in gpus else 0 for g, x in enumerate(state.gpu_left))
            state = replace(state, gpu_left=left, layouts=())
        node = self.nodes[n]
        if not fit(node, shape, state):
            return None
        chosen = pick_least_lossy(node, shape, state)
        if chosen is None:
            return None
        milli = share_milli_on(node, shape, chosen[0]) if shape.is_share else GPU_MILLI
        self._journal.append((n, whole))
        self._put(n, whole.place(shape, chosen, milli))
        return Seat(n, chosen, milli)

    def put(self, shape: Shape, seat: Seat) -> None:
        """Let a replica have a certain seat, which is free; cannot be rolled back."""
        state = self.states[seat.node].place(shape, seat.gpus, seat.share_milli)
        state = state.cut(seat.instances)
        self._put(seat.node, state)

    def give_back(self, shape: Shape, seat: Seat) -> None:
        """Take a replica off its seat; cannot be rolled back."""
        self._put(seat.node, self.states[seat.node].give_back(shape, seat.gpus, seat.share_milli))

    def mark(self) -> int:
        """A point to which `roll_back` goes back."""
        return len(self._journal)

    def roll_back(self, mark: int) -> None:
        """Undo every seat taken since `mark`."""
        while len(self._journal) > mark:
            self._put(*self._journal.pop())

    def _put(self, n: int, state: NodeState) -> None:
        self.states[n] = state
        self.idle[n] = state.gpu_left.count(GPU_MILLI)
        self.milli[n] = sum(state.gpu_left)
        self.cpu[n] = NO_LIMIT if state.cpu_left is None else state.cpu_left
        self.memory[n] = NO_LIMIT if state.memory_left is None else state.memory_left


def _amounts(values: Iterable[int | None]) -> Ints:
    return np.array([NO_LIMIT if v is None else v for v in values], dtype=np.int64)
