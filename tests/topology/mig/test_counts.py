"""How many layouts a GPU has, against counts that are known from elsewhere."""

from dataclasses import replace

import pytest

from tests.paths import SHARED, needs_shared
from tests.topology.mig.oracles import by_family, instance, oracles
from topology.mig.layouts import counts, maximal_layouts, multiset, open_starts
from topology.mig.tables import mig_table, supported

BASE = ("1g", "2g", "3g", "4g", "7g")

ORACLES = oracles()


def every_model(case):
    return [mig_table(model) for model in ORACLES.get("cases", {}).get(case, {}).get("models", [])]


def counted(case, table, profiles):
    found = counts(table, profiles)
    return case["counts"] == {
        "placement_distinct": found.placements,
        "multisets": found.multisets,
        "maximal_placement_distinct": found.maximal,
        "multisets_of_maximal": found.multisets_of_maximal,
        "inclusion_maximal_multisets": found.inclusion_maximal,
    }


CASES = [
    ("7slice/base", lambda t: (t, t.base)),
    ("7slice/base-pre-r510", lambda t: (t.under_driver(470), t.base)),
    ("7slice/base+double", lambda t: (t, by_family(t, *BASE, "1g-double"))),
    ("7slice/base+me", lambda t: (t, by_family(t, *BASE, "1g+me"))),
    ("7slice/base+double+me", lambda t: (t, t.profiles)),
]
A30 = [
    ("a30/base", lambda t: (t, t.base)),
    ("a30/base+me-independent", lambda t: (replace(t, media=2), t.profiles)),
    ("a30/base+me-single", lambda t: (t, t.profiles)),
]


@needs_shared
@pytest.mark.parametrize(("case", "with_profiles"), CASES)
def test_seven_slice_layouts_are_as_many_as_counted_by_hand(case, with_profiles):
    for table in every_model("7slice/base"):
        table, profiles = with_profiles(table)

        assert counted(ORACLES["cases"][case], table, profiles), table.model


@needs_shared
@pytest.mark.parametrize(("case", "with_profiles"), A30)
def test_a30_layouts_are_as_many_as_counted_by_hand(case, with_profiles):
    assert counted(ORACLES["cases"][case], *with_profiles(mig_table("A30")))


@needs_shared
def test_an_rtx_pro_6000_has_twelve_slots_and_the_layouts_of_four():
    table = mig_table("RTX-PRO-6000-96GB")

    assert counted(ORACLES["cases"]["rtx-pro-6000/base"], table, table.base)


@needs_shared
def test_the_maximal_layouts_themselves_are_the_listed_ones():
    table = mig_table("H100-80GB")
    listed = ORACLES["cases"]["7slice/base"]["maximal_layouts"]

    found = {frozenset(layout) for layout in maximal_layouts(table, table.base)}

    assert found == {frozenset(instance(table, text) for text in layout) for layout in listed}


@needs_shared
@pytest.mark.parametrize("case", ["7slice/base", "7slice/base+double"])
def test_every_largest_multiset_is_made_by_a_maximal_layout(case):
    table = mig_table("H100-80GB")
    profiles = by_family(table, *BASE, *(["1g-double"] if case.endswith("double") else []))
    names = {profile.family: profile.name for profile in profiles}
    made = {multiset(layout) for layout in maximal_layouts(table, profiles)}

    for listed in ORACLES["cases"][case]["inclusion_maximal"]:
        assert tuple(sorted((names[family], n) for family, n in listed.items())) in made


@needs_shared
@pytest.mark.parametrize("after", ORACLES.get("feasible_starts_after", []), ids=str)
def test_what_is_open_beside_instances_is_as_listed(after):
    table = mig_table("A100-80GB")
    layout = tuple(sorted(instance(table, text) for text in after["occupied"]))

    for family, starts in after["starts"].items():
        (profile,) = by_family(table, family)
        assert list(open_starts(table, layout, profile)) == starts, family


@needs_shared
def test_every_start_table_is_the_one_of_the_reference():
    import yaml

    data = yaml.safe_load((SHARED / "data" / "mig_profiles.yaml").read_text(encoding="utf-8"))
    known = [model for model in data["models"] if model["placements_status"] != "unknown"]

    for model in known:
        table = mig_table(model["id"])
        for row in model["profiles"]:
            profile = table.by_name[row["name"]]
            assert list(profile.starts) == row["placements"]["starts"], (model["id"], row["name"])
            assert profile.size == row["placements"]["size"]
            assert profile.compute == row["compute_slices"]
            assert profile.most == row["max_instances"]
            assert profile.smi_id == row["nvidia_smi_id"]
    assert {mig_table(name).model for name in supported()} == {model["id"] for model in known}
