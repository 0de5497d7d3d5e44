r"""The most GPU-milli that devices hold when shares keep to one device each, and which pods do.

With ``z_s`` pods of size s that start, ``x_p`` devices filled by pattern p, for devices by what is
left of them (r thousandths; the whole ones are r = 1000)::

    max  sum_s milli_s z_s
    s.t. z_s <= demand_s;   z_s <= sum_p a_sp x_p               for sizes that live on one device
         sum_{p of r} x_p (+ sum_s gpus_s z_s if r = 1000) <= n_r

CPU, memory, models and nodes are dropped, so this bounds the problem itself. From the duals of the
linear program, rounded to integers ``y_s``, follow exactly (in thousandths of a milli-GPU)::

    mu_r = max_p y a_p,    L = sum_s demand_s (1000 milli_s - y_s)^+ + sum_r n_r mu_r

and no plan that uses pattern p is worth more than ``L - (mu_r - y a_p)``: the integer program needs
only the patterns that cost little, and what was left out bounds the rest. All values are multiples
of a grain (the gcd of the sizes), to which bounds are rounded down.

References
----------
P. C. Gilmore and R. E. Gomory, "A linear programming approach to the cutting-stock problem",
Operations Research 9(6), 1961: patterns. G. L. Nemhauser and L. A. Wolsey, "Integer and
Combinatorial Optimization", 1988, II.5.2: fixing variables by reduced cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ortools.sat.python import cp_model

from solver.aggregate.device_patterns import Pattern, maximal_patterns
from solver.cluster import GPU_MILLI
from solver.linear import Expr, total, weighted
from solver.lp import LinearProgram
from solver.search import Effort, NoSolutionError, Outcome, SearchLimits, search

MOST_PATTERNS = 20_000
"""Patterns of all kinds of devices together; with more the program is not made."""

MOST_WORK = 5.0
"""Deterministic time of one search, which is the same on every machine."""

SCALE = 1000
"""Prices are integers, in thousandths of a milli-GPU."""

CHEAP_GRAINS = 4
"""Patterns are used by the integer program if they cost no more than so many grains..."""

ROUNDS = 3
"""...and if that is not enough for a proof, as much as a proof needs; so many times at most."""


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """What a pod takes of GPUs: so many devices, so many thousandths of each."""

    gpus: int
    milli: int

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True)
class Use:
    """So many devices with `left` thousandths are filled by a multiset of sizes."""

    left: int
    sizes: tuple[tuple[Size, int], ...]
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """How devices are cut up.

    Parameters
    ----------
    value, bound
        GPU-milli that start, as far as devices go, and what nothing exceeds.
    starts
        Pods that start, by size.
    uses
        Where those that live on one device go.
    """

    value: int
    bound: int
    starts: Mapping[Size, int]
    uses: tuple[Use, ...]


def cut_devices(
    demand: Mapping[Size, int], devices: Mapping[int, int], time_s: float, seed: int = 1
) -> Cutting | None:
    """The best way to cut devices up, and its proof.

    Parameters
    ----------
    demand
        Pods by size.
    devices
        Devices by the thousandths that are left of them.

    Returns
    -------
    Cutting or None
        None where there are too many patterns or too little time.
    """
    program = _Program.of(demand, devices)
    return None if program is None else program.solve(time_s, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuChoice:
    """Pods that start, chosen for little CPU.

    Parameters
    ----------
    cpu_milli
        No choice that is worth as much takes less.
    starts
        Pods by size and CPU.
    """

    cpu_milli: int
    starts: Mapping[tuple[Size, int], int]
    cutting: Cutting


def least_cpu(
    demand: Mapping[tuple[Size, int], int],
    devices: Mapping[int, int],
    value: int,
    time_s: float,
    seed: int = 1,
) -> CpuChoice | None:
    """The pods with least CPU among all choices that start at least `value` GPU-milli.

    What they leave of the CPU of all nodes bounds what CPU-only pods get.

    Parameters
    ----------
    demand
        Pods by size and milli-CPU.

    Returns
    -------
    CpuChoice or None
        None where there are too many patterns, too little time, or no such choice.
    """
    by_size: Counter[Size] = Counter()
    for (size, _), count in demand.items():
        by_size[size] += count
    program = _Program.of(by_size, devices)
    return None if program is None else program.least_cpu(demand, value, time_s, seed)


@dataclass(frozen=True, slots=True)
class _Program:
    single: tuple[Size, ...]
    several: tuple[Size, ...]
    demand: Mapping[Size, int]
    devices: Mapping[int, int]
    patterns: tuple[tuple[int, Pattern], ...]
    grain: int

    @classmethod
    def of(cls, demand: Mapping[Size, int], devices: Mapping[int, int]) -> _Program | None:
        wanted = {size: count for size, count in demand.items() if count > 0}
        devices = {GPU_MILLI: 0, **devices}  # also where none is whole: pods of several want some
        single = tuple(sorted(size for size in wanted if size.gpus == 1))
        patterns: list[tuple[int, Pattern]] = []
        for left in sorted(left for left, count in devices.items() if left and count):
            few = MOST_PATTERNS - len(patterns)
            found = maximal_patterns(left, [size.milli for size in single], few)
            if found is None:
                return None
            patterns += [(left, pattern) for pattern in found]
        return cls(
            single,
            tuple(sorted(size for size in wanted if size.gpus > 1)),
            wanted,
            devices,
            tuple(patterns),
            math.gcd(*(size.total_milli for size in wanted)) or 1,
        )

    def solve(self, time_s: float, seed: int) -> Cutting | None:
        """See `cut_devices`."""
        if not self.demand:
            return Cutting(value=0, bound=0, starts={}, uses=())
        prices = self._prices(time_s)
        if prices is None:
            return None
        proved, costs = self._costs(prices)
        bound = self._rounded(proved)
        limit = CHEAP_GRAINS * self.grain * SCALE
        best: Cutting | None = None
        for _ in range(ROUNDS):
            chosen = [p for p, cost in enumerate(costs) if cost <= limit]
            left_out = min((cost for cost in costs if cost > limit), default=None)
            found = self._search(chosen, time_s, seed)
            if found is None:
                break
            other = -1 if left_out is None else self._rounded(proved - left_out)
            bound = min(bound, max(found.bound, other))
            if best is None or found.value > best.value:
                best = found
            if best.value >= bound or found.value < found.bound:
                break
            limit = proved - SCALE * (best.value + self.grain)
        if best is None:
            return None
        return Cutting(value=best.value, bound=bound, starts=best.starts, uses=best.uses)

    def _rounded(self, scaled: int) -> int:
        """Down to a whole number of grains."""
        return scaled // (SCALE * self.grain) * self.grain

    def _prices(self, time_s: float) -> tuple[int, ...] | None:
        """Prices of the sizes that live on one device, from the linear program."""
        lp = LinearProgram()
        z = {size: lp.column(float(count)) for size, count in self.demand.items()}
        x = [lp.column(float(self.devices[left])) for left, _ in self.patterns]
        for place, size in enumerate(self.single):
            supply = [
                (column, -float(pattern[place]))
                for column, (_, pattern) in zip(x, self.patterns, strict=True)
                if pattern[place]
            ]
            lp.row([(z[size], 1.0), *supply], upper=0.0)
        for left, count in self.devices.items():
            use = [(c, 1.0) for c, (r, _) in zip(x, self.patterns, strict=True) if r == left]
            if left == GPU_MILLI:
                use += [(z[size], float(size.gpus)) for size in self.several]
            lp.row(use, upper=float(count))
        found = lp.optimise(
            {column: float(size.total_milli) for size, column in z.items()}, time_s, sense="max"
        )
        if found is None:
            return None
        pairs = zip(self.single, found.duals, strict=False)
        return tuple(min(max(round(SCALE * y), 0), SCALE * s.milli) for s, y in pairs)

    def _costs(self, prices: tuple[int, ...]) -> tuple[int, list[int]]:
        """L, and what every pattern costs of it, as exact integers."""
        worth = [
            sum(price * count for price, count in zip(prices, pattern, strict=True))
            for _, pattern in self.patterns
        ]
        mu = dict.fromkeys(self.devices, 0)
        for (left, _), value in zip(self.patterns, worth, strict=True):
            mu[left] = max(mu[left], value)
        proved = sum(count * mu[left] for left, count in self.devices.items())
        for size, price in zip(self.single, prices, strict=True):
            proved += self.demand[size] * (SCALE * size.milli - price)
        for size in self.several:
            gain = SCALE * size.total_milli - size.gpus * mu[GPU_MILLI]
            proved += self.demand[size] * max(0, gain)
        costs = [mu[left] - v for (left, _), v in zip(self.patterns, worth, strict=True)]
        return proved, costs

    def _search(self, chosen: list[int], time_s: float, seed: int) -> Cutting | None:
        """The integer program with some of the patterns."""
        model = _Model(self, chosen, {(size, 0): count for size, count in self.demand.items()})
        worth = weighted((z, s.total_milli // self.grain) for (s, _), z in model.z.items())
        found = model.search(worth, "max", time_s, seed)
        if found is None or found.bound is None:
            return None
        return model.cutting(found, found.bound * self.grain)

    def least_cpu(
        self, wanted: Mapping[tuple[Size, int], int], value: int, time_s: float, seed: int
    ) -> CpuChoice | None:
        """See `least_cpu`."""
        prices = self._prices(time_s)
        if prices is None:
            return None
        proved, costs = self._costs(prices)
        # What costs more is in no plan that is worth as much.
        chosen = [p for p, cost in enumerate(costs) if cost <= proved - SCALE * value]
        model = _Model(self, chosen, wanted)
        model.keep(value)
        found = model.search(weighted((z, cpu) for (_, cpu), z in model.z.items()), "min", time_s,
                             seed)  # fmt: skip
        if found is None or found.bound is None:
            return None
        return CpuChoice(
            cpu_milli=found.bound,
            starts={kind: found.value_of(z) for kind, z in model.z.items()},
            cutting=model.cutting(found, value),
        )


class _Model:
    """The integer program over some patterns, with pods by size and CPU."""

    def __init__(
        self, program: _Program, chosen: list[int], wanted: Mapping[tuple[Size, int], int]
    ) -> None:
        self._program, self._chosen = program, chosen
        self._model = model = cp_model.CpModel()
        devices, patterns = program.devices, program.patterns
        self.z = {
            (s, cpu): model.new_int_var(0, n, f"z[{s.gpus}x{s.milli},{cpu}]")
            for (s, cpu), n in wanted.items()
            if n > 0
        }
        self.x = {p: model.new_int_var(0, devices[patterns[p][0]], f"x[{p}]") for p in chosen}
        for place, size in enumerate(program.single):
            slots = weighted((self.x[p], patterns[p][1][place]) for p in chosen)
            model.add(total(z for (s, _), z in self.z.items() if s == size) <= slots)
        several = [(z, s.gpus) for (s, _), z in self.z.items() if s.gpus > 1]
        for left, count in devices.items():
            use: list[Expr] = [self.x[p] for p in chosen if patterns[p][0] == left]
            if left == GPU_MILLI and several:
                use.append(weighted(several))
            if use:
                model.add(total(use) <= count)

    def keep(self, value: int) -> None:
        """At least so many GPU-milli start."""
        self._model.add(weighted((z, s.total_milli) for (s, _), z in self.z.items()) >= value)

    def search(self, objective: Expr, sense: str, time_s: float, seed: int) -> Outcome | None:
        """The best solution found, with its bound; None where there is none in time.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C.
        """
        limits = SearchLimits(
            effort=Effort.QUICK,
            time_s=time_s,
            deterministic=MOST_WORK,
            workers=1,
            seed=seed,
            gap=0.0,
        )
        try:
            found = search(self._model, objective, sense, limits)
        except NoSolutionError:
            return None
        if found.interrupted:
            raise KeyboardInterrupt
        return found if found.found else None

    def cutting(self, found: Outcome, bound: int) -> Cutting:
        """A solution as what starts and where it goes."""
        starts: Counter[Size] = Counter()
        for (size, _), column in self.z.items():
            starts[size] += found.value_of(column)
        program = self._program
        uses = (
            Use(
                program.patterns[p][0],
                tuple((s, n) for s, n in zip(program.single, program.patterns[p][1], strict=True)
                      if n),
                found.value_of(self.x[p]),
            )
            for p in self._chosen
        )  # fmt: skip
        return Cutting(
            value=sum(size.total_milli * count for size, count in starts.items()),
            bound=bound,
            starts=dict(starts),
            uses=tuple(use for use in uses if use.devices),
        )
