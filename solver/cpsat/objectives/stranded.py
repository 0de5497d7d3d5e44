"""Stranded: free GPUs that the reference workload could not use after the plan.

For a shape k of the reference and a node n that could host it when empty, ``fits[k, n]`` is bounded
by everything the node has left after the plan::

    gpus_k * fits <= idle GPUs left,   cpu_k * fits <= CPU left,   memory_k * fits <= memory left
    value = sum_k weight_k * sum_n (free milli-GPU left - milli_k * fits[k, n])

Less is better, so the solver makes each ``fits`` as large as the bounds allow, which is the
definition. Shapes that differ only in CPU and memory share one variable on nodes where these
cannot run out. A preferred link counts as required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from solver.cluster import GPU_MILLI, Node
from solver.cpsat.devices import Devices, names_gpus
from solver.cpsat.variables import Variables, never_short
from solver.cpsat.view import PlanView
from solver.fit import (
    allowed_gpus,
    fit,
    hosts,
    idle_allowed,
    least_milli,
    share_milli_on,
    strictly_linked,
)
from solver.linear import Expr, total, weighted
from solver.state import NodeState, apply
from solver.workload import LinkRule, ResourceName, Shape
from topology.scoring import GpuSet, is_linked


def stranded_milli(variables: Variables, devices: Devices) -> Expr:
    """Weighted stranded milli-GPU, summed over the shapes of the reference."""
    terms: list[tuple[Expr, int]] = []
    for node in variables.problem.nodes:
        weights = _shapes_on(variables, node)
        if weights:
            variables.check_time()
            leftover = Leftover(variables, devices, node)
            terms.append((leftover.free_milli, sum(weights.values())))
            for shape, weight in weights.items():
                terms.append((leftover.fits(shape), -weight * least_milli(node, shape)))
    return weighted(terms)


def _shapes_on(variables: Variables, node: Node) -> dict[Shape, int]:
    """Shapes that the node hosts when empty, with their weights, without what cannot bind."""
    cpu_free = never_short(variables, node, "cpu_milli")
    memory_free = never_short(variables, node, "memory_mib")
    weights: dict[Shape, int] = {}
    for shape, weight in variables.problem.reference:
        strict = strictly_linked(shape)
        if hosts(node, strict):
            key = Shape(
                gpus=strict.gpus,
                share_milli=strict.share_milli,
                share_memory_mib=strict.share_memory_mib,
                share_group=strict.share_group,
                cpu_milli=0 if cpu_free else strict.cpu_milli,
                memory_mib=0 if memory_free else strict.memory_mib,
                gpu_models=strict.gpu_models,
                link=strict.link if strict.gpus > 1 else LinkRule.NONE,
            )
            weights[key] = weights.get(key, 0) + weight
    return weights


class Leftover:
    """What a node has left after the plan, as expressions."""

    def __init__(self, variables: Variables, devices: Devices, node: Node) -> None:
        self._variables = variables
        self._devices = devices
        self._node = node
        self._named = names_gpus(variables, node)
        self._state = variables.state(node)
        self._packs: dict[tuple[object, ...], Expr] = {}
        self._spare: dict[tuple[int, int], Expr] = {}
        self._over: dict[ResourceName, Expr] = {}

    @property
    def free_milli(self) -> Expr:
        """Thousandths of GPUs left in total."""
        loads = [
            (self._devices.load_milli(self._variables, self._node, gpu), -1)
            for gpu in range(self._node.n_gpus)
        ]
        cut = [(y, -GPU_MILLI) for y in self._devices.cut(self._node)]
        return weighted([*loads, *cut, *self._whole(-GPU_MILLI), (1, self._state.free_milli)])

    def _whole(self, factor: int) -> list[tuple[Expr, int]]:
        on_node = self._variables.on_node(self._node)
        return [(x, factor * role.shape.gpus) for _, role, x in on_node if role.shape.gpus]

    def fits(self, shape: Shape) -> Expr:
        """Most replicas of a shape that the node takes after the plan."""
        variables, node = self._variables, self._node
        most = fit(node, shape, self._state)
        if most == 0:
            return 0
        if not shape.cpu_milli and not shape.memory_mib:
            return self._gpu_room(shape)
        fits = variables.integer(
            f"fits[{node.name},{len(self._packs)}:{shape.gpus or 'share'}]",
            0,
            most,
            lambda view: fit(node, shape, self._after(view)),
        )
        self._packs[(shape, "fits")] = fits
        variables.require(weighted([(fits, 1), (self._gpu_room(shape), -1)]), None, 0)
        for resource in ("cpu_milli", "memory_mib"):
            amount = variables.problem.amount(shape, resource)
            left = variables.left(node, resource)
            if amount and left is not None:
                used = [
                    (x, variables.problem.amount(role.shape, resource))
                    for _, role, x in variables.on_node(node)
                ]
                self._keep_within(fits, amount, used, resource, left)
        return fits

    def _keep_within(
        self,
        fits: Expr,
        amount: int,
        used: Sequence[tuple[Expr, int]],
        resource: ResourceName,
        left: int,
    ) -> None:
        """Add ``amount * fits + used <= left``; where too much is used already, ``fits`` is 0."""
        variables, node = self._variables, self._node
        beyond = variables.overfull(node, resource)
        terms = [(fits, amount), *used]
        if beyond:
            if resource not in self._over:
                self._over[resource] = variables.boolean(
                    f"over[{node.name},{resource}]", partial(self._is_over, resource=resource)
                )
            over = self._over[resource]
            terms.append((over, -beyond))
            variables.require(weighted([(fits, amount), (over, left)]), None, left)
        variables.require(weighted(terms), None, left)

    def _is_over(self, view: PlanView, *, resource: ResourceName) -> int:
        on_node = view.on(self._node.name)
        used = sum(view.problem.amount(view.shape(p), resource) for p in on_node)
        return int(used > (self._variables.left(self._node, resource) or 0))

    def _after(self, view: PlanView) -> NodeState:
        name = self._node.name

        def read() -> NodeState:
            return apply(view.problem, {name: self._state}, view.on(name))[name]

        return view.remember(("after", name), read)

    def _gpu_room(self, shape: Shape) -> Expr:
        """Most replicas by GPUs alone."""
        if shape.is_share:
            return self._share_room(shape)
        if self._named:
            return self._pack(shape)
        if shape.link is LinkRule.REQUIRED and not self._node.topology.islands:
            return 0
        return self._room(shape, shape.gpus)

    def _room(self, shape: Shape, size: int) -> Expr:
        """``floor(idle GPUs left / size)`` as a variable, where GPUs are interchangeable."""
        idle = len(idle_allowed(self._node, shape, self._state))
        opened = [(o, -1) for o in self._devices.open.get(self._node.name, {}).values()]
        opened += [(y, -1) for y in self._devices.cut(self._node)]
        left = weighted([*self._whole(-1), *opened, (1, idle)])
        if size == 1:
            return left
        key = ("room", size)
        if key not in self._packs:
            room = self._variables.integer(
                f"room[{self._node.name},{size}]",
                0,
                idle // size,
                lambda view: len(idle_allowed(self._node, shape, self._after(view))) // size,
            )
            self._variables.require(weighted([(room, size), (left, -1)]), None, 0)
            self._packs[key] = room
        return self._packs[key]

    def _pack(self, shape: Shape) -> Expr:
        """Most disjoint sets of GPUs that are left, linked and of the right models."""
        key = ("pack", shape.gpus, shape.link, shape.gpu_models)
        if key in self._packs:
            return self._packs[key]
        node, variables = self._node, self._variables
        idle = idle_allowed(node, shape, self._state)
        if shape.link is not LinkRule.REQUIRED or shape.gpus == 1:
            left = total(self._gpu_left(gpu) for gpu in idle)
            pack: Expr = left
            if shape.gpus > 1:
                pack = variables.integer(
                    f"pack[{node.name},{len(self._packs)}]",
                    0,
                    len(idle) // shape.gpus,
                    lambda view: len(idle_allowed(node, shape, self._after(view))) // shape.gpus,
                )
                variables.require(weighted([(pack, shape.gpus), (left, -1)]), None, 0)
        else:
            pack = self._linked_pack(shape, idle)
        self._packs[key] = pack
        return pack

    def _gpu_left(self, gpu: int) -> Expr:
        """1 if an idle GPU is still idle after the plan."""
        taken = [(y, -1) for y in self._devices.taking(self._node, gpu)]
        opened = self._devices.open.get(self._node.name, {}).get(gpu)
        if opened is not None:
            taken.append((opened, -1))
        taken += [(y, -1) for y in self._devices.cut(self._node, gpu)]
        return weighted([*taken, (1, 1)])

    def _linked_pack(self, shape: Shape, idle: GpuSet) -> Expr:
        node, variables = self._node, self._variables
        sets = [g for g in combinations(idle, shape.gpus) if is_linked(node.topology, g)]
        packed = {
            gpus: variables.boolean(
                f"pack[{node.name}:{gpus},{len(self._packs)}]",
                partial(self._is_packed, shape=shape, sets=tuple(sets), gpus=gpus),
            )
            for gpus in sets
        }
        for gpu in idle:
            users = [(p, 1) for gpus, p in packed.items() if gpu in gpus]
            if users:
                variables.require(weighted([*users, (self._gpu_left(gpu), -1)]), None, 0)
        return total(packed.values())

    def _is_packed(
        self, view: PlanView, *, shape: Shape, sets: tuple[GpuSet, ...], gpus: GpuSet
    ) -> int:
        def pack() -> frozenset[GpuSet]:
            idle = set(idle_allowed(self._node, shape, self._after(view)))
            return frozenset(most_disjoint([s for s in sets if idle.issuperset(s)]))

        key = ("pack", self._node.name, shape.gpus, shape.gpu_models)
        return int(gpus in view.remember(key, pack))

    def _share_room(self, shape: Shape) -> Expr:
        """Shares of a size that still fit, GPU by GPU."""
        node = self._node
        opened = self._devices.open.get(node.name, {})
        terms: list[tuple[Expr, int]] = []
        constant = 0
        whole = 0
        for gpu in allowed_gpus(node, shape):
            milli = share_milli_on(node, shape, gpu)
            left = self._state.gpu_left[gpu]
            most = left // milli
            shared = any(
                gpu in counts for counts in self._devices.shares.get(node.name, {}).values()
            )
            idle = left == GPU_MILLI
            if not most:
                continue
            if idle and not self._named:
                constant += most  # as long as no whole-GPU replica or share takes it
                whole = most
                if gpu in opened:
                    terms += [(opened[gpu], -most), (self._spare_on(gpu, milli, opened[gpu]), 1)]
            elif not idle and not shared:
                constant += most
            else:
                terms.append((self._spare_on(gpu, milli, None), 1))
        if whole:
            terms += self._whole(-whole)
            terms += [(y, -whole) for y in self._devices.cut(node)]
        return weighted([*terms, (1, constant)])

    def _spare_on(self, gpu: int, milli: int, opened: Expr | None) -> Expr:
        """Shares of `milli` that still fit on one GPU (one that is open to shares, if said)."""
        key = (gpu, milli)
        if key in self._spare:
            return self._spare[key]
        node, variables = self._node, self._variables
        left = self._state.gpu_left[gpu]
        load = self._devices.load_milli(variables, node, gpu)
        spare = variables.integer(
            f"spare[{node.name}:{gpu},{milli}]",
            0,
            left // milli,
            self._spare_value(gpu, milli, opened is not None),
        )
        if opened is not None:
            variables.require(weighted([(spare, milli), (load, 1), (opened, -left)]), None, 0)
        else:
            taken = [(y, GPU_MILLI) for y in self._devices.taking(node, gpu)]
            taken += [(y, GPU_MILLI) for y in self._devices.cut(node, gpu)]
            variables.require(weighted([(spare, milli), (load, 1), *taken]), None, left)
        self._spare[key] = spare
        return spare

    def _spare_value(self, gpu: int, milli: int, by_slot: bool) -> Callable[[PlanView], int]:
        """Shares that fit after the plan, by GPU or, among interchangeable ones, by slot."""

        def value(view: PlanView) -> int:
            after = self._after(view).gpu_left
            if not by_slot:
                return after[gpu] // milli
            slots = self._state.idle_gpus
            shared = self._shared_gpus(view)
            by_load = sorted((g for g in slots if g in shared), key=lambda g: (after[g], g))
            place = slots.index(gpu)
            return after[by_load[place]] // milli if place < len(by_load) else 0

        return value

    def _shared_gpus(self, view: PlanView) -> set[int]:
        return {p.gpus[0] for p in view.on(self._node.name) if view.shape(p).is_share}


def most_disjoint(sets: list[GpuSet]) -> list[GpuSet]:
    """A largest family of pairwise disjoint sets, by branching on the first one."""
    if not sets:
        return []
    first, rest = sets[0], sets[1:]
    taken = [first, *most_disjoint([s for s in rest if not set(s) & set(first)])]
    if len(taken) * len(first) + len(first) > len({g for s in sets for g in s}):
        return taken  # nothing larger fits into these GPUs
    left_out = most_disjoint([s for s in rest if s != first])
    return max(taken, left_out, key=len)
