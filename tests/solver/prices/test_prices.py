"""Prices: packings against brute force, duals against their bound, and the policy in a story."""

import json
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cluster import Node
from solver.greedy import place
from solver.prices.book import price_book
from solver.prices.book_file import book_document
from solver.prices.configuration_lp import CLOSE, ConfigurationLp, Priced
from solver.prices.market import CPU_WORTH, Access, Item, Market, make_market
from solver.prices.opportunity import Opportunity
from solver.prices.pricing import NodeWorth
from solver.prices.scenarios import Future, critical_factor
from solver.problem import Problem
from solver.verify import verify
from solver.workload import Job, Role, Shape
from topology.graph import NodeTopology

FULL = 10
"""Steps of a whole GPU."""


def a_node(name: str = "a", gpus: int = 2, cpu_milli: int = 16_000, model: str = "T4") -> Node:
    return Node(
        name=name,
        topology=NodeTopology(f"{gpus} {model}", [model] * gpus),
        cpu_milli=cpu_milli,
        memory_mib=65_536,
    )


def best_by_trying(items: list[tuple[Item, float]], left: tuple[int, ...], cpu_steps: int) -> float:
    @lru_cache(None)
    def best(k: int, left: tuple[int, ...], cpu: int) -> float:
        if k == len(items):
            return 0.0
        item, price = items[k]
        found = best(k + 1, left, cpu)
        if item.cpu_steps > cpu:
            return found
        if not item.gpus:
            return max(found, price + best(k, left, cpu - item.cpu_steps))
        room = [g for g, x in enumerate(left) if x >= item.gpu_steps]
        if len(room) < item.gpus:
            return found
        options = [room[: item.gpus]] if item.gpus > 1 else [[g] for g in room]
        for gpus in options:
            rest = [x - item.gpu_steps * (g in gpus) for g, x in enumerate(left)]
            found = max(found, price + best(k, tuple(sorted(rest)), cpu - item.cpu_steps))
        return found

    return best(0, tuple(sorted(left)), cpu_steps)


shares = st.tuples(st.just(1), st.integers(2, FULL))
whole = st.tuples(st.integers(2, 3), st.just(FULL))
alone = st.just((0, 0))


@st.composite
def menus(draw: st.DrawFn) -> list[tuple[Item, float]]:
    amounts = draw(st.lists(st.one_of(shares, whole, alone), min_size=1, max_size=4))
    return [
        (Item(k, gpus, steps, draw(st.integers(1, 6))), float(draw(st.integers(0, 20))))
        for k, (gpus, steps) in enumerate(amounts)
    ]


@settings(max_examples=25, deadline=None)
@given(menus(), st.lists(st.integers(0, FULL), min_size=1, max_size=3), st.integers(0, 8))
def test_what_is_left_is_worth_its_best_packing(
    menu: list[tuple[Item, float]], left: list[int], cpu_steps: int
) -> None:
    access = Access(tuple(item for item, _ in menu))
    prices = np.array([price for _, price in menu])
    market = make_market([a_node(cpu_milli=256)], [(Shape(gpus=1), 1)])
    worth = Opportunity(market, access, [Future(1.0, prices)], FULL, 3)
    wanted = [pair for pair in menu if pair[1] > 0]
    assert worth.worth(worth.leftovers(left), cpu_steps) == pytest.approx(
        best_by_trying(wanted, tuple(left), cpu_steps)
    )


@settings(max_examples=25, deadline=None)
@given(menus(), st.integers(1, 3), st.integers(0, 8))
def test_a_packing_is_worth_what_is_in_it_and_fits(
    menu: list[tuple[Item, float]], gpus: int, cpu_steps: int
) -> None:
    access = Access(tuple(item for item, _ in menu))
    prices = [price for _, price in menu]
    packing = NodeWorth(access, prices, FULL, 3).packing(gpus, cpu_steps)
    assert packing.worth == pytest.approx(sum(prices[k] * n for k, n in packing.shapes.items()))
    used = sum(menu[k][0].cpu_steps * n for k, n in packing.shapes.items())
    assert used == packing.cpu_steps <= cpu_steps
    taken = [menu[k][0].gpus * menu[k][0].gpu_steps * n for k, n in packing.shapes.items()]
    assert sum(taken) <= gpus * FULL


def test_the_lp_meets_its_bound_again_and_again() -> None:
    nodes = [a_node("a"), a_node("b", gpus=4)]
    workload = [(Shape(share_milli=700, cpu_milli=1000), 3), (Shape(gpus=2, cpu_milli=4000), 1)]
    market = make_market(nodes, workload)
    lp = ConfigurationLp(market)
    for factor in (1.3, 0.2, 1.0):
        found = lp.solve(np.array(market.demand), factor)
        assert found.value <= found.bound + 1e-6
        assert found.bound - found.value <= CLOSE * found.value + 1e-6
        assert (found.prices >= 0).all()
        assert (found.prices <= np.array(market.worth_milli) + 1e-9).all()


