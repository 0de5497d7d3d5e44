"""Device patterns of one problem: bounds of its steps, and plans, where pods ask for shares.

`DevicePatterns.of` says where they apply: somebody asks for a share, and every share is the same
thousandths on any GPU. A bound speaks of any such problem; plans are made where every pod may start
by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from solver.aggregate.bundles import Bundler, loose_pods, size_of
from solver.aggregate.packer import Packer
from solver.aggregate.pattern_bound import CpuChoice, Cutting, Size, cut_devices, least_cpu
from solver.problem import Problem, RoleKey
from solver.stock import NO_LIMIT, Stock
from solver.tiers import Ruler, Step, StepKind

PACKING_PART = 0.2
"""Part of the time left that one program may take before there is a plan."""

MOST_S = 10.0
"""Seconds for one program at most: where it takes longer, it proves no more than the relaxation."""


class DevicePatterns:
    """The cutting of the devices of a problem, level by level."""

    def __init__(self, ruler: Ruler, stock: Stock, seed: int) -> None:
        self._problem = ruler.problem
        self._ruler = ruler
        self._seed = seed
        open_ = [n for n, node in enumerate(stock.nodes) if node.schedulable]
        self._devices = Counter(
            left for n in open_ for left in stock.states[n].gpu_left if left > 0
        )
        self._cpu_milli = min(NO_LIMIT, sum(int(stock.cpu[n]) for n in open_))
        self._cuttings: dict[int, Cutting | None] = {}
        self._choices: dict[tuple[int, int], CpuChoice | None] = {}
        self._packings: list[Packer] | None = None

    @classmethod
    def of(cls, ruler: Ruler, stock: Stock, seed: int) -> DevicePatterns | None:
        """The patterns of a problem; None where they say nothing."""
        shapes = {role.shape for _, role in ruler.problem.roles()}
        if any(s.slices or s.share_memory_mib or s.compute_milli for s in shapes):
            return None
        if any(state.extra_compute for state in stock.states):
            return None
        if not any(shape.is_share for shape in shapes):
            return None
        return cls(ruler, stock, seed)

    def bound(self, step: Step, values: Mapping[StepKind, int], time_s: float) -> int | None:
        """What no plan exceeds in a step that is as good as ours in those before.

        Parameters
        ----------
        values
            What our plan has in the steps of the same level, by kind.
        """
        if step.level is None or step.kind not in ("started", "cpu-only"):
            return None
        time_s = min(time_s, MOST_S)
        cutting = self._cutting(step.level, time_s)
        if cutting is None or step.kind == "started":
            return None if cutting is None else cutting.bound
        if self._cpu_milli >= NO_LIMIT:
            return None
        choice = self._choice(step.level, values["started"], time_s)
        return None if choice is None else max(0, self._cpu_milli - choice.cpu_milli)

    def packings(self, deadline_s: float) -> Sequence[Packer]:
        """Plans: of the oldest pods and, where CPU is short for it, of those with little CPU.

        Made at the first call; the packings go their own way from there.
        """
        if self._packings is None:
            self._packings = list(self._packed(deadline_s))
        return self._packings

    def _packed(self, deadline_s: float) -> Iterator[Packer]:
        problem = self._problem
        pods = loose_pods(problem)
        if not pods:
            return
        level = pods[0].job.priority
        cutting = self._cutting(level, _part(deadline_s))
        if cutting is None:
            return
        packer = Bundler(problem, pods, deadline_s).packed(cutting)
        yield packer
        if _all_cpu_only(problem, packer):
            return
        choice = self._choice(level, cutting.value, _part(deadline_s))
        if choice is not None:
            yield Bundler(problem, pods, deadline_s).packed(choice.cutting, choice.starts)

    def _choice(self, level: int, value: int, time_s: float) -> CpuChoice | None:
        key = level, value
        if key not in self._choices:
            demand = self._demand(level)
            self._choices[key] = least_cpu(demand, self._devices, value, time_s, self._seed)
        return self._choices[key]

    def _cutting(self, level: int, time_s: float) -> Cutting | None:
        if level not in self._cuttings:
            demand: Counter[Size] = Counter()
            for (size, _), count in self._demand(level).items():
                demand[size] += count
            self._cuttings[level] = cut_devices(demand, self._devices, time_s, self._seed)
        return self._cuttings[level]

    def _demand(self, level: int) -> Counter[tuple[Size, int]]:
        """Replicas that count as started, by size and CPU."""
        demand: Counter[tuple[Size, int]] = Counter()
        for job, role in self._problem.roles():
            if job.priority != level or not role.shape.wants_gpu:
                continue
            room = self._ruler.startable[RoleKey(job.name, role.name)]
            wanted = role.min_replicas if job.gang else role.replicas
            demand[size_of(role.shape), role.shape.cpu_milli] += min(room, wanted)
        return demand


def _part(deadline_s: float) -> float:
    return min(MOST_S, max(0.0, deadline_s - time.monotonic()) * PACKING_PART)


def _all_cpu_only(problem: Problem, packer: Packer) -> bool:
    return all(job.name in packer.seats for job in problem.jobs if job.cpu_only)
