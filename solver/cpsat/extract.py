"""Solver values to a plan: counts become replicas, and counted GPUs become very definite ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from ortools.sat.python import cp_model

from solver.aggregate.classes import NodeClass, expand
from solver.cluster import GPU_MILLI, Node
from solver.cpsat.devices import (
    DeviceClass,
    Devices,
    device_class,
    held_there,
    names_gpus,
    usable,
)
from solver.cpsat.variables import Variables
from solver.fit import share_milli_on
from solver.geometry import reseated
from solver.problem import RoleKey
from solver.solution import PlacedInstance, Placement, Plan
from solver.workload import Job, Role, Shape, Slice

ValueOf = Callable[[cp_model.IntVar], int]


def extract_plan(variables: Variables, devices: Devices, value_of: ValueOf) -> Plan:
    """The plan that the values of the variables describe.

    Replicas are numbered node by node in the order of the nodes; where GPUs are interchangeable
    whole-GPU replicas get the lowest-numbered ones that shares do not use.
    """
    numbers: dict[RoleKey, int] = {}
    placements: list[Placement] = []
    for nodes in variables.classes:
        counts = [
            (job, role, value_of(x)) for job, role, x in variables.on_node(nodes.representative)
        ]
        hands = {node.name: _Hands(variables, devices, node, value_of) for node in nodes.nodes}
        placed = _by_node(nodes, variables, counts)
        for job, role, node in placed:
            if role.held:
                hands[node.name].stay(job, role)
        for job, role, node in sorted(placed, key=_turn):
            key = RoleKey(job.name, role.name)
            number = numbers.get(key, 0)
            numbers[key] = number + 1
            gpus, milli = hands[node.name].give(job, role)
            made = hands[node.name].cut(role.shape)
            placements.append(Placement(job.name, role.name, number, node.name, gpus, milli, made))
    return reseated(variables.problem, Plan.of(placements))


def _turn(entry: tuple[Job, Role, Node]) -> int:
    """Slices come last: they are cut from GPUs that nobody needs whole."""
    return int(bool(entry[1].shape.slices))


def _by_node(
    nodes: NodeClass, variables: Variables, counts: list[tuple[Job, Role, int]]
) -> list[tuple[Job, Role, Node]]:
    if nodes.size > 1:
        return expand(nodes, variables.states, counts)
    node = nodes.representative
    return [(job, role, node) for job, role, count in counts for _ in range(count)]


class _Hands:
    """Gives out the GPUs of one node as the solver decided."""

    def __init__(
        self, variables: Variables, devices: Devices, node: Node, value_of: ValueOf
    ) -> None:
        self._node = node
        self._variables = variables
        by_class = devices.shares.get(node.name, {})
        self._slots = {
            cls: [gpu for gpu, count in counts.items() for _ in range(value_of(count))]
            for cls, counts in by_class.items()
        }
        self._cuts = devices.cuts.get(node.name, [])
        self._served = {
            wish: {model: value_of(part) for model, part in parts.items()}
            for wish, parts in devices.served.get(node.name, {}).items()
        }
        may_be_cut = {gpu for cls in self._cuts for gpu in cls.gpus}
        # Those that can only be whole go first, so that the others are left for instances.
        self._idle = sorted(variables.state(node).idle_gpus, key=may_be_cut.__contains__)
        self._value_of = value_of
        self._by_name = names_gpus(variables, node)
        self._sets: dict[DeviceClass, list[tuple[int, ...]]] | None = None
        if names_gpus(variables, node):
            self._sets = {
                cls: [gpus for gpus, y in sets.items() if value_of(y)]
                for cls, sets in devices.sets.get(node.name, {}).items()
            }
        self._kept: dict[tuple[str, str], list[tuple[int, ...]]] = {}

    def stay(self, job: Job, role: Role) -> None:
        """One more replica of a role keeps its place; all are the same to the model here."""
        kept = self._kept.setdefault((job.name, role.name), [])
        gpus = usable(self._node, held_there(role, self._node)[len(kept)])
        kept.append(gpus)
        if self._sets is None:
            self._idle = [gpu for gpu in self._idle if gpu not in gpus]

    @cached_property
    def _shares(self) -> dict[DeviceClass, list[int]]:
        """The GPUs of shares; where idle GPUs are interchangeable, none that somebody keeps."""
        if self._sets is not None:
            return self._slots
        idle = self._variables.state(self._node).idle_gpus
        used = sorted({gpu for gpus in self._slots.values() for gpu in gpus if gpu in idle})
        names = dict(zip(used, self._idle, strict=False))
        self._idle = self._idle[len(used) :]
        return {cls: [names.get(g, g) for g in gpus] for cls, gpus in self._slots.items()}

    def give(self, job: Job, role: Role) -> tuple[tuple[int, ...], int]:
        """GPUs of the next replica of a role, and the thousandths it takes of each."""
        shape: Shape = role.shape
        if not shape.wants_gpu or shape.slices:
            return (), 0
        cls = device_class(job, role)
        shares = self._shares  # they get the lowest of the GPUs that nobody keeps
        if shape.is_share:
            gpu = shares[cls].pop(0)
            return (gpu,), share_milli_on(self._node, shape, gpu)
        if self._sets is not None:
            return self._sets[cls].pop(0), share_milli_on(self._node, shape, 0)
        if role.held:
            return self._kept[job.name, role.name].pop(0), GPU_MILLI
        taken, self._idle = self._idle[: shape.gpus], self._idle[shape.gpus :]
        return tuple(taken), share_milli_on(self._node, shape, taken[0])

    def cut(self, shape: Shape) -> tuple[PlacedInstance, ...]:
        """The instances of the next replica with slices, on GPUs cut as the solver decided."""
        if not shape.slices:
            return ()
        found: list[PlacedInstance] = []
        for wish, count in shape.slices:
            left = self._served.get((wish, shape.gpu_models))
            for _ in range(count):
                placed = next(e for e in self._instances if self._serves(e, wish, shape, left))
                self._instances.remove(placed)
                if left is not None:
                    left[self._node.topology.gpu_models[placed.gpu]] -= 1
                found.append(placed)
        return tuple(sorted(found))

    def _serves(
        self,
        entry: PlacedInstance,
        wish: Slice,
        shape: Shape,
        left: Mapping[str | None, int] | None,
    ) -> bool:
        """Whether an instance is for the wish; `left` of each model, where several could serve."""
        model, table = self._node.topology.gpu_models[entry.gpu], self._node.mig_tables[entry.gpu]
        if shape.gpu_models and model not in shape.gpu_models:
            return False
        if left is not None and not left.get(model):
            return False
        profile = None if table is None else wish.on(table)
        return profile is not None and profile.name == entry.instance.profile

    @cached_property
    def _instances(self) -> list[PlacedInstance]:
        """All that the geometries of the node have to give, instances that exist first."""
        _ = self._shares  # they have their GPUs before any is cut
        there: list[PlacedInstance] = []
        made: list[PlacedInstance] = []
        for cls in self._cuts:
            counts = [self._value_of(y) for y in cls.counts]
            if cls.stays_cut or self._by_name:
                gpus = list(cls.gpus)
            else:
                total = sum(counts)
                free = [gpu for gpu in cls.gpus if gpu in self._idle]
                gpus = free[len(free) - total :]
            for way, count in zip(cls.ways, counts, strict=True):
                for _ in range(count):
                    gpu = gpus.pop()
                    (made if way.changed else there).extend(
                        PlacedInstance(gpu, instance) for instance in way.layout
                    )
        return there + made