def bounded(nodes: list[Node], workload: list[tuple[Shape, int]]) -> Priced:
    market = make_market(nodes, workload, bounds=True)
    return ConfigurationLp(market).solve(np.array(market.demand), 1.0)


def test_shares_that_leave_a_fifth_of_a_device_are_bounded_by_devices_not_by_milli() -> None:
    nodes = [a_node(name) for name in "abc"]
    found = bounded(nodes, [(Shape(share_milli=810, cpu_milli=1000), 20)])
    assert found.bound == pytest.approx(6 * 810, rel=1e-3)
    assert found.value == pytest.approx(6 * 810)


def test_a_shape_that_everybody_has_room_for_costs_nothing() -> None:
    nodes = [a_node(f"{m}{i}", gpus=4, model=m) for m in "AB" for i in range(2)]
    plenty, scarce = Shape(share_milli=100), Shape(gpus=1, gpu_models=("B",))
    market = make_market(nodes, [(plenty, 5), (scarce, 30)], bounds=True)
    found = ConfigurationLp(market).solve(np.array(market.demand), 1.0)
    prices = dict(zip(market.shapes, found.prices, strict=True))
    assert prices[plenty] == pytest.approx(0, abs=1)
    assert found.bound == pytest.approx(500 + 8 * 1000, rel=1e-3)


def test_a_bound_counts_work_that_takes_less_than_a_step_of_cpu() -> None:
    found = bounded([a_node(cpu_milli=256_000)], [(Shape(cpu_milli=900), 100)])
    assert found.bound >= 100 * CPU_WORTH * 900


def factor_of(market: Market, part: float = 1.0) -> float:
    return critical_factor(ConfigurationLp(market), market, part * np.array(market.demand))


def test_cpu_is_critical_where_it_is_short() -> None:
    workload = [(Shape(gpus=1, cpu_milli=8000), 1)]
    plenty = make_market([a_node(cpu_milli=64_000)], workload)
    short = make_market([a_node(cpu_milli=16_000)], workload)
    assert factor_of(plenty) < 0.4
    assert 0.9 < factor_of(short) < 1.1
    assert factor_of(short, 0.5) < 0.6


def story() -> Problem:
    """A small pod comes first; most of the workload wants a node with much CPU to itself."""
    small = Job(name="small", roles=(Role(name="r", shape=Shape(share_milli=300, cpu_milli=100)),))
    big = Job(
        name="big", roles=(Role(name="r", shape=Shape(gpus=2, cpu_milli=16_000), replicas=1),)
    )
    return Problem(
        name="story",
        nodes=(a_node("much"), a_node("little", cpu_milli=2000)),
        jobs=(small, big),
        reference_shapes=((Shape(gpus=2, cpu_milli=16_000), 9), (Shape(share_milli=300), 1)),
    )


@pytest.mark.parametrize("policy", ["bid-price", "bid-price-cheap"])
def test_a_small_pod_leaves_the_dear_node_to_those_who_need_it(policy: str) -> None:
    problem = story()
    plan = place(problem, policy)
    assert not verify(problem, plan)
    assert {p.job: p.node for p in plan.placements} == {"small": "little", "big": "much"}


def test_nobody_is_turned_away_for_a_price() -> None:
    only = Job(name="small", roles=(Role(name="r", shape=Shape(share_milli=300)),))
    problem = Problem(
        name="dear",
        nodes=(a_node("much"),),
        jobs=(only,),
        reference_shapes=((Shape(gpus=2, cpu_milli=16_000), 1),),
    )
    assert [p.job for p in place(problem, "bid-price").placements] == ["small"]


def test_a_workload_without_gpus_or_cpu_has_prices_too() -> None:
    for workload in ([], [(Shape(cpu_milli=1000), 1)]):
        book = price_book([a_node()], workload)
        assert json.dumps(book_document(book))


def test_the_book_says_what_a_replica_destroys() -> None:
    problem = story()
    document = book_document(price_book(problem.nodes, problem.reference))
    cpu = [kind["cpu_milli"] for kind in document["node_types"]]
    share = next(s for s in document["shapes"] if s["share_milli"])
    cost = dict(zip(cpu, share["cost_milli"], strict=True))
    assert cost[16_000] > cost[2000]
    pair = next(s for s in document["shapes"] if s["gpus"] == 2)
    assert dict(zip(cpu, pair["cost_milli"], strict=True))[2000] is None
