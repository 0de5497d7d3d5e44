"""Planning ahead: how a fleet of GPUs is cut so that it admits the most of a demand that varies.

The geometry is chosen once, before the demand is known; what is admitted is decided afterwards, in
each of some drawn scenarios s::

    sum_g cut[t, g] = GPUs of model t                     (g: a geometry, or the GPU left whole)
    sum_v serve[s, w, v] >= sum_k n_kw * admit[s, k]      (w: a wish, v: what can serve it)
    sum_w serve[s, w, v] <= sum_g have_gv * cut[t, g]
    value = mean over s of sum_k weight_k * admit[s, k],  admit[s, k] <= demand[s, k]

A wish may be served by more than it asks for: a 1g by a 2g, or by a whole GPU. Otherwise fleets
that are cut in one way only would look worse than they are. Instances are counted over the fleet,
so the slices of one item need not be on one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ortools.sat.python import cp_model

from solver.cluster import GPU_MILLI
from solver.linear import total, weighted
from solver.problem import Problem
from solver.search import Effort, SearchLimits, search
from solver.slices import Geometry, geometries
from solver.state import initial_states
from solver.workload import Slice
from topology.mig.layouts import Instance, Layout
from topology.mig.tables import MigTable

WHOLE = "whole"
"""What serves a wish for a whole GPU, and the geometry of a GPU that is not cut."""

BALANCED: Mapping[int, Mapping[str, int]] = {
    8: {"1g": 2, "2g": 1, "3g": 1},
    4: {"1g": 2, "2g": 1},
    12: {"1g": 2, "2g": 1},
}
"""By memory slots: the geometry that mig-parted's shipped configs call ``all-balanced``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One kind of demand.

    Parameters
    ----------
    slices, gpus
        What one of it takes: slices with their number, or whole GPUs.
    count
        How many are wanted on average.
    weight
        What admitting one is worth.
    variation_ratio
        How far the number goes up and down: uniform within this part of `count`.
    """

    name: str
    slices: tuple[tuple[Slice, int], ...] = ()
    gpus: int = 0
    count: int = 1
    weight: int = 1
    variation_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A fleet's geometry and what it admits.

    Parameters
    ----------
    geometry
        By model: each layout (empty: whole) with the number of GPUs.
    admitted_ratio
        Weighted demand that is admitted, mean over the scenarios, of all that is wanted.
    bound_ratio
        What no fleet can exceed in these scenarios; None where the geometry was given.
    """

    name: str
    geometry: tuple[tuple[str, tuple[tuple[Layout, int], ...]], ...]
    admitted_ratio: float
    bound_ratio: float | None = None


def scenarios(items: Sequence[Item], number: int, seed: int) -> list[tuple[int, ...]]:
    """Drawn demands, one count per item; without any variation there is only one."""
    if not any(item.variation_ratio for item in items):
        return [tuple(item.count for item in items)]
    random = Random(seed)
    return [
        tuple(
            max(0, round(item.count * (1 + random.uniform(-1, 1) * item.variation_ratio)))
            for item in items
        )
        for _ in range(number)
    ]


def best_fleet(
    gpus: Mapping[MigTable, int],
    items: Sequence[Item],
    *,
    draws: int = 10,
    seed: int = 1,
    time_s: float = 30.0,
    workers: int | None = None,
    gap: float = 0.0,
) -> FleetPlan:
    """The geometry that admits the most expected demand, with the bound proved for it."""
    return _Model(gpus, items, scenarios(items, draws, seed)).solve(
        "solver", None, SearchLimits(
            effort=Effort.THOROUGH, time_s=time_s, deterministic=None, workers=workers,
            seed=seed, gap=gap,
        ),
    )  # fmt: skip


def static_fleets(
    gpus: Mapping[MigTable, int],
    items: Sequence[Item],
    *,
    draws: int = 10,
    seed: int = 1,
    time_s: float = 30.0,
    workers: int | None = None,
) -> tuple[FleetPlan, ...]:
    """What ``all 1g``, ``balanced`` and ``whole`` fleets admit in the same scenarios."""
    drawn = scenarios(items, draws, seed)
    limits = SearchLimits(
        effort=Effort.THOROUGH, time_s=time_s, deterministic=None, workers=workers, seed=seed, gap=0
    )
    found = []
    for name, families in (("all 1g", None), ("balanced", BALANCED), ("whole", {})):
        given: dict[MigTable, dict[Layout, int]] = {}
        for table, number in gpus.items():
            wanted = {"1g": table.compute} if families is None else families.get(table.slots, {})
            given[table] = {layout_of(table, wanted): number}
        found.append(_Model(gpus, items, drawn).solve(name, given, limits))
    return tuple(found)


def held_out(
    plan: FleetPlan,
    gpus: Mapping[MigTable, int],
    items: Sequence[Item],
    *,
    draws: int = 10,
    seed: int = 2,
    time_s: float = 30.0,
    workers: int | None = None,
) -> FleetPlan:
    """The same fleet in scenarios that it was not chosen for; `seed` is not that of the choice.

    A fleet is the best one for the scenarios that it was planned with, and a little less than that
    for others, so beside fleets that nothing was planned for it is to be judged by others.
    """
    ways = dict(plan.geometry)
    given = {table: dict(ways.get(table.model, ())) for table in gpus}
    limits = SearchLimits(
        effort=Effort.THOROUGH, time_s=time_s, deterministic=None, workers=workers, seed=seed, gap=0
    )
    return _Model(gpus, items, scenarios(items, draws, seed)).solve(plan.name, given, limits)


