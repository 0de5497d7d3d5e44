"""The GPUs of a node inside the model: counted where they are interchangeable, else by name.

``sets[node, class, S]``
    A replica of the class gets exactly the GPUs S (Boolean); only on nodes whose GPUs differ in
    model or links (DGX-1V, PCIe pairs), see `constraints.gpu_sets`.
``shares[node, class, gpu]``
    Shares of the class on one GPU (integer), see `constraints.shares`.
``served[node, wish, model]``
    Slices of a wish that GPUs of a model serve, where several models could (integer).
``open[node, gpu]``
    An idle GPU is given to shares rather than to a whole-GPU replica (Boolean).

A *class* is the part of a shape that says which GPUs will do; roles of one class are
interchangeable as far as GPUs go, so these variables do not multiply with the roles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ortools.sat.python import cp_model

from solver.aggregate.classes import interchangeable_gpus
from solver.cluster import Node
from solver.cpsat.variables import Variables
from solver.cpsat.view import PlanView
from solver.islands import is_fragile, may_leave
from solver.linear import Expr, weighted
from solver.slices import Geometry
from solver.workload import Job, LinkRule, Role, RunningReplica, Shape, Slice
from topology.mig.tables import MigTable, Profile
from topology.scoring import GpuSet


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Which GPUs a replica may get.

    `job` is set where a whole job must share one island; with it `role`, where the replicas run
    already and can only have the GPUs that they hold.
    """

    shape: Shape
    job: str = ""
    role: str = ""


@lru_cache(maxsize=8192)
def _gpu_part(shape: Shape) -> Shape:
    required = shape.link is LinkRule.REQUIRED and shape.gpus > 1
    return Shape(
        gpus=shape.gpus,
        share_milli=shape.share_milli,
        share_memory_mib=shape.share_memory_mib,
        compute_milli=shape.compute_milli,
        share_group=shape.share_group,
        gpu_models=shape.gpu_models,
        link=LinkRule.REQUIRED if required else LinkRule.NONE,
    )


def device_class(job: Job, role: Role) -> DeviceClass:
    """The class of a role's replicas."""
    if role.held:
        return DeviceClass(_gpu_part(role.shape), job.name, role.name)
    return DeviceClass(_gpu_part(role.shape), job.name if in_one_island(job) else "")


def held_there(role: Role, node: Node) -> tuple[RunningReplica, ...]:
    """The replicas of a role that run on a node already; the first ones stay longest."""
    return tuple(replica for replica in role.held if replica.node == node.name)


def usable(node: Node, replica: RunningReplica) -> tuple[int, ...]:
    """The GPUs that a running replica holds and that others could have; ill ones are lost."""
    return tuple(gpu for gpu in replica.gpus if gpu in node.usable_gpus)


def in_one_island(job: Job) -> bool:
    """Whether the whole gang must stay in one NVLink island."""
    rule = job.topology
    return rule is not None and rule.required and rule.within == "island"


def is_one_island(node: Node) -> bool:
    """Whether all GPUs of the node are in a single NVLink island."""
    return len(node.topology.parts) == 1


def names_gpus(variables: Variables, node: Node) -> bool:
    """Whether the very GPUs matter on this node (otherwise they are counted).

    As long as only starts are decided, links that nobody requires do not matter. Shares that run
    already are on very definite GPUs, and so are instances that may make way for whole GPUs.
    """
    if node.switchable_gpus:
        return True
    if any(role.held and role.shape.is_share for _, role, _ in variables.on_node(node)):
        return True
    if not node.topology.is_uniform:
        shapes = [role.shape for _, role, _ in variables.on_node(node)]
        if not variables.merged or not interchangeable_gpus(node, shapes):
            return True
    apart = not is_one_island(node) or (
        variables.problem.may_recut
        and is_fragile(node, node.topology.parts[0], may_leave(node, variables.state(node)))
    )
    return apart and any(in_one_island(job) for job, _, _ in variables.on_node(node))


Wish = tuple[Slice, tuple[str, ...]]
"""A slice, and the GPU models that may serve it (empty: any)."""


@dataclass(frozen=True)
class CutClass:
    """GPUs of a node that are cut alike, and how many of them get which geometry.

    Parameters
    ----------
    ways, counts
        The geometries, and the variable that counts the GPUs with each.
    """

    node: Node
    gpus: tuple[int, ...]
    table: MigTable
    ways: tuple[Geometry, ...]
    wanted: tuple[Profile, ...]
    counts: list[cp_model.IntVar] = field(default_factory=list)

    @property
    def model(self) -> str | None:
        """Model of the GPUs."""
        return self.node.topology.gpu_models[self.gpus[0]]

    @property
    def stays_cut(self) -> bool:
        """Whether the GPUs are in MIG mode for good."""
        return self.gpus[0] in self.node.mig_gpus


Loads = Callable[[PlanView], Mapping[int, Counter[DeviceClass]]]
"""Reads off a plan how many shares of each class are on each GPU (or slot) of a node."""


@dataclass(frozen=True)
class Devices:
    """The GPU variables of a model, filled by the rules that create them."""

    sets: dict[str, dict[DeviceClass, dict[GpuSet, cp_model.IntVar]]] = field(default_factory=dict)
    shares: dict[str, dict[DeviceClass, dict[int, cp_model.IntVar]]] = field(default_factory=dict)
    open: dict[str, dict[int, cp_model.IntVar]] = field(default_factory=dict)
    loads: dict[str, Loads] = field(default_factory=dict)
    cuts: dict[str, list[CutClass]] = field(default_factory=dict)
    served: dict[str, dict[Wish, dict[str | None, cp_model.IntVar]]] = field(default_factory=dict)

    def cut(self, node: Node, gpu: int | None = None) -> list[cp_model.IntVar]:
        """Counts whose sum is how many idle GPUs of a node are cut; of one GPU, where it is one.

        On nodes whose GPUs have no names only the number for the whole node means something.
        """
        return [
            y
            for cls in self.cuts.get(node.name, [])
            if not cls.stays_cut and (gpu is None or gpu in cls.gpus)
            for y in cls.counts
        ]

    def taking(self, node: Node, gpu: int) -> list[cp_model.IntVar]:
        """The sets that contain a GPU."""
        by_class = self.sets.get(node.name, {})
        return [y for sets in by_class.values() for gpus, y in sets.items() if gpu in gpus]

    def load_milli(self, variables: Variables, node: Node, gpu: int) -> Expr:
        """Thousandths of a GPU that new shares take."""
        by_class = self.shares.get(node.name, {})
        return weighted(
            (counts[gpu], cls.shape.milli_on(node.topology.gpu_memory_mib[gpu]) or 0)
            for cls, counts in by_class.items()
            if gpu in counts
        )

    def load_compute_milli(self, variables: Variables, node: Node, gpu: int) -> Expr:
        """Thousandths of a GPU's compute that new shares may use."""
        by_class = self.shares.get(node.name, {})
        memory = node.topology.gpu_memory_mib[gpu]
        return weighted(
            (counts[gpu], cls.shape.compute_milli or cls.shape.milli_on(memory) or 0)
            for cls, counts in by_class.items()
            if gpu in counts
        )
