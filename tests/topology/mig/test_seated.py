"""Starts for instances of which only the profiles are known."""

from hypothesis import given
from hypothesis import strategies as st

from topology.mig.layouts import Instance, fits, open_starts, seated
from topology.mig.tables import mig_table

A100 = mig_table("A100-80GB")
NAMES = [profile.name for profile in A100.base]


def starts(*names: str) -> list[str] | None:
    found = seated(A100, [A100.profile(name) for name in names])
    return None if found is None else [str(instance) for instance in found]


def test_the_large_ones_come_first_whatever_the_order():
    assert starts("1g.10gb", "3g.40gb", "3g.40gb") is None
    assert starts("1g.10gb", "3g.40gb", "2g.20gb") == ["3g.40gb@0", "2g.20gb@4", "1g.10gb@6"]
    assert starts() == []


@given(st.lists(st.sampled_from(NAMES), max_size=7))
def test_a_layout_is_found_wherever_there_is_one(names):
    profiles = [A100.profile(name) for name in names]

    def possible(left: tuple, layout: tuple) -> bool:
        if not left:
            return True
        return any(
            possible(left[1:], tuple(sorted((*layout, Instance(start, left[0].name)))))
            for start in open_starts(A100, layout, left[0])
        )

    found = seated(A100, profiles)

    assert (found is not None) == possible(tuple(profiles), ())
    if found is not None:
        assert fits(A100, found)
        assert sorted(i.profile for i in found) == sorted(names)
