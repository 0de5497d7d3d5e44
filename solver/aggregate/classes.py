"""Nodes that are interchangeable for the pending work, so that a model may count over them.

Merging is exact, not an approximation. Nodes are merged only where all of this holds:

* it does not matter which of their GPUs are taken (one model, no link required), equally many are
  idle, and no share request could come;
* CPU and memory cannot run out before the GPUs do (`never_binds`);
* they would host the same roles, and are in the same groups of every level that a rule of such a
  role looks at;
* the GPU counts of those roles form a chain in which each divides the next. Then m nodes with f
  idle GPUs hold a set of replicas if and only if, for every size s of the chain,
  ``sum over replicas of g >= s GPUs of g / s  <=  m * (f // s)``: put in largest first, the space
  that is left always comes in whole blocks of the next size.

Other nodes are classes of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from solver.cluster import Node
from solver.fit import fit, hosts, least_milli
from solver.problem import Problem
from solver.state import NodeState, States
from solver.workload import Job, LinkRule, ResourceName, Role, Shape


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Interchangeable nodes, in the order of the problem; the first one stands for all."""

    nodes: tuple[Node, ...]

    @property
    def representative(self) -> Node:
        """The node that stands for the class."""
        return self.nodes[0]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


def single_nodes(problem: Problem) -> tuple[NodeClass, ...]:
    """Every node as a class of its own."""
    return tuple(NodeClass((node,)) for node in problem.nodes)


def merged_nodes(problem: Problem, states: States) -> tuple[NodeClass, ...]:
    """The classes of interchangeable nodes, in the order of their first node."""
    members: dict[Hashable, list[Node]] = {}
    for node in problem.nodes:
        key = _merge_key(problem, node, states[node.name])
        members.setdefault(node.name if key is None else key, []).append(node)
    return tuple(NodeClass(tuple(nodes)) for nodes in members.values())


def _merge_key(problem: Problem, node: Node, state: NodeState) -> Hashable | None:
    """Equal for nodes that may be merged; None for one that stays alone."""
    eligible = [
        (job, role)
        for job, role in problem.roles()
        if hosts(node, role.shape) and fit(node, role.shape, state)
    ]
    shapes = [role.shape for _, role in eligible]
    counted_one_by_one = any(shape.is_share or shape.slices for shape in shapes)
    if not interchangeable_gpus(node, shapes) or counted_one_by_one or node.switchable_gpus:
        return None
    sizes = sorted({shape.gpus for shape in shapes if shape.gpus})
    if any(larger % smaller for smaller, larger in pairwise(sizes)):
        return None
    if not all(
        never_binds(problem, node, state, resource, shapes, ())
        for resource in ("cpu_milli", "memory_mib")
    ):
        return None
    levels = _levels_that_matter(job for job, _ in eligible)
    if levels & {"node", "island"}:
        return None
    groups = tuple(node.group(level, problem.levels) for level in sorted(levels))
    roles = tuple((job.name, role.name) for job, role in eligible)
    return (node.topology, len(state.idle_gpus), groups, roles)


def interchangeable_gpus(node: Node, shapes: Iterable[Shape]) -> bool:
    """Whether it does not matter for starting these shapes which GPUs of the node are free.

    Of one model and memory they have to be; their links matter only to a shape that requires some.
    """
    topology = node.topology
    if topology.is_uniform:
        return True
    alike = len(set(topology.gpu_models)) <= 1 and len(set(topology.gpu_memory_mib)) <= 1
    return alike and not any(s.link is LinkRule.REQUIRED and s.gpus > 1 for s in shapes)


def _levels_that_matter(jobs: Iterable[Job]) -> set[str]:
    levels: set[str] = set()
    for job in jobs:
        if job.topology is not None and job.topology.required:
            levels.add(job.topology.within)
        if job.spread is not None:
            levels.add(job.spread.over)
    return levels


def never_binds(
    problem: Problem,
    node: Node,
    state: NodeState,
    resource: ResourceName,
    pending: Sequence[Shape],
    reference: Sequence[Shape],
) -> bool:
    """Whether CPU (or memory) of a node cannot run out before its GPUs do.

    Let a be the most of the resource per GPU-milli that any of the shapes asks. Replicas holding u
    of the node's g free GPU-milli leave at least ``left - a*u``, and what fits into the other
    ``g - u`` asks for at most ``a * (g - u)``. So where ``a * g <= left`` the rule holds by itself,
    for the capacity of the node and for what is stranded on it.
    """
    left = state.cpu_left if resource == "cpu_milli" else state.memory_left
    if left is None:
        return True
    free = state.free_milli
    for shape in dict.fromkeys((*pending, *reference)):
        amount = problem.amount(shape, resource)
        if amount and not shape.wants_gpu:
            return False
        if amount and amount * free > left * least_milli(node, shape):
            return False
    return True


def expand(
    nodes: NodeClass, states: States, counts: Sequence[tuple[Job, Role, int]]
) -> list[tuple[Job, Role, Node]]:
    """Spread the replicas of a class over its nodes, largest first, each node filled in turn.

    Raises
    ------
    ValueError
        They do not fit; cannot happen to counts that keep the rule of the chain.
    """
    idle = {node.name: len(states[node.name].idle_gpus) for node in nodes.nodes}
    placed: list[tuple[Job, Role, Node]] = []
    for job, role, count in sorted(counts, key=lambda entry: -entry[1].shape.gpus):
        gpus = role.shape.gpus
        for _ in range(count):
            node = next((n for n in nodes.nodes if idle[n.name] >= gpus), None)
            if node is None:
                raise ValueError(f"no room for {job.name}/{role.name} in its class of nodes")
            idle[node.name] -= gpus
            placed.append((job, role, node))
    return placed
