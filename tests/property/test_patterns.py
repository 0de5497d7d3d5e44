"""Shares on tiny clusters: the bound by patterns holds for every plan, what is proved is best."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.aggregate.device_patterns import maximal_patterns
from solver.aggregate.engine import improve
from solver.aggregate.pattern_bound import Size, cut_devices, least_cpu
from solver.aggregate.patterns import DevicePatterns
from solver.api import solve
from solver.cluster import Node
from solver.options import ModelChoice, SolveOptions
from solver.problem import Problem
from solver.solution import Plan
from solver.stock import Stock
from solver.tiers import Ruler
from solver.verify import verify
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape
from tests.brute_force import TooManyPlansError, best_values
from tests.scenario import machine

SIZES = (230, 300, 500, 550, 700, 810)
OPTIONS = SolveOptions(
    time_limit_s=20, deterministic_limit=0.1, workers=1, model=ModelChoice.AGGREGATED
)


@st.composite
def share_problems(draw: st.DrawFn) -> Problem:
    """A few devices, and pods of which most want a part of one."""
    nodes = tuple(
        Node(
            name=f"n{n}",
            topology=machine([draw(st.sampled_from(["A", "B"]))] * draw(st.integers(1, 2))),
            cpu_milli=draw(st.sampled_from([2000, 3000, 8000])),
            memory_mib=draw(st.sampled_from([2048, 4096])),
        )
        for n in range(draw(st.integers(1, 2)))
    )
    held = draw(st.sampled_from([0, 0, 400]))
    running = (
        RunningJob(
            name="there",
            replicas=(RunningReplica(node="n0", gpus=(0,), share_milli=held),),
            shapes=(Shape(share_milli=held),),
        ),
    ) if held else ()  # fmt: skip
    kinds = st.sampled_from(["share", "share", "share", "whole", "two", "cpu"])
    jobs = []
    for number in range(draw(st.integers(2, 5))):
        kind = draw(kinds)
        models = draw(st.sampled_from([(), (), ("A",)])) if kind != "cpu" else ()
        shape = Shape(
            share_milli=draw(st.sampled_from(SIZES)) if kind == "share" else 0,
            gpus={"whole": 1, "two": 2}.get(kind, 0),
            cpu_milli=draw(st.sampled_from([500, 1000, 2000])),
            memory_mib=draw(st.sampled_from([0, 1024])),
            gpu_models=models,
        )
        jobs.append(Job(name=f"j{number}", roles=(Role(name="main", shape=shape),)))
    return Problem(nodes=nodes, running=running, jobs=tuple(jobs), preempt_for=())


def best_cut(demand: Counter[Size], devices: list[int]) -> int:
    """The most that devices hold, pod by pod in every way."""
    pods = sorted(demand.elements(), reverse=True)

    def best(at: int, left: tuple[int, ...]) -> int:
        if at == len(pods):
            return 0
        found, size = best(at + 1, left), pods[at]
        if size.gpus > 1:
            idle = [d for d, milli in enumerate(left) if milli == 1000][: size.gpus]
            choices = [idle] if len(idle) == size.gpus else []
        else:
            choices = [[d] for d, milli in enumerate(left) if milli >= size.milli]
        for taken in choices:
            after = tuple(m - size.milli if d in taken else m for d, m in enumerate(left))
            found = max(found, size.total_milli + best(at + 1, after))
        return found

    return best(0, tuple(devices))


@given(st.integers(1, 1000), st.lists(st.integers(90, 1000), min_size=1, max_size=4, unique=True))
def test_patterns_are_all_multisets_that_nothing_can_be_added_to(capacity, sizes):
    expected = set()
    for length in range(1, capacity // min(sizes) + 1):
        for chosen in combinations_with_replacement(range(len(sizes)), length):
            used = sum(sizes[place] for place in chosen)
            if used <= capacity < used + min(sizes):
                expected.add(tuple(chosen.count(place) for place in range(len(sizes))))

    found = maximal_patterns(capacity, sizes, 10_000)

    assert found is not None
    assert len(found) == len(set(found))
    assert set(found) == expected


PODS = st.one_of(
    st.sampled_from(SIZES).map(lambda milli: Size(1, milli)),
    st.sampled_from([Size(1, 1000), Size(2, 1000)]),
)


@settings(max_examples=60)
@given(st.lists(PODS, min_size=1, max_size=6), st.lists(st.sampled_from([1000, 600]), max_size=3))
def test_devices_are_cut_as_well_as_can_be_and_it_is_proved(pods, devices):
    demand = Counter(pods)

    cutting = cut_devices(demand, Counter(devices), 10)

    assert cutting is not None
    assert cutting.value == cutting.bound == best_cut(demand, devices)
    assert sum(size.total_milli * n for size, n in cutting.starts.items()) == cutting.value
    slots = Counter()
    for use in cutting.uses:
        assert sum(size.milli * n for size, n in use.sizes) <= use.left
        slots.update({size: n * use.devices for size, n in use.sizes})
    assert all(slots[size] >= n for size, n in cutting.starts.items() if size.gpus == 1)


def test_the_choice_with_least_cpu_is_worth_as_much():
    demand = {(Size(1, 810), 4000): 2, (Size(1, 810), 1000): 1, (Size(1, 190), 500): 3}

    choice = least_cpu(demand, {1000: 2}, 2000, 10)

    assert choice is not None
    assert choice.cpu_milli == 4000 + 1000 + 2 * 500
    assert choice.cutting.value == 2000


def test_nothing_is_worth_more_than_the_bound_so_there_is_no_such_choice():
    assert least_cpu({(Size(1, 810), 0): 3}, {1000: 2}, 1621, 10) is None


@settings(max_examples=60, deadline=None)
@given(share_problems())
def test_bounds_hold_for_the_best_of_all_plans_and_what_is_proved_is_best(problem):
    ruler = Ruler(problem)
    patterns = DevicePatterns.of(ruler, Stock(problem), seed=1)
    try:
        best = best_values(problem)
    except TooManyPlansError:
        return
    if patterns is None:
        return
    values = dict(zip((step.kind for step in ruler.steps), best, strict=True))

    plans = [packer.plan() for packer in patterns.packings(float("inf"))]

    for step, optimum in zip(ruler.steps, best, strict=True):
        bound = patterns.bound(step, values, 10)
        assert bound is None or bound >= optimum, step
    for plan in plans:
        assert not verify(problem, plan)
    improved = improve(
        problem, ruler, max([Plan(), *plans], key=ruler.key), OPTIONS, patterns=patterns
    )
    found = ruler.measure(improved.plan)
    for step, value, bound, optimum in zip(ruler.steps, found, improved.bounds, best, strict=True):
        if value != optimum:
            assert step.better(optimum, value), step
            assert value != bound, f"{step}: proved, but there is better"
            break
        assert not step.better(value, bound), step


def test_shares_that_fill_devices_are_proved_optimal_by_the_aggregated_model():
    node = Node(name="n", topology=machine(2), cpu_milli=8000, memory_mib=4096)
    shares = (810, 810, 550, 300, 190)
    jobs = tuple(
        Job(name=f"j{milli}-{n}", roles=(Role(name="main", shape=Shape(share_milli=milli)),))
        for n, milli in enumerate(shares)
    )

    result = solve(Problem(nodes=(node,), jobs=jobs), OPTIONS)

    started = next(term for term in result.objectives if term.step == "started")
    assert (started.value, started.bound) == (1850, 1850)  # 810 + 190, and 550 + 300


def test_where_cpu_is_short_the_hungry_are_left_out_and_the_rest_is_proved_impossible():
    node = Node(name="n", topology=machine(1), cpu_milli=6000, memory_mib=4096)
    old = Job(name="old", roles=(Role(name="m", shape=Shape(share_milli=810, cpu_milli=4000)),))
    young = Job(name="young", roles=(Role(name="m", shape=Shape(share_milli=810, cpu_milli=1000)),))
    service = Job(name="service", roles=(Role(name="m", shape=Shape(cpu_milli=5000)),))
    more = Job(name="more", roles=(Role(name="m", shape=Shape(cpu_milli=5000)),))

    result = solve(Problem(nodes=(node,), jobs=(old, young, service, more)), OPTIONS)

    assert {p.job for p in result.plan.placements} == {"young", "service"}
    cpu_only = next(term for term in result.objectives if term.step == "cpu-only")
    assert (cpu_only.value, cpu_only.bound) == (5000, 5000)
