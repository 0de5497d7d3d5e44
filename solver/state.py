"""What is left of every node: after the running work, and after a plan on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from solver.aftermath import settled
from solver.cluster import GPU_MILLI, Node
from solver.identity import Same
from solver.problem import Problem, RoleKey
from solver.solution import PlacedInstance, Placement, Plan
from solver.workload import ANY_GROUP, RunningJob, Shape
from topology.mig.layouts import Layout


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node has left. Equal states of equal nodes are interchangeable.

    Parameters
    ----------
    gpu_left
        Thousandths left of each GPU; unhealthy and MIG-cut ones have 0.
    cpu_left, memory_left
        Milli-CPU and MiB left, never negative; None where the node has no limit.
    layouts
        By GPU, the MIG instances in use; empty where the node has none at all. A GPU that was cut
        for them has nothing left of its thousandths.
    groups
        By GPU, the share group of the shares on it; empty where all of them are without one.
    extra_compute
        By GPU, thousandths of compute that its shares have beyond the part of it that they occupy
        (fewer: negative); empty where both are the same everywhere.
    """

    gpu_left: tuple[int, ...]
    cpu_left: int | None
    memory_left: int | None
    layouts: tuple[Layout, ...] = ()
    groups: tuple[str, ...] = ()
    extra_compute: tuple[int, ...] = ()

    def take(
        self,
        gpus: tuple[int, ...],
        share_milli: int,
        cpu_milli: int,
        memory_mib: int,
        share_group: str = "",
        compute_milli: int = 0,
    ) -> NodeState:
        """What is left once a replica holds `share_milli` of each of `gpus`, CPU and memory."""
        left = list(self.gpu_left)
        for gpu in gpus:
            left[gpu] = max(0, left[gpu] - share_milli)
        return NodeState(
            tuple(left),
            None if self.cpu_left is None else max(0, self.cpu_left - cpu_milli),
            None if self.memory_left is None else max(0, self.memory_left - memory_mib),
            self.layouts,
            self._groups_with(gpus, share_group),
            self._extra_with(gpus, compute_milli - share_milli if compute_milli else 0),
        )

    def _groups_with(self, gpus: tuple[int, ...], share_group: str) -> tuple[str, ...]:
        if share_group in ("", ANY_GROUP):
            return self.groups
        groups = list(self.groups or ("",) * len(self.gpu_left))
        for gpu in gpus:
            groups[gpu] = share_group
        return tuple(groups)

    def _extra_with(self, gpus: tuple[int, ...], more: int) -> tuple[int, ...]:
        if not more:
            return self.extra_compute
        extra = list(self.extra_compute or (0,) * len(self.gpu_left))
        for gpu in gpus:
            extra[gpu] += more
        return tuple(extra) if any(extra) else ()

    def compute_left(self, gpu: int, limit_milli: int) -> int:
        """Thousandths of compute left for shares of a GPU that may give so many in all."""
        extra = self.extra_compute[gpu] if self.extra_compute else 0
        return limit_milli - (GPU_MILLI - self.gpu_left[gpu]) - extra

    def joins(self, gpu: int, share_group: str) -> bool:
        """Whether a share of a group may be put beside the shares that are on a GPU, if any."""
        return share_group == ANY_GROUP or self.group(gpu) in (None, share_group)

    def group(self, gpu: int) -> str | None:
        """The share group of what is on a GPU; None where nobody holds any of it."""
        if self.gpu_left[gpu] == GPU_MILLI:
            return None
        return self.groups[gpu] if self.groups else ""

    def place(self, shape: Shape, gpus: tuple[int, ...], share_milli: int) -> NodeState:
        """What is left once one replica of `shape` holds `gpus`."""
        return self.take(
            gpus,
            share_milli,
            shape.cpu_milli,
            shape.memory_mib,
            shape.share_group,
            shape.compute_milli,
        )

    def give_back(self, shape: Shape, gpus: tuple[int, ...], share_milli: int) -> NodeState:
        """What is left once a replica of `shape` has left the `gpus` that it held."""
        return self.free(gpus, share_milli, shape.cpu_milli, shape.memory_mib, shape.compute_milli)

    def free(
        self,
        gpus: tuple[int, ...],
        share_milli: int,
        cpu_milli: int,
        memory_mib: int,
        compute_milli: int = 0,
    ) -> NodeState:
        """What is left once that is held no more; `gpus` are usable ones."""
        left = list(self.gpu_left)
        for gpu in gpus:
            left[gpu] += share_milli
        return NodeState(
            tuple(left),
            None if self.cpu_left is None else self.cpu_left + cpu_milli,
            None if self.memory_left is None else self.memory_left + memory_mib,
            self.layouts,
            self._groups_of(left),
            self._extra_with(gpus, share_milli - compute_milli if compute_milli else 0),
        )

    def _groups_of(self, left: list[int]) -> tuple[str, ...]:
        """The groups without those of GPUs that nobody holds any more."""
        if not self.groups:
            return ()
        pairs = zip(self.groups, left, strict=True)
        groups = tuple("" if milli == GPU_MILLI else group for group, milli in pairs)
        return groups if any(groups) else ()

    def layout(self, gpu: int) -> Layout:
        """The MIG instances in use on a GPU."""
        return self.layouts[gpu] if self.layouts else ()

    def cut(self, instances: tuple[PlacedInstance, ...]) -> NodeState:
        """What is left once these instances are in use; their GPUs are no whole ones any more."""
        if not instances:
            return self
        left = list(self.gpu_left)
        layouts = list(self.layouts or ((),) * len(left))
        for placed in instances:
            left[placed.gpu] = 0
            layouts[placed.gpu] = tuple(sorted((*layouts[placed.gpu], placed.instance)))
        return replace(self, gpu_left=tuple(left), layouts=tuple(layouts))

    def join(self, instances: tuple[PlacedInstance, ...], node: Node) -> NodeState:
        """What is left once these instances are not in use any more.

        A GPU that was cut only for them is whole again.
        """
        if not instances:
            return self
        left, layouts = list(self.gpu_left), list(self.layouts)
        for placed in instances:
            kept = list(layouts[placed.gpu])
            kept.remove(placed.instance)
            layouts[placed.gpu] = tuple(kept)
            if not kept and placed.gpu in node.cuttable_gpus:
                left[placed.gpu] = GPU_MILLI
        whole = layouts if any(layouts) else []
        return replace(self, gpu_left=tuple(left), layouts=tuple(whole))

    @property
    def idle_gpus(self) -> tuple[int, ...]:
        """Indices of GPUs nobody holds any part of."""
        return tuple(gpu for gpu, left in enumerate(self.gpu_left) if left == GPU_MILLI)

    @property
    def free_milli(self) -> int:
        """Thousandths of GPUs left in total."""
        return sum(self.gpu_left)


