"""MIG: single GPUs against exhaustive search, a large fleet with its proof, openb's demand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

from benchmarks.registry import Benchmark, Row
from solver.cluster import MigInstance, Node
from solver.fleet import Item, best_fleet, held_out, static_fleets
from solver.geometry import recut_gpus, stranded_slices
from solver.options import SolveOptions
from solver.problem import Problem
from solver.solution import PlacedInstance, Placement, Plan
from solver.state import states_after
from solver.workload import Job, Role, Shape, Slice
from topology.graph import NodeTopology
from topology.mig.layouts import Instance, Layout, fits, layouts
from topology.mig.tables import MigTable, mig_table

MODEL = "H100-80GB"
INSTANCES = {"small": 300, "full": 10_000}
"""Random single GPUs by size."""

OPENB = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "openb"

JUDGED_SEED = 2
"""Seed of the scenarios in which fleets are compared; the solver plans with others."""

GPU_LIMIT_S, FLEET_LIMIT_S, FLEET_GAP, LEAD_RATIO = 0.02, 30.0, 0.01, 0.10


def run_mig(size: str | None) -> Iterator[Row]:
    """All three parts; `small` looks at fewer single GPUs."""
    yield from _single_gpus(INSTANCES["small" if size is None else size])
    yield from _large_fleet()
    yield from _openb()


# Single GPUs


def random_gpu(random: Random) -> Problem:
    """One H100, partly in use or with instances left over, and up to five slices that wait."""
    table = mig_table(MODEL)
    every = _every_layout(table)
    in_mode = random.random() < 0.6
    held = random.choice(every) if in_mode else ()
    instances = tuple(
        MigInstance(gpu=0, instance=i, used_by=random.choice(["", "somebody"])) for i in held
    )
    gpu = frozenset([0])
    node = Node(
        name="n",
        topology=_one_gpu(),
        mig_gpus=gpu if in_mode else frozenset(),
        mig_mode=gpu if in_mode else frozenset(),
        cuttable_gpus=frozenset() if in_mode else gpu,
        instances=instances,
    )
    names = [profile.name for profile in table.profiles]
    jobs = tuple(
        Job(
            name=f"j{n}",
            roles=(Role(name="r", shape=Shape(slices=((Slice(random.choice(names)), 1),))),),
        )
        for n in range(random.randint(1, 5))
    )
    return Problem(nodes=(node,), jobs=jobs)


@lru_cache(maxsize=1)
def _one_gpu() -> NodeTopology:
    return NodeTopology("one", (MODEL,), (81559,))


@lru_cache(maxsize=1)
def _every_layout(table: MigTable) -> tuple[Layout, ...]:
    return tuple(layouts(table, table.base))


Worth = tuple[int, int, int, int]


def exhaustive(problem: Problem) -> Worth:
    """The best (admitted, oldest, recut, stranded) over every subset of jobs at every start."""
    (node,) = problem.nodes
    table = node.mig_tables[0]
    assert table is not None
    used = node.used_layouts[0]
    best: Worth | None = None

    def grow(at: int, layout: tuple[Instance, ...], placed: list[Placement]) -> None:
        nonlocal best
        if at == len(problem.jobs):
            worth = _worth(problem, Plan.of(placed))
            best = worth if best is None else max(best, worth)
            return
        job = problem.jobs[at]
        ((wish, _),) = job.roles[0].shape.slices
        grow(at + 1, layout, placed)
        profile = table.profile(wish.profile)
        for start in profile.starts:
            made = Instance(start, profile.name)
            if fits(table, [*used, *layout, made]):
                instances = (PlacedInstance(0, made),)
                place = Placement(job.name, "r", 0, "n", (), 0, instances)
                grow(at + 1, (*layout, made), [*placed, place])

    grow(0, (), [])
    assert best is not None
    return best


def _worth(problem: Problem, plan: Plan) -> Worth:
    """The tiers that a single GPU has, more is better."""
    admitted = oldest = 0
    for name in plan.by_job:
        milli = problem.gpu_milli(problem.job_by_name[name].roles[0].shape)
        admitted += milli
        oldest += milli * (len(problem.jobs) - problem.position[name])
    lost = stranded_slices(problem, states_after(problem, plan))
    return (admitted, oldest, -recut_gpus(problem, plan), -lost)


def _single_gpus(number: int) -> Iterator[Row]:
    from solver.api import solve

    options = SolveOptions(workers=1, time_limit_s=10)
    differ, took_s = 0, []
    for seed in range(number):
        problem = random_gpu(Random(seed))
        began = time.monotonic()
        result = solve(problem, options)
        took_s.append(time.monotonic() - began)
        differ += _worth(problem, result.plan) != exhaustive(problem)
    took_s.sort()
    yield Row(
        instance=f"{number:,} random single GPUs",
        measure="answers that differ from exhaustive search",
        value=differ,
        unit="",
        limit=0,
    )
    yield Row(
        instance=f"{number:,} random single GPUs",
        measure="solve, median",
        value=took_s[len(took_s) // 2],
        unit="s",
        limit=GPU_LIMIT_S,
        note=f"p99 {took_s[int(len(took_s) * 0.99)]:.3f} s, with check, metrics and reasons",
    )


# A large fleet


def wanted_mixes(kinds: int, gpus: int, seed: int) -> tuple[Item, ...]:
    """So many kinds of mixes of one to six slices; together a tenth more than the fleet has."""
    table, random = mig_table(MODEL), Random(seed)
    sizes = [profile for profile in table.profiles if profile.engines == "plain"]
    mixes: dict[tuple[tuple[Slice, int], ...], int] = {}
    while len(mixes) < kinds:
        chosen = Counter(Slice(random.choice(sizes[:-1]).name) for _ in range(random.randint(1, 6)))
        mix = tuple(sorted(chosen.items()))
        slots = sum(table.profile(wish.profile).size * count for wish, count in mix)
        mixes.setdefault(mix, slots)
    share = 1.1 * gpus * table.slots / kinds
    return tuple(
        Item(
            name=f"mix-{n}",
            slices=mix,
            count=max(1, round(share / slots)),
            weight=slots * random.randint(8, 12),
        )
        for n, (mix, slots) in enumerate(mixes.items())
    )


def _large_fleet() -> Iterator[Row]:
    gpus, kinds = 1_000, 200
    items = wanted_mixes(kinds, gpus, seed=1)
    began = time.monotonic()
    plan = best_fleet({mig_table(MODEL): gpus}, items, time_s=FLEET_LIMIT_S, gap=FLEET_GAP)
    took_s = time.monotonic() - began
    bound = plan.bound_ratio or 1.0
    instance = f"{gpus:,} H100, {kinds} kinds of mixes"
    yield Row(instance=instance, measure="time", value=took_s, unit="s", limit=FLEET_LIMIT_S)
    yield Row(
        instance=instance,
        measure="proved gap",
        value=(bound - plan.admitted_ratio) / bound,
        unit="",
        limit=FLEET_GAP,
        note=f"admits {plan.admitted_ratio:.1%} of the weighted demand",
    )


# openb


def openb_demand(workload: str, gpus: int, load: float) -> tuple[Item, ...]:
    """The fractional pods of a workload as slices of an H100, scaled to a load of the fleet.

    A share s becomes the smallest plain profile with at least s of the memory slots and
    ``floor(7 s)`` compute slices: 0.5 is a 3g, 0.46 a 3g, 0.25 the 1g with twice the memory.
    Whole-GPU pods stay whole, one demand per GPU. An item's weight is the
    thousandths that its pods ask for.
    """
    from simulator.traces.openb import read_openb

    table = mig_table(MODEL)
    plain = [profile for profile in table.profiles if profile.engines == "plain"]
    counted: Counter[tuple[str, int]] = Counter()
    for pod in read_openb(OPENB, workload).pods:
        milli = pod.gpu_milli
        if not pod.gpus:
            continue
        if milli >= 1000:
            counted["", 1000] += pod.gpus
            continue
        enough = (
            p
            for p in plain
            if p.size * 1000 >= milli * table.slots and p.compute >= milli * table.compute // 1000
        )
        profile = min(enough, key=lambda p: (p.size, p.compute))
        counted[profile.name, milli] += 1
    asked = sum((milli if name else 1000) * n for (name, milli), n in counted.items())
    scale = load * gpus * 1000 / asked
    return tuple(
        Item(
            name=f"{name or 'whole'} {milli}",
            slices=((Slice(name), 1),) if name else (),
            gpus=0 if name else 1,
            count=max(1, round(n * scale)),
            weight=milli if name else 1000,
            variation_ratio=0.2,
        )
        for (name, milli), n in sorted(counted.items())
    )


def _openb() -> Iterator[Row]:
    if not OPENB.exists():
        yield Row(instance="openb", measure="admitted", value=None, unit="", note="no trace here")
        return
    gpus = {mig_table(MODEL): 200}
    for workload in ("default", "gpushare40", "gpushare100"):
        for load in (0.9, 1.1):
            items = openb_demand(workload, 200, load)
            planned = best_fleet(gpus, items, draws=10, time_s=20)
            best = held_out(planned, gpus, items, draws=10, seed=JUDGED_SEED, time_s=20)
            fixed = static_fleets(gpus, items, draws=10, seed=JUDGED_SEED, time_s=20)
            rival = max(fixed, key=lambda fleet: fleet.admitted_ratio)
            proved = (
                f"solver {best.admitted_ratio:.1%} in scenarios drawn anew,"
                f" {planned.admitted_ratio:.1%}"
                f" in its own (bound {planned.bound_ratio or 1:.1%})"
            )
            shown = ", ".join(f"{f.name} {f.admitted_ratio:.1%}" for f in fixed)
            yield Row(
                instance=f"openb {workload}, {load:.0%} load",
                measure="points short of a lead of 10 over the best static fleet",
                value=100 * max(0.0, LEAD_RATIO - best.admitted_ratio + rival.admitted_ratio),
                unit="points",
                limit=0,
                note=f"{proved}; {shown}",
            )


MIG = Benchmark(
    name="mig",
    text="MIG geometry: single GPUs, a large fleet, openb's fractional demand",
    sizes=tuple(INSTANCES),
    run=run_mig,
)
