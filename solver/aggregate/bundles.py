"""Puts a cutting of devices onto named nodes: which pods share a device, and where it is.

Pods of several GPUs come first, each on the tightest node. What shares a device is a bundle with
the CPU and memory of all its pods, and bundles are spread so that CPU and memory run out nowhere
before the devices do. CPU-only pods come last and take what is left.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.aggregate.packer import Packer, Seats
from solver.aggregate.pattern_bound import Cutting, Size
from solver.cluster import GPU_MILLI
from solver.problem import Problem
from solver.stock import Floats, Seat, Stock
from solver.workload import Job, LinkRule, Role, Shape


@dataclass(frozen=True, slots=True)
class Pod:
    """One replica that starts by itself."""

    job: Job
    role: Role

    @property
    def shape(self) -> Shape:
        """What it asks for."""
        return self.role.shape


@dataclass(slots=True)
class Bundle:
    """Pods that share a device of which `left` thousandths are there for them."""

    left: int
    slots: dict[Size, int]
    pods: list[Pod] = field(default_factory=list)
    load: float = 0.0


def size_of(shape: Shape) -> Size:
    """What a shape takes of GPUs."""
    return Size(1, shape.share_milli) if shape.is_share else Size(shape.gpus, GPU_MILLI)


def loose_pods(problem: Problem) -> list[Pod] | None:
    """The replicas of all jobs, oldest first, where each may start anywhere by itself.

    None where they may not: gangs of several, rules of place, limits of queues, levels, slices.
    """
    if len({job.priority for job in problem.jobs}) > 1:
        return None
    if any(queue.limit for queue in problem.queues):
        return None
    for job, role in problem.roles():
        gang = job.gang and (job.replicas > 1 or job.start_group is not None)
        shape = role.shape
        ruled = job.topology is not None or job.spread is not None or role.held
        if gang or ruled or shape.slices or shape.share_memory_mib or shape.compute_milli:
            return None
        if shape.link is not LinkRule.NONE and shape.gpus > 1:
            return None
    return [Pod(job, role) for job, role in problem.roles() for _ in range(role.replicas)]


class Bundler:
    """Makes one plan of a cutting.

    Parameters
    ----------
    deadline_s
        `time.monotonic()` at which to stop.
    """

    def __init__(self, problem: Problem, pods: Sequence[Pod], deadline_s: float) -> None:
        self._problem = problem
        self._pods = pods
        self._deadline_s = deadline_s
        self._stock = Stock(problem)
        self._seats: dict[str, Seats] = {}
        devices = max(1, int(self._stock.idle.sum()))
        self._per_cpu = max(1.0, float(self._stock.cpu.sum()) / devices)
        self._per_memory = max(1.0, float(self._stock.memory.sum()) / devices)

    def packed(
        self, cutting: Cutting, starts: Mapping[tuple[Size, int], int] | None = None
    ) -> Packer:
        """The plan, with those pods too that find room beside it.

        Parameters
        ----------
        starts
            How many pods start by size and CPU; None takes the oldest of every size.
        """
        chosen, others = self._choose(cutting, starts)
        several = [pod for pod in chosen if size_of(pod.shape).gpus > 1]
        left_over = self._one_by_one(several)
        single = [pod for pod in chosen if size_of(pod.shape).gpus == 1]
        bundles, unbundled = self._bundle(cutting, single)
        for bundle in sorted(bundles, key=self._hungry_first):
            if self._late() or not self._put(bundle):
                left_over += bundle.pods
        self._one_by_one([*left_over, *unbundled])
        self._one_by_one(others)
        self._one_by_one(pod for pod in self._pods if not pod.shape.wants_gpu)
        packer = Packer(self._problem)
        for name, seats in self._seats.items():
            packer.restore(self._problem.job_by_name[name], seats)
        return packer

    def _choose(
        self, cutting: Cutting, starts: Mapping[tuple[Size, int], int] | None
    ) -> tuple[list[Pod], list[Pod]]:
        """Which pods start, the oldest of those that are alike, and the others."""
        left: Counter[Size | tuple[Size, int]] = Counter(cutting.starts)
        if starts is not None:
            left = Counter(starts)
        chosen: list[Pod] = []
        others: list[Pod] = []
        for pod in self._pods:
            if pod.shape.wants_gpu:
                size = size_of(pod.shape)
                kind = size if starts is None else (size, pod.shape.cpu_milli)
                (chosen if left[kind] > 0 else others).append(pod)
                left[kind] -= 1
        return chosen, others

    # -- bundles ------------------------------------------------------------------------------

    def _bundle(self, cutting: Cutting, pods: Sequence[Pod]) -> tuple[list[Bundle], list[Pod]]:
        """Pods in the slots of the patterns; those that found none.

        The hungriest pod goes to the bundle with least in it; pods for the same few nodes together.
        """
        bundles = [
            Bundle(use.left, dict(use.sizes)) for use in cutting.uses for _ in range(use.devices)
        ]
        open_: dict[Size, list[Bundle]] = defaultdict(list)
        for bundle in bundles:
            for size in bundle.slots:
                open_[size].append(bundle)
        by_size: dict[Size, list[Pod]] = defaultdict(list)
        for pod in pods:
            by_size[size_of(pod.shape)].append(pod)
        unbundled: list[Pod] = []
        for size in sorted(by_size, reverse=True):
            slots = [b for b in open_[size] for _ in range(b.slots[size])]
            slots.sort(key=lambda b: (self._narrow(b.pods), b.load))
            alike = sorted(by_size[size], key=lambda pod: (self._narrow([pod]), -self._load(pod)))
            for pod, bundle in zip(alike, slots, strict=False):
                bundle.pods.append(pod)
                bundle.load += self._load(pod)
            unbundled += alike[len(slots) :]
        return [bundle for bundle in bundles if bundle.pods], unbundled

    def _narrow(self, pods: Iterable[Pod]) -> int:
        """How few nodes all of these can be on: ascending, the fewest first."""
        return int(self._hosting(pods).sum())

    def _hosting(self, pods: Iterable[Pod]) -> NDArray[np.bool_]:
        mask = np.ones(len(self._stock.nodes), dtype=bool)
        for shape in {pod.shape for pod in pods}:
            mask = mask & self._stock.hosting(shape)
        return mask

    def _load(self, pod: Pod) -> float:
        """CPU or memory, whichever is more, in what a device comes with on average."""
        cpu, memory = pod.shape.cpu_milli, pod.shape.memory_mib
        return max(cpu / self._per_cpu, memory / self._per_memory)

    def _hungry_first(self, bundle: Bundle) -> tuple[float, float]:
        cpu, memory = _amounts(bundle.pods)
        hunger = max(cpu / self._per_cpu, memory / self._per_memory)
        return (self._narrow(bundle.pods), -hunger)

    def _put(self, bundle: Bundle) -> bool:
        """The bundle on the node that has most left for each of its devices, if there is one."""
        stock = self._stock
        cpu, memory = _amounts(bundle.pods)
        whole = bundle.left == GPU_MILLI
        fits = (stock.idle > 0) if whole else (stock.milli >= bundle.left)
        fits &= self._hosting(bundle.pods) & (stock.cpu >= cpu) & (stock.memory >= memory)
        nodes = np.flatnonzero(fits)
        for n in nodes[np.argsort(-self._rest(nodes), kind="stable")]:
            gpus = stock.states[n].gpu_left
            for device in (g for g, left in enumerate(gpus) if left == bundle.left):
                if self._seated(bundle.pods, int(n), frozenset([device])):
                    return True
        return False

    def _rest(self, nodes: NDArray[np.intp]) -> Floats:
        """What every device of a node has for itself, of the scarcer of CPU and memory."""
        stock = self._stock
        cpu, memory = stock.cpu[nodes] / self._per_cpu, stock.memory[nodes] / self._per_memory
        rest: Floats = np.minimum(cpu, memory) / np.maximum(stock.idle[nodes], 1)
        return rest

    # -- seats --------------------------------------------------------------------------------

    def _one_by_one(self, pods: Iterable[Pod]) -> list[Pod]:
        """Seat pods where they leave least, the largest and hungriest first; those left out."""
        order = sorted(
            pods, key=lambda pod: (-size_of(pod.shape).total_milli, -pod.shape.cpu_milli)
        )
        out: list[Pod] = []
        hopeless: set[Shape] = set()
        for pod in order:
            if pod.shape in hopeless or self._late() or not self._seat_tightly(pod):
                hopeless.add(pod.shape)
                out.append(pod)
        return out

    def _seat_tightly(self, pod: Pod) -> bool:
        stock, shape = self._stock, pod.shape
        nodes = np.flatnonzero(stock.room(shape) > 0)
        left = stock.milli[nodes] if shape.wants_gpu else np.zeros(len(nodes))
        order = np.lexsort((stock.cpu[nodes], left))
        return any(self._seated([pod], int(n), None) for n in nodes[order])

    def _seated(self, pods: Sequence[Pod], n: int, gpus: frozenset[int] | None) -> bool:
        """Let all pods take seats on one node; or nothing changes."""
        mark = self._stock.mark()
        seats: list[Seat] = []
        for pod in pods:
            seat = self._stock.seat(n, pod.shape, gpus if pod.shape.wants_gpu else None)
            if seat is None:
                self._stock.roll_back(mark)
                return False
            seats.append(seat)
        for pod, seat in zip(pods, seats, strict=True):
            self._seats.setdefault(pod.job.name, {}).setdefault(pod.role.name, []).append(seat)
        return True

    def _late(self) -> bool:
        return time.monotonic() > self._deadline_s


def _amounts(pods: Iterable[Pod]) -> tuple[int, int]:
    shapes = [pod.shape for pod in pods]
    return sum(s.cpu_milli for s in shapes), sum(s.memory_mib for s in shapes)
