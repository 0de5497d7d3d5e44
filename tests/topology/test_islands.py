"""Disjoint linked sets are counted exactly."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.graph import NodeTopology
from topology.islands import is_fully_connected, max_disjoint_linked_sets, nvlink_cliques
from topology.links import Link
from topology.presets import preset
from topology.scoring import is_linked


def brute_force(topology, free, size):
    """Take away every linked set in turn, and look at what is left."""
    linked = [gpus for gpus in combinations(sorted(free), size) if is_linked(topology, gpus)]
    return max(
        (1 + brute_force(topology, tuple(set(free) - set(gpus)), size) for gpus in linked),
        default=0,
    )


@st.composite
def direct_nodes(draw):
    n_gpus = draw(st.integers(1, 7))
    pairs = list(combinations(range(n_gpus), 2))
    linked = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    free = draw(st.sets(st.integers(0, n_gpus - 1)))
    links = dict.fromkeys(linked, Link.parse("NV2"))
    return NodeTopology("drawn", [None] * n_gpus, gpu_links=links), tuple(sorted(free))


@given(direct_nodes(), st.integers(1, 4))
@settings(deadline=None)
def test_the_count_equals_brute_force(node, size):
    topology, free = node

    assert max_disjoint_linked_sets(topology, free, size) == brute_force(topology, free, size)


@given(direct_nodes(), st.integers(1, 4))
@settings(deadline=None)
def test_one_more_free_gpu_never_hurts(node, size):
    topology, free = node
    every = tuple(range(topology.n_gpus))

    most = max_disjoint_linked_sets(topology, every, size)

    assert max_disjoint_linked_sets(topology, free, size) <= most


@given(st.sets(st.integers(0, 7)), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_the_cube_mesh_equals_brute_force(free, size):
    topology, gpus = preset("dgx-1v"), tuple(sorted(free))

    assert max_disjoint_linked_sets(topology, gpus, size) == brute_force(topology, gpus, size)


@pytest.mark.parametrize("name", ["dgx-2", "hgx-h100", "h100-4", "mi300x"])
def test_behind_a_switch_or_in_a_mesh_gpus_are_only_counted(name):
    topology = preset(name)
    free = tuple(range(1, topology.n_gpus))

    assert max_disjoint_linked_sets(topology, free, 2) == len(free) // 2


def test_broken_pairs_do_not_count():
    topology = preset("a100-pcie-pairs-8")

    assert max_disjoint_linked_sets(topology, (1, 2, 3, 4, 5, 6), 2) == 2
    assert max_disjoint_linked_sets(topology, tuple(range(8)), 3) == 0


def test_single_gpus_are_always_linked():
    assert max_disjoint_linked_sets(preset("t4"), (0, 2, 3), 1) == 3


def test_no_gpu_free_is_no_set():
    assert max_disjoint_linked_sets(preset("hgx-h100"), (), 2) == 0


def test_a_set_of_none_is_refused():
    with pytest.raises(ValueError, match="at least one GPU"):
        max_disjoint_linked_sets(preset("t4"), (0,), 0)


def test_cliques_need_every_pair():
    topology = preset("dgx-1v")

    assert nvlink_cliques(topology, 4) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert is_fully_connected(topology, (0, 1, 2, 3))
    assert not is_fully_connected(topology, (0, 1, 4, 5))
