"""What a placement policy is: a score for every (replica, node), and a way to pick the GPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from solver.cluster import GPU_MILLI, Node
from solver.fit import least_milli, pick_gpus
from solver.problem import Problem
from solver.state import NodeState
from solver.workload import Job, Shape

Score = tuple[float, ...]
"""Higher wins, component by component."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The largest node of a cluster, by resource: what the published formulas divide by.

    The formulas of Weng et al. (ATC 2023) say 128000 milli-CPU and 8000 milli-GPU, the largest
    amounts of a node in their cluster. 0 where no node has any, or where none has a limit.
    """

    cpu_milli: int
    gpu_milli: int
    memory_mib: int = 0

    @classmethod
    def of(cls, problem: Problem) -> Scale:
        """The largest amounts of a node of the problem."""
        return cls(
            max((node.cpu_milli or 0 for node in problem.nodes), default=0),
            max((node.n_gpus * GPU_MILLI for node in problem.nodes), default=0),
            max((node.memory_mib or 0 for node in problem.nodes), default=0),
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """What one replica takes of a node, as the formulas see it.

    Parameters
    ----------
    gpus, gpu_milli
        Devices, and thousandths of each; a share is one device.
    """

    cpu_milli: int
    gpus: int
    gpu_milli: int
    memory_mib: int = 0

    @property
    def total_gpu_milli(self) -> int:
        """Thousandths of GPUs over all devices."""
        return self.gpus * self.gpu_milli

    @classmethod
    def on(cls, node: Node, shape: Shape) -> Demand:
        """What a replica of `shape` takes on `node`.

        A share said by memory counts as on the node's largest GPU, where it takes least.
        """
        if shape.is_share:
            return cls(shape.cpu_milli, 1, least_milli(node, shape), shape.memory_mib)
        milli = GPU_MILLI if shape.gpus else 0
        return cls(shape.cpu_milli, shape.gpus, milli, shape.memory_mib)


def ratio(amount: int | None, largest: int) -> float:
    """An amount as a part of the largest node's; 0 where the resource has no limit."""
    return amount / largest if amount is not None and largest else 0.0


@dataclass(frozen=True, slots=True)
class Region:
    """Where a replica may go.

    Parameters
    ----------
    nodes
        Numbers of the nodes (their places in the problem); None is anywhere.
    gpus
        The GPUs of the region's single node that may be taken; None is any.
    in_order
        The first of `nodes` with room gets the replica, whatever the scores. Otherwise the
        highest score wins, and ties go to the lower number.
    """

    nodes: tuple[int, ...] | None = None
    gpus: frozenset[int] | None = None
    in_order: bool = False


ANYWHERE = Region()

Candidate = tuple[Score, int, Sequence[int]]
"""A score, the number of the first node that has it, and all nodes (by number) that have it."""


class Field(Protocol):
    """The nodes of a region, as a policy looks at them that has one replica to place."""

    @property
    def nodes(self) -> Sequence[int]:
        """All of them, by number, whether they have room or not."""
        ...

    def takes(self, n: int) -> bool:
        """Whether a node has room for the replica."""
        ...

    def best(self) -> int | None:
        """The node with the highest score, ties to the first one; None where none has room."""
        ...

    def candidates(self) -> Iterable[Candidate]:
        """Every node that has room, with its score."""
        ...


def highest(candidates: Iterable[Candidate]) -> int | None:
    """The node (by number) of the highest score, ties to the lower number; None where none is."""
    best: Candidate | None = None
    for candidate in candidates:
        score, place, _ = candidate
        if best is None or score > best[0] or (score == best[0] and place < best[1]):
            best = candidate
    return None if best is None else best[1]


class PlacementPolicy(ABC):
    """Where a replica goes: on the node with the highest score, ties to the first one.

    Subclasses give the score; some pick the GPUs in their own way too.
    """

    repeatable = True
    """Whether the same node in the same state always gets the same GPUs picked."""

    watches_kinds = False
    """Whether the score looks at which kinds of work are on a node."""

    inside_out = False
    """Whether gangs go into the smallest group that has room, rather than the first one."""

    edition = 0
    """Another number as soon as scores and picks of before do not hold any more."""

    def hear(self, job: Job, at_ms: int) -> None:  # noqa: B027 (most policies do not care)
        """Hear that a job has come, at a time of the simulation."""

    def begin(self, job: Job) -> None:  # noqa: B027 (most policies do not care)
        """Hear which job is placed next; replica by replica, whoever it belongs to, by default."""

    @abstractmethod
    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """How well the node suits one replica that fits there; higher is better.

        Parameters
        ----------
        kinds
            Kinds of work on the node (see `work_kind`); empty unless `watches_kinds`.
        """

    def pick(self, node: Node, state: NodeState, shape: Shape) -> tuple[int, ...] | None:
        """The GPUs that the replica gets; None where it cannot be placed after all."""
        return pick_gpus(node, shape, state)

    def choose(self, field: Field) -> int | None:
        """The node (by number) that takes the replica, or None where none has room."""
        return field.best()


def work_kind(shape: Shape) -> str | None:
    """Kind of work: ``fraction`` or the number of GPUs; None for replicas without GPUs."""
    if shape.is_share or shape.slices:
        return "fraction"
    return str(shape.gpus) if shape.gpus else None