States = Mapping[str, NodeState]
"""Node name to what it has left."""


def empty_state(node: Node) -> NodeState:
    """The node with nothing on it."""
    usable = set(node.usable_gpus)
    left = tuple(GPU_MILLI if gpu in usable else 0 for gpu in range(node.n_gpus))
    layouts = node.used_layouts if node.instances else ()
    return NodeState(left, node.cpu_milli, node.memory_mib, layouts if any(layouts) else ())


def initial_states(problem: Problem) -> dict[str, NodeState]:
    """Every node with its running work on it."""
    return dict(_with_running(Same(problem.nodes), Same(problem.running)))


@lru_cache(maxsize=4)
def _with_running(
    nodes: Same[tuple[Node, ...]], running: Same[tuple[RunningJob, ...]]
) -> dict[str, NodeState]:
    states = {node.name: empty_state(node) for node in nodes.value}
    for job in running.value:
        for replica in job.replicas:
            states[replica.node] = states[replica.node].take(
                replica.gpus,
                replica.share_milli,
                replica.cpu_milli,
                replica.memory_mib,
                replica.share_group,
                replica.compute_milli,
            )
    return states


def apply(
    problem: Problem, states: States, placements: Iterable[Placement]
) -> dict[str, NodeState]:
    """The states once `placements` have started."""
    after = dict(states)
    for p in placements:
        shape = problem.role_by_key[RoleKey(p.job, p.role)].shape
        after[p.node] = after[p.node].place(shape, p.gpus, p.share_milli).cut(p.instances)
    return after


def states_after(problem: Problem, plan: Plan) -> dict[str, NodeState]:
    """Every node with what is left of the running work and the whole plan on it."""
    after, starts = settled(problem, plan)
    return apply(after, initial_states(after), starts.placements)
