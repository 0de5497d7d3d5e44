"""What a node is worth at prices, against every packing there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.prices.configuration_lp import Demand, NodeType, solve_configurations
from solver.prices.pricing import Good, Pricing
from solver.workload import Shape

GOODS = st.builds(
    lambda kind, cpu, price: Good(gpus=kind[0], milli=kind[1], cpu=cpu, price=float(price)),
    st.sampled_from([(1, 300), (1, 500), (1, 810), (1, 1000), (2, 1000), (0, 0)]),
    st.integers(0, 4),
    st.integers(0, 900),
).filter(lambda good: good.gpus or good.cpu)


def best(goods: list[Good], left: tuple[int, ...], cpu: int) -> float:
    """The best packing, by trying all of them."""
    found = 0.0
    for good in goods:
        if good.cpu > cpu or not good.price:
            continue
        if good.gpus == 1:
            for device, milli in enumerate(left):
                if milli >= good.milli:
                    after = (*left[:device], milli - good.milli, *left[device + 1 :])
                    found = max(found, good.price + best(goods, after, cpu - good.cpu))
        else:
            idle = [d for d, milli in enumerate(left) if milli == 1000]
            if len(idle) < good.gpus:
                continue
            taken = set(idle[: good.gpus])
            after = tuple(0 if d in taken else milli for d, milli in enumerate(left))
            found = max(found, good.price + best(goods, after, cpu - good.cpu))
    return found


STATES = st.lists(st.sampled_from([0, 190, 600, 1000]), min_size=1, max_size=2).map(tuple)


@given(st.lists(GOODS, min_size=1, max_size=3), STATES, st.integers(0, 5))
def test_the_value_is_that_of_the_best_packing(goods, left, cpu):
    pricing = Pricing(goods, 6)

    assert pricing.value(left, cpu) == pytest.approx(best(goods, left, cpu))


@given(st.lists(GOODS, min_size=1, max_size=3), STATES, st.integers(0, 5))
def test_the_content_is_worth_the_value(goods, left, cpu):
    pricing = Pricing(goods, 6)

    content = pricing.content(left, cpu)

    worth = sum(good.price * count for good, count in zip(goods, content, strict=True))
    assert worth == pytest.approx(pricing.value(left, cpu))
    assert sum(g.cpu * count for g, count in zip(goods, content, strict=True)) <= cpu


def test_shares_that_leave_a_fifth_of_a_device_are_bounded_by_devices_not_by_milli():
    shape = Shape(share_milli=810, cpu_milli=1000)
    types = [NodeType(count=3, gpus=2, cpu_milli=8000)]

    found = solve_configurations(types, [Demand(shape=shape, count=20, worth=810)])

    assert found.bound == pytest.approx(6 * 810, rel=1e-3)
    assert found.value == pytest.approx(6 * 810)


def test_a_shape_that_everybody_has_room_for_costs_nothing():
    plenty, scarce = Shape(share_milli=100), Shape(gpus=1, gpu_models=("B",))
    types = [NodeType(count=2, gpus=4, cpu_milli=0, model=m) for m in "AB"]
    demands = [
        Demand(shape=plenty, count=5, worth=100),
        Demand(shape=scarce, count=30, worth=1000),
    ]

    found = solve_configurations(types, demands, gap=1e-9)

    assert found.prices[0] == pytest.approx(0, abs=1)
    assert found.bound == pytest.approx(500 + 8 * 1000, rel=1e-3)