def layout_of(table: MigTable, families: Mapping[str, int]) -> Layout:
    """A layout with so many instances of each family of profiles."""
    profiles = [p for p in table.profiles if families.get(p.family)]
    wanted = {p.name: families[p.family] for p in profiles}
    for way in geometries(table, (), (), tuple(profiles), False):
        counted = Counter(instance.profile for instance in way.layout)
        if all(counted[name] >= count for name, count in wanted.items()):
            kept: list[Instance] = []
            for name, count in wanted.items():
                kept += [i for i in reversed(way.layout) if i.profile == name][:count]
            return tuple(sorted(kept))
    return ()


class _Model:
    """Variables of one fleet; built anew for each answer."""

    def __init__(
        self, gpus: Mapping[MigTable, int], items: Sequence[Item], drawn: list[tuple[int, ...]]
    ) -> None:
        self._gpus = gpus
        self._items = items
        self._drawn = drawn
        self._model = cp_model.CpModel()
        self._cuts: dict[MigTable, list[tuple[Layout, cp_model.IntVar]]] = {}
        self._worth: list[tuple[cp_model.IntVar, int]] = []

    def solve(
        self,
        name: str,
        given: Mapping[MigTable, Mapping[Layout, int]] | None,
        limits: SearchLimits,
    ) -> FleetPlan:
        for table, number in self._gpus.items():
            ways = dict.fromkeys(self._layouts(table), 0) if given is None else given[table]
            counts = [
                (layout, self._model.new_int_var(least, number, f"cut[{table.model},{place}]"))
                for place, (layout, least) in enumerate(ways.items())
            ]
            self._model.add(total(count for _, count in counts) == number)
            self._cuts[table] = counts
        for place, demand in enumerate(self._drawn):
            self._add_scenario(place, demand)
        outcome = search(self._model, weighted(self._worth), "max", limits)
        if not outcome.found:
            return FleetPlan(name=name, geometry=(), admitted_ratio=0.0)
        wanted = sum(
            item.weight * count
            for demand in self._drawn
            for item, count in zip(self._items, demand, strict=True)
        )
        value = sum(outcome.value_of(admit) * weight for admit, weight in self._worth)
        bound = None
        if given is None and outcome.bound is not None:
            bound = outcome.bound / max(1, wanted)
        geometry = tuple(
            (
                table.model,
                tuple((layout, n) for layout, count in counts if (n := outcome.value_of(count))),
            )
            for table, counts in self._cuts.items()
        )
        return FleetPlan(
            name=name,
            geometry=geometry,
            admitted_ratio=value / max(1, wanted),
            bound_ratio=bound,
        )

    def _layouts(self, table: MigTable) -> list[Layout]:
        """Whole, and every multiset of useful profiles to which nothing can be added."""
        wishes = {wish for item in self._items for wish, _ in item.slices}
        useful = {profile for wish in wishes if (profile := wish.on(table)) is not None}
        ways: tuple[Geometry, ...] = ()
        if useful:
            profiles = tuple(p for p in table.profiles if p in useful)
            ways = geometries(table, (), (), profiles, False)
        return [(), *(way.layout for way in ways)]

    def _servers(self, wish: Slice | None) -> list[tuple[MigTable, str]]:
        """What can serve a wish (None: for a whole GPU): profiles as large, and whole GPUs."""
        found: list[tuple[MigTable, str]] = []
        for table in self._gpus:
            least = None if wish is None else wish.on(table)
            if wish is not None and least is None:
                continue
            found.append((table, WHOLE))
            if least is not None:
                found += [
                    (table, profile.name)
                    for profile in table.profiles
                    if profile.size >= least.size
                    and profile.compute >= least.compute
                    and (profile.engines == least.engines or profile == least)
                ]
        return found

    def _add_scenario(self, place: int, demand: tuple[int, ...]) -> None:
        model = self._model
        needs: dict[Slice | None, list[tuple[cp_model.IntVar, int]]] = {}
        for item, count in zip(self._items, demand, strict=True):
            admit = model.new_int_var(0, count, f"admit[{place},{item.name}]")
            self._worth.append((admit, item.weight))
            if item.gpus:
                needs.setdefault(None, []).append((admit, item.gpus))
            for wish, number in item.slices:
                needs.setdefault(wish, []).append((admit, number))
        takes: dict[tuple[MigTable, str], list[cp_model.IntVar]] = {}
        for asked, terms in needs.items():
            serving = []
            for server in self._servers(asked):
                most = self._gpus[server[0]] * (1 if server[1] == WHOLE else server[0].compute)
                part = model.new_int_var(0, most, f"serve[{place},{asked},{server[1]}]")
                takes.setdefault(server, []).append(part)
                serving.append(part)
            model.add(total(serving) >= weighted(terms))
        for (table, profile), parts in takes.items():
            have = [(count, layout_has(layout, profile)) for layout, count in self._cuts[table]]
            model.add(total(parts) <= weighted(have))


def layout_has(layout: Layout, profile: str) -> int:
    """Instances of a profile in a layout; an uncut GPU is one whole."""
    if profile == WHOLE:
        return int(not layout)
    return sum(instance.profile == profile for instance in layout)


def free_gpus(problem: Problem) -> dict[MigTable, int]:
    """GPUs that could be cut anew, by their profiles: nobody holds them or an instance of them."""
    found: Counter[MigTable] = Counter()
    states = initial_states(problem)
    for node in problem.nodes:
        for gpu, table in enumerate(node.mig_tables):
            state = states[node.name]
            unused = state.gpu_left[gpu] == GPU_MILLI or gpu in node.mig_gpus
            held = state.layout(gpu) or gpu in node.unhealthy_gpus
            if table is not None and node.schedulable and unused and not held:
                found[table] += 1
    return dict(sorted(found.items(), key=lambda entry: entry[0].model))
