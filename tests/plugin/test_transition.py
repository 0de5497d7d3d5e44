"""No ID in use is dropped, and none vanishes without a word."""

from hypothesis import given
from hypothesis import strategies as st

from plugin.transition import FAREWELL_S, step
from tests.plugin.building import whole


def test_7_5_an_id_that_leaves_is_unhealthy_first_and_dropped_later():
    before = ["GPU-0", "GPU-7"]

    now = step(before, {}, whole(1), frozenset(), 100)
    later = step(before, now.leaving, whole(1), frozenset(), 100 + FAREWELL_S)

    assert now.leaving == {"GPU-7": 100}
    assert later.leaving == {}


def test_7_5_an_id_in_use_stays_for_as_long_as_it_is():
    held = frozenset({"GPU-7"})

    late = step(["GPU-7"], {"GPU-7": 0}, whole(1), held, 10_000)

    assert set(late.leaving) == {"GPU-7"}


def test_an_id_of_which_nobody_knows_who_holds_it_stays_too():
    late = step(["GPU-7"], {"GPU-7": 0}, whole(1), None, 10_000)

    assert set(late.leaving) == {"GPU-7"}


def test_fewer_shares_keep_those_in_use_healthy():
    held = frozenset({"GPU-0::3"})

    now = step(whole(1, 4).owner, {}, whole(1, 2), held, 0)

    assert now.resource.ids == (("GPU-0::0", "GPU-0::1", "GPU-0::3"),)
    assert set(now.leaving) == {"GPU-0::2"}
    assert not now.withheld


def test_a_gpu_held_whole_is_not_shared_and_a_shared_one_not_given_whole():
    to_shares = step(["GPU-0"], {}, whole(1, 2), frozenset({"GPU-0"}), 0)
    to_whole = step(["GPU-0::0", "GPU-0::1"], {}, whole(1), frozenset({"GPU-0::1"}), 0)

    assert to_shares.withheld == {"GPU-0::0", "GPU-0::1"}
    assert to_whole.withheld == {"GPU-0"}


def test_what_is_held_under_another_name_is_not_given_out_under_the_new_one():
    whole_held = step([], {}, whole(2, 2), frozenset(), 0, frozenset({"GPU-0"}))
    share_held = step([], {}, whole(2, 2), frozenset(), 0, frozenset({"GPU-0::1"}))
    shares_to_whole = step([], {}, whole(2), frozenset(), 0, frozenset({"GPU-1::0"}))

    assert whole_held.withheld == {"GPU-0::0", "GPU-0::1"}
    assert share_held.withheld == {"GPU-0::1"}
    assert shares_to_whole.withheld == {"GPU-1"}


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4), st.data())
def test_7_5_every_id_in_use_is_still_advertised(
    had: int, gets: int, shares_before: int, shares_after: int, data: st.DataObject
):
    before = list(whole(had, shares_before).owner)
    held = frozenset(data.draw(st.sets(st.sampled_from(before)))) if before else frozenset()

    now = step(before, {}, whole(gets, shares_after), held, 0)

    assert held <= {*now.resource.owner, *now.leaving}
    assert not held & now.withheld
