"""Who fails, and when they are trusted again."""

from dataclasses import replace

import pytest

from plugin.devices.base import XidEvent
from plugin.health import HealthBook
from plugin.resources import Device, Resource
from plugin.xids import XIDS, XidAction, XidPolicy
from tests.plugin.building import gpu, whole


def book(**facts: object) -> HealthBook:
    return HealthBook(hold_down_s=10, flap_window_s=1000, flap_limit=3, **facts)


def test_a_failed_gpu_is_trusted_after_being_well_for_the_hold_down():
    health = book()
    health.observe(XidEvent(xid=79, gpu="A"), ["A", "B"], 0)
    assert health.why("A") == "XID 79: the GPU has fallen off the bus"
    assert health.why("B") is None

    health.probed("A", None, 5)
    health.probed("A", None, 14)
    assert health.why("A") is not None
    health.probed("A", None, 15)

    assert health.why("A") is None


def test_a_probe_that_fails_starts_the_hold_down_anew():
    health = book()
    health.observe(XidEvent(xid=79, gpu="A"), ["A"], 0)
    health.probed("A", None, 1)
    health.probed("A", "GPU is lost", 9)

    health.probed("A", None, 12)
    health.probed("A", None, 20)

    assert health.why("A") is not None


def test_time_in_which_nobody_could_look_is_no_time_of_being_well():
    health = book()
    health.observe(XidEvent(xid=79, gpu="A"), ["A"], 0)
    health.probed("A", None, 1)
    health.unseen("A")

    health.probed("A", None, 50)
    assert health.why("A") is not None
    health.probed("A", None, 60)

    assert health.why("A") is None


def test_c1_a_gpu_that_fails_again_and_again_stays_out():
    health = book()
    at = 0.0
    for _ in range(3):
        health.observe(XidEvent(xid=48, gpu="A"), ["A"], at)
        at += 1
    for _ in range(20):
        at += 20
        health.probed("A", None, at)
    assert health.why("A") is not None

    health.probed("A", None, 1100)
    health.probed("A", None, 1200)

    assert health.why("A") is None


def test_each_failure_doubles_the_hold_down():
    health = book()
    health.observe(XidEvent(xid=48, gpu="A"), ["A"], 0)
    health.observe(XidEvent(xid=48, gpu="A"), ["A"], 1)
    health.probed("A", None, 2)

    health.probed("A", None, 21)
    assert health.why("A") is not None
    health.probed("A", None, 22)

    assert health.why("A") is None


def test_c2_an_error_of_the_gpu_hits_every_share_and_instance():
    cut = gpu(0, "1g.10gb", "1g.10gb")
    instances = Resource(
        name="m", devices=tuple(Device(gpu=cut, instance=i) for i in cut.instances)
    )
    health = book()

    health.observe(XidEvent(xid=79, gpu="GPU-0"), ["GPU-0"], 0)

    assert list(health.sick(whole(2, 3))) == ["GPU-0::0", "GPU-0::1", "GPU-0::2"]
    assert list(health.sick(instances)) == ["MIG-0-1", "MIG-0-2"]


def test_c2_an_error_of_an_instance_hits_it_alone():
    cut = gpu(0, "1g.10gb", "1g.10gb")
    instances = Resource(
        name="m", devices=tuple(Device(gpu=cut, instance=i) for i in cut.instances)
    )
    health = book()

    health.observe(XidEvent(xid=94, gpu="GPU-0", gi=2, ci=0), ["GPU-0"], 0)

    assert list(health.sick(instances)) == ["MIG-0-2"]


def test_a_gpu_with_a_fault_is_sick_whatever_was_observed():
    lost = replace(whole(1), devices=(Device(gpu=gpu(0, fault="GPU is lost")),))

    assert list(book().sick(lost)) == ["GPU-0"]


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_errors_of_applications_are_ignored(xid: int):
    assert book().observe(XidEvent(xid=xid, gpu="A"), ["A"], 0) is XidAction.IGNORE


def test_unknown_errors_are_taken_seriously():
    assert XidPolicy().action(9999) is XidAction.UNHEALTHY


@pytest.mark.parametrize(
    ("environ", "xid", "action"),
    [
        ({"DP_DISABLE_HEALTHCHECKS": "all"}, 79, "ignore"),
        ({"DP_DISABLE_HEALTHCHECKS": "xids"}, 79, "ignore"),
        ({"DP_DISABLE_HEALTHCHECKS": "69, 79,bad"}, 79, "ignore"),
        ({"DP_DISABLE_HEALTHCHECKS": "69"}, 79, "unhealthy"),
        ({"DP_DISABLE_HEALTHCHECKS": "79", "DP_ENABLE_HEALTHCHECKS": "79"}, 79, "unhealthy"),
        ({"DP_ENABLE_HEALTHCHECKS": "31"}, 31, "unhealthy"),
        ({"DP_ENABLE_HEALTHCHECKS": "all"}, 13, "unhealthy"),
    ],
)
def test_nvidia_s_variables_are_honoured(environ: dict[str, str], xid: int, action: str):
    assert XidPolicy.from_environment(environ).action(xid).value == action


def test_every_row_of_the_table_has_a_reason():
    assert all(row.reason for row in XIDS.values())
