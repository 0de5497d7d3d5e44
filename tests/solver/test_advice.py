"""Who should share a GPU how: the rules one by one, and the numbers beside them."""

import pytest

from solver.advice import Device, Mechanism, Tier, advise, options_on
from topology.mig.tables import mig_table

H100 = Device(model="H100-80GB", memory_mib=81559, table=mig_table("H100-80GB"))
L4 = Device(model="L4-24GB", memory_mib=23034, table=None)


def tier(**changes):
    return Tier(**{"name": "t", "memory_mib": 9000, "busy_ratio": 0.1, **changes})


def chosen(asked, *devices):
    (advice,) = advise([asked], devices or (H100,))
    return advice.chosen.mechanism


@pytest.mark.parametrize(
    ("asked", "mechanism"),
    [
        (tier(trusted=False, work="interactive"), Mechanism.MIG),
        (tier(trusted=False, gpus=4), Mechanism.WHOLE),
        (tier(work="latency"), Mechanism.MIG),
        (tier(work="latency", burst=True), Mechanism.MPS),
        (tier(work="batch"), Mechanism.MPS),
        (tier(work="interactive"), Mechanism.TIME_SLICING),
        (tier(work="batch", memory_mib=60_000), Mechanism.WHOLE),
        (tier(work="batch", busy_ratio=0.9), Mechanism.WHOLE),
    ],
)
def test_each_tier_gets_what_suits_it(asked, mechanism):
    assert chosen(asked) is mechanism


def test_where_a_gpu_cannot_be_cut_the_untrusted_get_it_whole():
    assert chosen(tier(trusted=False), L4) is Mechanism.WHOLE


def test_the_untrusted_go_where_a_gpu_can_be_cut():
    (advice,) = advise([tier(trusted=False)], (L4, H100))

    assert (advice.device.model, advice.chosen.mechanism) == ("H100-80GB", Mechanism.MIG)


def test_memory_is_a_hard_limit_and_oversubscription_has_to_be_allowed():
    busy = {"memory_mib": 10_000, "busy_ratio": 0.4}

    careful = options_on(tier(**busy), H100)[Mechanism.TIME_SLICING]
    daring = options_on(tier(**busy, oversubscribe=True), H100)[Mechanism.TIME_SLICING]

    assert (careful.per_gpu, careful.slowdown) == (2, 1.0)
    assert (daring.per_gpu, daring.utilization_ratio) == (8, 1.0)
    assert daring.slowdown == pytest.approx(3.2)


def test_an_instance_delivers_its_slices_and_no_more():
    option = options_on(tier(busy_ratio=0.5), H100)[Mechanism.MIG]

    assert option.profile.name == "1g.10gb"
    assert option.slowdown == pytest.approx(3.5)
    assert option.per_gpu == 7


def test_latency_takes_as_many_slices_as_it_keeps_busy():
    option = options_on(tier(busy_ratio=0.4, work="latency"), H100)[Mechanism.MIG]

    assert option.profile.name == "3g.40gb"
    assert option.slowdown == 1.0


def test_a_tier_that_no_gpu_can_hold_is_refused():
    with pytest.raises(ValueError, match="needs 99999 MiB"):
        advise([tier(memory_mib=99_999)], (H100, L4))
