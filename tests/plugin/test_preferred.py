"""Which devices a container should get: always an answer, and one that spares the next pod."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.allocation.preferred import least_damage, preferred
from plugin.config import SharePolicy
from plugin.resources import Device, Resource
from tests.plugin.building import gpu, whole
from topology.islands import max_disjoint_linked_sets
from topology.presets import PRESETS, preset
from topology.scoring import bottleneck_gb_s

PAIRS = preset("a100-pcie-pairs-8")


@given(st.data())
def test_7_3_the_answer_is_exact_or_empty_whatever_is_asked(data: st.DataObject):
    resource = whole(8, data.draw(st.sampled_from([0, 2, 5])))
    ids = [one for group in resource.ids for one in group]
    strange = st.sampled_from([*ids, "GPU-elsewhere", "", "GPU-0::99"])
    available = data.draw(st.lists(strange, max_size=40))
    must = data.draw(st.lists(strange, max_size=4))
    size = data.draw(st.integers(-2, 12))
    policy = data.draw(st.sampled_from(SharePolicy))

    answer = preferred(resource, PAIRS, available, must, size, policy)

    known = {one for one in (*available, *must) if one in resource.owner}
    fixed = {one for one in must if one in resource.owner}
    if 0 < size <= len(known) and len(fixed) <= size:
        assert len(set(answer)) == len(answer) == size
        assert fixed <= set(answer) <= known
    else:
        assert answer == ()


@given(
    st.sets(st.integers(0, 7), min_size=1),
    st.integers(1, 8),
    st.sampled_from(["a100-pcie-pairs-8", "dgx-1v", "l40s", "hgx-h100"]),
)
def test_no_set_has_a_faster_slowest_pair(free: set[int], size: int, name: str):
    topology = preset(name)
    given_gpus = tuple(sorted(free))
    if size > len(given_gpus):
        return

    chosen = least_damage(topology, given_gpus, (), size)

    fastest = max(bottleneck_gb_s(topology, gpus) for gpus in combinations(given_gpus, size))
    assert bottleneck_gb_s(topology, chosen) == fastest


@given(st.sets(st.integers(0, 7), min_size=1))
def test_a_single_gpu_leaves_as_many_nvlink_pairs_as_can_be(free: set[int]):
    given_gpus = tuple(sorted(free))

    (chosen,) = least_damage(PAIRS, given_gpus, (), 1)

    def pairs_without(one: int) -> int:
        rest = tuple(gpu for gpu in given_gpus if gpu != one)
        return max_disjoint_linked_sets(PAIRS, rest, 2)

    assert pairs_without(chosen) == max(pairs_without(one) for one in given_gpus)


def test_what_is_fixed_is_kept_and_gets_its_partner():
    assert least_damage(PAIRS, (0, 2, 3, 5, 4), (5,), 2) == (4, 5)


@pytest.mark.parametrize("name", [name for name in PRESETS if preset(name).n_gpus == 16])
def test_sixteen_gpus_are_answered(name: str):
    assert len(least_damage(preset(name), tuple(range(16)), (), 8)) == 8


def test_sixteen_gpus_that_are_not_alike_are_answered_by_growing():
    pairs = preset("a100-pcie-pairs-8")
    from topology.graph import NodeTopology
    from topology.links import Link

    links = {(a, a + 1): Link.parse("NV12") for a in range(0, 16, 2)}
    sixteen = NodeTopology("sixteen", [pairs.gpu_models[0]] * 16, None, links)

    chosen = least_damage(sixteen, tuple(range(1, 16)), (), 7)

    assert sum({a, a + 1} <= set(chosen) for a in range(0, 16, 2)) == 3
    assert 1 in chosen, "the GPU whose partner is taken is the seventh"


def test_distributed_takes_the_device_with_most_left_and_packed_the_one_with_least():
    resource = whole(3, 4)
    available = [*resource.ids[0][:1], *resource.ids[1][:3], *resource.ids[2]]

    spread = preferred(resource, PAIRS, available, (), 1)
    packed = preferred(resource, PAIRS, available, (), 1, SharePolicy.PACKED)

    assert spread[0].startswith("GPU-2::")
    assert packed[0].startswith("GPU-0::")


def test_c16_two_shares_are_never_of_one_gpu_while_there_are_two():
    resource = whole(2, 4)
    available = [*resource.ids[0], resource.ids[1][3]]

    answer = preferred(resource, PAIRS, available, (), 2)

    assert {one.split("::")[0] for one in answer} == {"GPU-0", "GPU-1"}


def test_instances_come_from_gpus_that_are_in_use_already():
    gpus = [gpu(index, "1g.10gb", "1g.10gb", "1g.10gb") for index in range(2)]
    devices = tuple(Device(gpu=one, instance=i) for one in gpus for i in one.instances)
    resource = Resource(name="nvidia.com/mig-1g.10gb", devices=devices)
    available = [device.uuid for device in devices if device.uuid != "MIG-1-2"]

    answer = preferred(resource, PAIRS, available, (), 2)

    assert set(answer) == {"MIG-1-1", "MIG-1-3"}
