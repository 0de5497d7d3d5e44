"""A fleet that is cut for the demand, beside fleets that are cut in one way."""

import pytest

from solver.fleet import Item, best_fleet, held_out, layout_of, scenarios, static_fleets
from solver.workload import Slice
from topology.mig.layouts import fits
from topology.mig.tables import mig_table

H100 = mig_table("H100-80GB")
A30 = mig_table("A30")


def item(name, profile="", gpus=0, **rest):
    slices = ((Slice(profile), 1),) if profile else ()
    return Item(name=name, slices=slices, gpus=gpus, **rest)


MIX = (
    item("small", "1g.10gb", count=20),
    item("medium", "2g.20gb", count=6),
    item("large", "3g.40gb", count=4, weight=3),
    item("whole", gpus=1, count=2, weight=7),
)


def test_the_mix_that_just_fits_is_admitted_whole():
    exact = (item("four", "4g.40gb", count=5), item("three", "3g.40gb", count=5))

    plan = best_fleet({H100: 5}, exact, workers=1)

    assert plan.admitted_ratio == plan.bound_ratio == 1.0
    ((_, layouts),) = plan.geometry
    assert [([str(i) for i in layout], n) for layout, n in layouts] == [
        (["4g.40gb@0", "3g.40gb@4"], 5)
    ]


def test_no_static_fleet_admits_more():
    plan = best_fleet({H100: 8}, MIX, workers=1)

    assert plan.admitted_ratio == plan.bound_ratio
    for static in static_fleets({H100: 8}, MIX, workers=1):
        assert static.admitted_ratio <= plan.admitted_ratio


def test_static_fleets_are_worth_what_can_be_counted_by_hand():
    fleets = {f.name: f for f in static_fleets({H100: 2}, (item("s", "1g.10gb", count=14),))}

    assert fleets["all 1g"].admitted_ratio == 1.0
    assert fleets["balanced"].admitted_ratio == pytest.approx(8 / 14)
    assert fleets["whole"].admitted_ratio == pytest.approx(2 / 14)


@pytest.mark.parametrize("table", [H100, A30, mig_table("RTX-PRO-6000-96GB")])
def test_balanced_is_a_layout(table):
    from solver.fleet import BALANCED

    layout = layout_of(table, BALANCED[table.slots])

    assert fits(table, layout)
    assert len(layout) == sum(BALANCED[table.slots].values())


def test_without_variation_there_is_one_scenario_and_with_it_the_seed_decides():
    varied = (item("s", "1g.10gb", count=100, variation_ratio=0.5),)

    assert scenarios(MIX, 10, 1) == [(20, 6, 4, 2)]
    assert scenarios(varied, 10, 1) == scenarios(varied, 10, 1)
    assert scenarios(varied, 10, 1) != scenarios(varied, 10, 2)
    assert all(50 <= drawn[0] <= 150 for drawn in scenarios(varied, 50, 1))


def test_one_geometry_has_to_do_for_all_scenarios():
    varied = (
        item("small", "1g.10gb", count=28, variation_ratio=1.0),
        item("large", "7g.80gb", count=2, variation_ratio=1.0, weight=7),
    )

    plan = best_fleet({H100: 4}, varied, draws=6, workers=1)

    assert sum(n for _, layouts in plan.geometry for _, n in layouts) == 4
    assert plan.admitted_ratio <= plan.bound_ratio <= 1


def test_a_fleet_is_judged_in_scenarios_that_it_was_not_planned_for():
    varied = (
        item("small", "1g.10gb", count=30, variation_ratio=0.5),
        item("large", "3g.40gb", count=8, weight=3, variation_ratio=0.5),
    )
    planned = best_fleet({H100: 8}, varied, workers=1, draws=3, seed=1)

    again = held_out(planned, {H100: 8}, varied, workers=1, draws=3, seed=1)
    anew = held_out(planned, {H100: 8}, varied, workers=1, draws=3, seed=2)
    best = best_fleet({H100: 8}, varied, workers=1, draws=3, seed=2)

    assert again.geometry == anew.geometry == planned.geometry
    assert again.admitted_ratio == planned.admitted_ratio
    assert anew.admitted_ratio <= best.admitted_ratio
