"""A cluster and a workload as prices see them: kinds of nodes, shapes, amounts in steps.

Shapes that differ in memory or links alone are one, and MIG instances have no price. GPUs are
counted in the largest step that divides every share and a whole GPU; milli-CPU in steps of which
the largest node has `CPU_STEPS`. What a node has is rounded down. What a shape takes is rounded up,
so that a packing that is found fits; or, for a bound, down too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from solver.cluster import GPU_MILLI, Node
from solver.fit import allowed_gpus, least_milli, refusals
from solver.workload import LinkRule, Shape

CPU_STEPS = 256
"""Steps of the largest node's CPU."""

NO_ACCESS = frozenset({"not-ready", "cordoned", "taint", "label", "model-mismatch"})
"""Refusals by which a shape cannot come to a node, whatever is left there."""

CPU_WORTH = 0.002
"""Worth of a milli-CPU of work without GPUs, in milli-GPU: it takes what GPUs can spare.

Were it worth as much as the CPU that GPUs come with, prices would keep CPU for it on nodes whose
GPUs need it: 0.5 costs 1.3 points of the GPUs on openb's cpu250.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """A shape on one kind of node: devices, and steps of each (`gpus` = 0: CPU alone)."""

    shape: int
    gpus: int
    gpu_steps: int
    cpu_steps: int


@dataclass(frozen=True, slots=True)
class Access:
    """What may run on a kind of node; kinds of nodes that admit the same shapes share it."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class NodeType:
    """Nodes that are alike to prices: who has access, devices, CPU (None: no limit), how many."""

    access: int
    gpus: int
    cpu_milli: int | None
    count: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Market:
    """Shapes with their demand (replicas) and node types.

    Parameters
    ----------
    bounds
        CPU of shapes is rounded down, so that what is worth most is an upper bound.
    """

    shapes: tuple[Shape, ...]
    demand: tuple[float, ...]
    worth_milli: tuple[float, ...]
    accesses: tuple[Access, ...]
    types: tuple[NodeType, ...]
    gpu_step_milli: int
    cpu_step_milli: int
    bounds: bool = False

    @property
    def capacity_milli(self) -> int:
        """Thousandths of GPUs of all nodes."""
        return GPU_MILLI * sum(kind.gpus * kind.count for kind in self.types)

    def cpu_steps(self, cpu_milli: int | None, factor: float = 1.0) -> int:
        """Steps of an amount of CPU that is left, times a factor; no limit is the most."""
        if cpu_milli is None:
            return CPU_STEPS
        return min(CPU_STEPS, int(cpu_milli * factor / self.cpu_step_milli + 1e-9))


def plain(shape: Shape) -> Shape:
    """The shape without what prices do not look at."""
    return replace(shape, memory_mib=0, link=LinkRule.NONE)


def make_market(
    nodes: Iterable[Node], workload: Sequence[tuple[Shape, float]], *, bounds: bool = False
) -> Market:
    """The market of a cluster (empty) for a workload, its demand scaled to 100 % of the GPUs.

    Parameters
    ----------
    workload
        Shapes and how often they come; only the proportions matter.
    bounds
        The demand is taken as it is, and CPU is rounded down: the value bounds that of any plan
        on nodes that say how much CPU they have.
    """
    there = sorted(
        Counter(node.kind for node in nodes if node.schedulable).items(),
        key=lambda pair: (pair[0].n_gpus, pair[0].cpu_milli or 0, str(pair[0].topology.name)),
    )
    counts: Counter[Shape] = Counter()
    for shape, count in workload:
        if not shape.slices:
            counts[plain(shape)] += count  # type: ignore[assignment]
    shapes = tuple(sorted(counts, key=repr))
    kinds = [kind for kind, _ in there]
    worth = tuple(_worth(shape, kinds) for shape in shapes)
    capacity = GPU_MILLI * sum(len(kind.usable_gpus) * count for kind, count in there)
    asked = sum(
        counts[shape] * w for shape, w in zip(shapes, worth, strict=True) if shape.wants_gpu
    )
    scale = capacity / asked if asked and not bounds else 1.0
    step = GPU_MILLI
    for kind in kinds:
        for shape in shapes:
            if shape.is_share and allowed_gpus(kind, shape):
                step = gcd(step, least_milli(kind, shape))
    most_cpu = max((kind.cpu_milli or 0 for kind in kinds), default=0)
    cpu_step = max(1, -(-most_cpu // CPU_STEPS))
    accesses: dict[Access, int] = {}
    types: Counter[tuple[int, int, int | None, tuple[str, ...]]] = Counter()
    for kind, count in there:
        found = access_of(kind, shapes, step, cpu_step, round_up=not bounds)
        access = accesses.setdefault(found, len(accesses))
        models = tuple(sorted({kind.topology.gpu_models[gpu] or "" for gpu in kind.usable_gpus}))
        types[access, len(kind.usable_gpus), kind.cpu_milli, models] += count
    return Market(
        shapes,
        tuple(counts[shape] * scale for shape in shapes),
        worth,
        tuple(accesses),
        tuple(NodeType(a, g, c, n, models) for (a, g, c, models), n in types.items()),
        step,
        cpu_step,
        bounds,
    )


def access_of(
    node: Node, shapes: Sequence[Shape], gpu_step: int, cpu_step: int, *, round_up: bool = True
) -> Access:
    """Which of the shapes may run on a node, and what they take there."""
    items = []
    for k, shape in enumerate(shapes):
        if NO_ACCESS.intersection(refusals(node, shape)):
            continue
        if shape.wants_gpu and not allowed_gpus(node, shape):
            continue
        gpus = 1 if shape.is_share else shape.gpus
        milli = least_milli(node, shape) if shape.is_share else GPU_MILLI if gpus else 0
        cpu = -(-shape.cpu_milli // cpu_step) if round_up else shape.cpu_milli // cpu_step
        if cpu <= CPU_STEPS and (gpus or cpu):
            items.append(Item(k, gpus, -(-milli // gpu_step), cpu))
    return Access(tuple(items))


def _worth(shape: Shape, kinds: Sequence[Node]) -> float:
    if not shape.wants_gpu:
        return CPU_WORTH * shape.cpu_milli
    amounts = [least_milli(kind, shape) for kind in kinds if allowed_gpus(kind, shape)]
    return float(min(amounts, default=shape.gpus * GPU_MILLI or shape.share_milli))
