"""Orders of creation, replayed against a driver that takes the lowest free start."""

from itertools import permutations

import pytest

from tests.paths import needs_shared
from tests.topology.mig.oracles import by_family, instance, oracles
from topology.mig.creation import creation_order, lowest_free_start
from topology.mig.layouts import Instance, layouts, multiset, open_starts
from topology.mig.tables import mig_table

A100 = mig_table("A100-40GB")
ORACLES = oracles()


def replay(table, order, there=()):
    """What a driver makes of the order when it is told no starts; None where it gets stuck."""
    made = list(there)
    for wanted in order:
        start = lowest_free_start(table, made, wanted.profile)
        if start is None:
            return None
        made.append(Instance(start, wanted.profile))
    return sorted(made)


def of(*texts):
    return [instance(A100, text) for text in texts]


def test_4g_comes_before_3g_or_it_has_no_place():
    found = creation_order(A100, of("3g@4", "4g@0"))

    assert [str(entry) for entry in found.order] == ["4g.20gb@0", "3g.20gb@4"]
    assert replay(A100, reversed(found.order)) is None


def test_where_no_order_ends_in_the_plan_the_starts_must_be_passed():
    found = creation_order(A100, of("1g@6"))

    assert found.starts_must_be_passed


def test_every_layout_is_reached_by_its_order_or_by_no_order_at_all():
    for layout in layouts(A100, A100.base):
        found = creation_order(A100, layout)

        assert sorted(found.order) == list(layout)
        if found.starts_must_be_passed:
            if len(layout) <= 5:
                ends = (replay(A100, order) for order in permutations(layout))
                assert list(layout) not in ends
        else:
            assert replay(A100, found.order) == list(layout)


def test_what_is_there_already_counts():
    there = of("1g@0")

    found = creation_order(A100, of("1g@1", "3g@4"), there)

    assert not found.starts_must_be_passed
    assert replay(A100, found.order, there) == sorted([*there, *of("1g@1", "3g@4")])


RULES = {
    "lowest_first": lambda profile: min,
    "highest_first": lambda profile: max,
    "high_for_1g_3g_low_for_rest": lambda profile: max if profile.compute in (1, 3) else min,
}


@needs_shared
@pytest.mark.parametrize(
    ("case", "families"),
    [
        ("base", ("1g", "2g", "3g", "4g", "7g")),
        ("base_double", ("1g", "1g-double", "2g", "3g", "4g", "7g")),
    ],
)
def test_drivers_without_foresight_fail_as_often_as_was_counted(case, families):
    profiles = by_family(A100, *families)
    sets = {multiset(layout) for layout in layouts(A100, profiles) if layout}
    orders = {
        order
        for entry in sets
        for order in orders_of(tuple(name for name, count in entry for _ in range(count)))
    }

    counted = {"orders": len(orders)}
    for rule, choose in RULES.items():
        counted[rule] = sum(succeeds(order, choose) for order in orders)

    assert counted == ORACLES["greedy_creation_orders"][case]


def orders_of(names):
    """Distinct orders of a multiset."""
    if not names:
        return {()}
    return {
        (name, *rest)
        for number, name in enumerate(names)
        if name not in names[:number]
        for rest in orders_of((*names[:number], *names[number + 1 :]))
    }


def succeeds(order, choose):
    made = ()
    for name in order:
        profile = A100.by_name[name]
        starts = open_starts(A100, made, profile)
        if not starts:
            return False
        made = tuple(sorted((*made, Instance(choose(profile)(starts), name))))
    return True
