"""Shares of a GPU: what is put on one device adds up to no more than it has left.

Rule, for each node with share requests, each class c of them and each GPU i::

    sum_i shares[n, c, i] = sum over roles r of class c of x[r, n]
    sum_c milli_c * shares[n, c, i] <= left_i * open[n, i]        (open = 1 for GPUs in part use)

Thousandths are integers, so 0.1 and 0.9 make exactly one GPU. Where idle GPUs are interchangeable
they are filled in order of load, or the solver would try every permutation.

Creates ``shares`` and ``open``. As a reason users see it as ``gpu-short`` or ``gpu-fragmented``.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from solver.cluster import Node
from solver.cpsat.devices import DeviceClass, Devices, device_class, held_there, names_gpus
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.fit import allowed_gpus, shares_on
from solver.linear import Expr, weighted
from solver.state import NodeState


def add_shares(variables: Variables, devices: Devices) -> None:
    """Add the rule on every node where shares could start."""
    for node in variables.busy_nodes:
        wanted: dict[DeviceClass, list[Expr]] = {}
        held: dict[DeviceClass, Counter[int]] = {}
        for job, role, x in variables.on_node(node):
            if role.shape.is_share:
                cls = device_class(job, role)
                wanted.setdefault(cls, []).append(x)
                if role.held:
                    held[cls] = Counter(g for r in held_there(role, node) for g in r.gpus)
        if wanted:
            variables.check_time()
            _add_node(variables, devices, node, wanted, held)


def _add_node(
    variables: Variables,
    devices: Devices,
    node: Node,
    wanted: dict[DeviceClass, list[Expr]],
    held: dict[DeviceClass, Counter[int]],
) -> None:
    """Add the rule on one node; `held` has the shares by GPU of classes that run already."""
    state = variables.state(node)
    idle = tuple(gpu for gpu in state.idle_gpus if gpu in node.usable_gpus)
    slots = _Slots(variables, node, () if names_gpus(variables, node) else idle)
    devices.open[node.name] = {
        gpu: variables.boolean(f"open[{node.name}:{gpu}]", slots.opened(gpu)) for gpu in idle
    }
    devices.loads[node.name] = slots.loads
    by_class = devices.shares.setdefault(node.name, {})
    for cls, counts in wanted.items():
        by_class[cls] = {
            gpu: variables.integer(
                f"shares[{node.name}:{gpu},{_size(cls)}]", 0, most, slots.count(cls, gpu)
            )
            for gpu in allowed_gpus(node, cls.shape)
            if (most := _most(node, state, cls, gpu, held.get(cls))) > 0
        }
        terms = [(u, 1) for u in by_class[cls].values()] + [(x, -1) for x in counts]
        variables.require(weighted(terms), 0, 0)
    for gpu, left in enumerate(state.gpu_left):
        load = devices.load_milli(variables, node, gpu)
        opened = devices.open[node.name].get(gpu)
        if opened is not None:
            variables.require(weighted([(load, 1), (opened, -left)]), None, 0)
        elif left and not isinstance(load, int):
            variables.require(load, None, left)
    opens = devices.open[node.name]
    for gpu, following in pairwise(slots.idle):
        variables.require(weighted([(opens[gpu], 1), (opens[following], -1)]), 0, None)
        first = devices.load_milli(variables, node, gpu)
        second = devices.load_milli(variables, node, following)
        variables.require(weighted([(first, 1), (second, -1)]), 0, None)


def _most(
    node: Node, state: NodeState, cls: DeviceClass, gpu: int, held: Counter[int] | None
) -> int:
    if not state.joins(gpu, cls.shape.share_group):
        return 0
    room = shares_on(node, cls.shape, state, gpu)
    return room if held is None else min(room, held[gpu])


def _size(cls: DeviceClass) -> str:
    shape = cls.shape
    return f"{shape.share_milli}m" if shape.share_milli else f"{shape.share_memory_mib}MiB"


class _Slots:
    """Reads loads of GPUs off a plan.

    On nodes with interchangeable GPUs the i-th idle slot is the idle GPU with the i-th largest
    load.
    """

    def __init__(self, variables: Variables, node: Node, idle: tuple[int, ...]) -> None:
        self._node = node
        self._variables = variables
        self.idle = idle

    def count(self, cls: DeviceClass, slot: int) -> Valuation:
        return lambda view: self.loads(view)[slot][cls]

    def opened(self, slot: int) -> Valuation:
        return lambda view: int(self.loads(view)[slot].total() > 0)

    def loads(self, view: PlanView) -> dict[int, Counter[DeviceClass]]:
        """Shares of each class by slot."""
        return view.remember(("loads", self._node.name), lambda: self._read(view))

    def _read(self, view: PlanView) -> dict[int, Counter[DeviceClass]]:
        loads: dict[int, Counter[DeviceClass]] = {g: Counter() for g in range(self._node.n_gpus)}
        milli: Counter[int] = Counter()
        for placement in view.on(self._node.name):
            role = view.role(placement)
            if role.shape.is_share:
                (gpu,) = placement.gpus
                job = view.problem.job_by_name[placement.job]
                loads[gpu][device_class(job, role)] += 1
                milli[gpu] += placement.share_milli
        by_load = sorted(self.idle, key=lambda gpu: (-milli[gpu], gpu))
        renamed = dict(zip(self.idle, by_load, strict=True))
        return {gpu: loads[renamed.get(gpu, gpu)] for gpu in loads}
