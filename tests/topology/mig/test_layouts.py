"""What fits beside what, where to cut first, and what is said of what does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.mig.oracles import by_family, instance
from topology.errors import UnknownMigModelError, UnknownMigProfileError
from topology.mig.layouts import (
    Instance,
    best_start,
    clash,
    empty_gpu_takes,
    fits,
    layouts,
    multiset,
    open_starts,
    possibilities,
)
from topology.mig.tables import mig_table

A100 = mig_table("A100-40GB")
H100 = mig_table("H100-80GB")
RTX = mig_table("RTX-PRO-6000-96GB")


def layout(table, *texts):
    return tuple(sorted(instance(table, text) for text in texts))


def test_the_first_small_slice_goes_where_most_remains_possible():
    small = A100.profile("1g.5gb")
    remaining = {s: possibilities(A100, A100.base, layout(A100, f"1g@{s}")) for s in small.starts}

    assert best_start(A100, small) == 6
    assert remaining[6] == 135
    assert max(count for start, count in remaining.items() if start != 6) == 110


def test_a_3g_goes_high_because_low_it_wastes_a_compute_slice():
    assert best_start(H100, H100.profile("3g.40gb")) == 4


def test_nothing_has_a_best_start_on_a_full_gpu():
    assert best_start(H100, H100.profile("1g.10gb"), layout(H100, "7g@0")) is None


def test_two_3g_leave_no_place_and_one_slice_unused():
    both = layout(H100, "3g@0", "3g@4")

    assert fits(H100, both)
    assert not any(open_starts(H100, both, profile) for profile in H100.profiles)


def test_4g_beside_3g_needs_a_driver_of_r510():
    both = layout(H100, "4g@0", "3g@4")

    assert fits(H100, both)
    assert "driver" in str(clash(H100.under_driver(470), both))


def test_a_clash_names_the_instances_and_the_slots():
    found = clash(H100, layout(H100, "2g@4", "3g@4"))

    assert str(found) == "2g.20gb@4 and 3g.40gb@4: both take slots 4, 5"


def test_an_instance_at_no_legal_start_is_told_the_legal_ones():
    found = clash(H100, layout(H100, "2g@1"))

    assert str(found) == "2g.20gb@1: slot 1 is no start of it on h100-80gb; starts: 0, 2, 4"


def test_only_one_instance_gets_the_media_engines():
    two = layout(H100, "1g+me@0", "1g+me@1")

    assert "at most 1" in str(clash(H100, two))
    assert "engines for 1" in str(
        clash(mig_table("A30"), layout(mig_table("A30"), "1g+me@0", "2g+me@2"))
    )


def test_beside_all_media_engines_only_profiles_without_any_fit():
    assert fits(RTX, layout(RTX, "1g+me.all@0", "1g-me@3", "2g-me@6"))
    assert "takes all media engines" in str(clash(RTX, layout(RTX, "1g+me.all@0", "1g@3")))


def test_a_slice_of_an_rtx_pro_6000_spans_three_slots():
    assert open_starts(RTX, layout(RTX, "1g@3"), RTX.profile("2g.48gb")) == (6,)


@pytest.mark.parametrize(
    "families", [("1g", "2g", "3g", "4g", "7g"), ("1g", "1g-double", "2g", "3g", "4g", "7g")]
)
def test_on_an_empty_gpu_slices_and_memory_alone_decide(families):
    profiles = by_family(A100, *families)
    made = {multiset(found) for found in layouts(A100, profiles)}

    def grow(chosen, first):
        yield chosen
        for number in range(first, len(profiles)):
            if empty_gpu_takes(A100, [*chosen, profiles[number]]):
                yield from grow([*chosen, profiles[number]], number)

    def names(chosen):
        counted = {}
        for profile in chosen:
            counted[profile.name] = counted.get(profile.name, 0) + 1
        return tuple(sorted(counted.items()))

    assert {names(chosen) for chosen in grow([], 0)} == made


@given(st.data())
def test_a_start_is_open_exactly_where_the_instance_would_clash_with_nobody(data):
    table = data.draw(st.sampled_from([A100, mig_table("A30"), RTX]))
    held = data.draw(st.sampled_from(list(layouts(table, table.base))))
    profile = data.draw(st.sampled_from(table.profiles))

    opened = open_starts(table, held, profile)

    for start in range(table.slots):
        candidate = tuple(sorted((*held, Instance(start, profile.name))))
        assert (start in opened) == fits(table, candidate)


def test_a_profile_of_another_card_is_told_what_it_means_there():
    with pytest.raises(UnknownMigProfileError) as caught:
        H100.profile("1g.5gb")

    assert "on A100-40GB and others it is the 1g, 1 of 8 memory slots" in str(caught.value)
    assert caught.value.near[0] == "1g.10gb"


def test_one_name_is_two_profiles():
    assert (A100.profile("1g.10gb").family, A100.profile("1g.10gb").size) == ("1g-double", 2)
    assert (H100.profile("1g.10gb").family, H100.profile("1g.10gb").size) == ("1g", 1)


@pytest.mark.parametrize(
    ("model", "written", "name"),
    [
        ("A100-80GB", "7g.79gb", "7g.80gb"),
        ("A100-40GB", "nvidia.com/mig-1g.5gb.me", "1g.5gb+me"),
        ("GB200-186GB", "1g.24gb", "1g.23gb"),
        ("H100-80GB", "3G.40GB", "3g.40gb"),
    ],
)
def test_a_profile_is_found_by_all_names_in_use(model, written, name):
    assert mig_table(model).profile(written).name == name


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("V100-16GB", "cannot be cut"),
        ("RTX-PRO-5000-48GB", "disagree"),
        ("H1OO-80GB", "did you mean H100-80GB"),
    ],
)
def test_a_model_without_known_layouts_is_refused_by_name(model, said):
    with pytest.raises(UnknownMigModelError, match=said) as caught:
        mig_table(model)

    assert model in str(caught.value)


@pytest.mark.parametrize(
    ("memory_gib", "compute", "names"),
    [
        (9, 0, ["1g.10gb"]),
        (15, 0, ["1g.20gb"]),
        (15, 2, ["2g.20gb"]),
        (20, 0, ["3g.40gb"]),
        (9, 4, ["4g.40gb"]),
        (79, 0, ["7g.80gb"]),
        (81, 0, []),
    ],
)
def test_a_wish_for_memory_and_slices_means_the_smallest_profiles(memory_gib, compute, names):
    found = H100.at_least(memory_gib * 1024, compute)

    assert [profile.name for profile in found] == names
