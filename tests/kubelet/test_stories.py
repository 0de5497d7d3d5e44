"""What happens between a kubelet and the plugin: the same stories for the mock and the real one.

A story that fails with one of them only is a bug of the mock, or of ours.
"""

import fcntl
import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin import transition
from tests.kubelet.driver import (
    GPU,
    Kubelet,
    Plugin,
    PluginProcess,
    RefusedError,
    eventually,
)

Starts = Callable[..., Plugin]
SEVEN = [{"profile": "1g.10gb", "start": start} for start in range(7)]
MIXED = {"flags": {"migStrategy": "mixed"}}


def shared(replicas: int, **rest: object) -> dict[str, object]:
    entries = [{"name": GPU, "replicas": replicas}]
    return {"sharing": {"timeSlicing": {"resources": entries, **rest}}}


# --- registration and restarts -----------------------------------------------------------------


def test_a_plugin_registers_with_a_kubelet_that_starts_later(kubelet: Kubelet, plugin: Starts):
    plugin()
    time.sleep(0.3)

    kubelet.do("start")

    eventually(lambda: kubelet.allocatable() == 8)


def test_7_1_twenty_restarts_in_a_row_end_in_full_capacity_within_two_seconds_each(
    kubelet: Kubelet, plugin: Starts
):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    took_s = []
    for _ in range(20):
        kubelet.do("restart")
        took_s.append(eventually(lambda: kubelet.allocatable() == 8))

    assert max(took_s) < 2
    assert len(kubelet.our_sockets()) == 1


def test_a_restart_is_noticed_without_inotify(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin(inotify=False)
    eventually(lambda: kubelet.allocatable() == 8)

    kubelet.do("restart")

    assert eventually(lambda: kubelet.allocatable() == 8) < 2


def test_the_socket_folder_is_deleted_and_made_anew(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    kubelet.do("stop")
    shutil.rmtree(kubelet.plugins)
    time.sleep(0.3)
    kubelet.do("start")

    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.do("restart")
    eventually(lambda: kubelet.allocatable() == 8)


def test_a_deleted_socket_of_ours_comes_back(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    (before,) = kubelet.our_sockets()

    (kubelet.plugins / before).unlink()

    eventually(lambda: kubelet.our_sockets() not in ([], [before]))
    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("pod", {GPU: 8})


def test_a_late_first_snapshot_shows_nothing_before(kubelet: Kubelet, plugin: Starts, root: Path):
    kubelet.do("start")
    (root / "fake.json").write_text('{"slow_s": 1.5}')

    plugin()
    time.sleep(0.2)

    assert kubelet.capacity() is None
    eventually(lambda: kubelet.allocatable() == 8)


def test_a_slow_driver_does_not_hold_a_restart_up(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    ours.state.set(slow_s=3)
    time.sleep(0.3)

    kubelet.do("restart")

    assert eventually(lambda: kubelet.allocatable() == 8) < 1
    kubelet.admit("pod", {GPU: 2})
    ours.state.set()


def test_the_plugin_watcher_finds_us_and_finds_us_again(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin(watcher=True)
    eventually(lambda: kubelet.allocatable() == 8)

    kubelet.do("restart")

    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("pod", {GPU: 1})


def test_a_plugin_that_stops_leaves_no_socket_and_nothing_allocatable(
    kubelet: Kubelet, plugin: Starts
):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.stop()

    assert kubelet.our_sockets() == []
    eventually(lambda: (kubelet.capacity(), kubelet.allocatable()) == (8, 0))
    ours.start()
    eventually(lambda: kubelet.allocatable() == 8)


def test_two_plugins_at_once_take_turns(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    first, second = plugin(), plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    eventually(lambda: "lock" in {**first.daemon.unready, **second.daemon.unready})
    assert len(kubelet.our_sockets()) == 1
    serving = first if "lock" in second.daemon.unready else second

    serving.stop()

    eventually(lambda: kubelet.allocatable() == 8)
    serving.start()


def test_a_plugin_whose_lock_was_deleted_and_taken_serves_no_more(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    (lock,) = kubelet.plugins.glob(".unstrand_*lock")

    lock.unlink()
    with lock.open("w") as file:  # another process, quicker than ours
        fcntl.flock(file, fcntl.LOCK_EX)
        eventually(lambda: not kubelet.our_sockets())
        assert "lock" in ours.daemon.unready

    eventually(lambda: kubelet.allocatable() == 8)
    assert len(kubelet.our_sockets()) == 1


def test_a_killed_plugin_leaves_a_socket_that_the_next_one_sweeps(kubelet: Kubelet, root: Path):
    kubelet.do("start")
    first = PluginProcess(root)
    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("pod", {GPU: 2})

    first.stop(signal.SIGKILL)
    stale = kubelet.our_sockets()
    eventually(lambda: kubelet.allocatable() == 0)
    second = PluginProcess(root)

    eventually(lambda: kubelet.allocatable() == 8)
    assert len(stale) == 1
    assert set(stale).isdisjoint(kubelet.our_sockets())
    with pytest.raises(RefusedError, match="Available: 6"):
        kubelet.admit("seven", {GPU: 7})
    assert second.stop() == 0
    assert kubelet.our_sockets() == []


# --- health ------------------------------------------------------------------------------------


def test_7_4_an_unhealthy_gpu_recovers_without_a_restart(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(xids=[{"xid": 79, "gpu": 0}])

    eventually(lambda: (kubelet.capacity(), kubelet.allocatable()) == (8, 7))
    eventually(lambda: kubelet.allocatable() == 8)


def test_an_application_error_changes_nothing(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(xids=[{"xid": 31, "gpu": 0}, {"xid": 79, "gpu": 1}])

    eventually(lambda: kubelet.allocatable() == 7)
    assert set(ours.daemon.health.suspects) == {ours.uuid(1)}


def test_7_4_an_error_of_a_shared_gpu_hits_all_its_shares(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin(config=shared(10))
    eventually(lambda: kubelet.allocatable() == 80)

    ours.state.set(lost=[2])

    eventually(lambda: kubelet.allocatable() == 70)


@pytest.mark.parametrize(
    ("event", "left"),
    [({"gi": 3, "ci": 0}, 6), ({"gi": 0xFFFFFFFF, "ci": 0xFFFFFFFF}, 0), ({}, 0)],
    ids=["one instance", "no instance means all", "the GPU"],
)
def test_an_error_of_an_instance_hits_that_instance(
    kubelet: Kubelet, plugin: Starts, root: Path, event: dict[str, int], left: int
):
    kubelet.do("start")
    (root / "fake.json").write_text(json.dumps({"mig": {"0": SEVEN}}))
    ours = plugin(config=MIXED)
    eventually(lambda: kubelet.allocatable("nvidia.com/mig-1g.10gb") == 7)

    ours.state.set(mig={"0": SEVEN}, xids=[{"xid": 94, "gpu": 0, **event}])

    eventually(lambda: kubelet.allocatable("nvidia.com/mig-1g.10gb") == left)


def test_an_error_without_a_gpu_is_about_all(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(xids=[{"xid": 79}])

    eventually(lambda: kubelet.allocatable() == 0)


def test_a_lost_gpu_does_not_fail_other_pods(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(lost=[3])
    eventually(lambda: kubelet.allocatable() == 7)

    kubelet.admit("one", {GPU: 1})
    kubelet.admit("four", {GPU: 4})


def test_a_restart_does_not_heal_a_gpu_that_still_fails(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    ours.state.set(lost=[3])
    eventually(lambda: kubelet.allocatable() == 7)

    ours.stop()
    eventually(lambda: kubelet.allocatable() == 0)
    ours.start()

    eventually(lambda: kubelet.allocatable())
    assert kubelet.allocatable() == 7


def test_a_monitor_that_breaks_takes_no_gpu_away_and_heals_none(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    # Four errors: the hold-down is 1.6 s, long enough for this test to be slow.
    xids = [{"xid": 79, "gpu": 0}] * 4
    ours.state.set(xids=xids, monitor="Unknown Error")
    eventually(lambda: {"events", "probe"} <= set(ours.daemon.unready))
    assert kubelet.allocatable() == 8

    ours.state.set(xids=xids)
    eventually(lambda: kubelet.allocatable() == 7)
    ours.state.set(xids=xids, monitor="Unknown Error")
    time.sleep(2.0)  # more than the hold-down, in which nothing was learnt
    assert kubelet.allocatable() == 7
    ours.state.set(xids=xids)

    eventually(lambda: kubelet.allocatable() == 8)
    eventually(lambda: not ours.daemon.unready)


def test_an_error_is_told_while_the_devices_cannot_be_listed(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(driver="Unknown Error", xids=[{"xid": 79, "gpu": 0}])

    eventually(lambda: kubelet.allocatable() == 7)


def test_an_unmonitored_gpu_is_given_out_and_seen_as_such(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    ours.state.set(unmonitored=[2])

    eventually(lambda: "GPU 2 is unmonitored" in "".join(ours.daemon.remarks))
    assert "unstrand_plugin_unmonitored_gpus 1.0" in ours.daemon.metrics.text().decode()
    assert kubelet.allocatable() == 8
    assert not ours.daemon.unready


def test_instances_that_may_not_be_seen_make_it_unready_with_the_way_out(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    (root / "fake.json").write_text('{"mig": {"0": []}, "hidden": [0]}')

    ours = plugin(config=MIXED)

    eventually(lambda: kubelet.allocatable() == 7)
    assert "NVIDIA_MIG_MONITOR_DEVICES=all" in ours.daemon.unready["mig"]
    ours.state.set(mig={"0": SEVEN})
    eventually(lambda: kubelet.allocatable("nvidia.com/mig-1g.10gb") == 7)
    eventually(lambda: not ours.daemon.unready)


def test_the_status_of_a_pod_tells_of_its_failed_device(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("all", {GPU: 8})

    ours.state.set(lost=[5])

    eventually(lambda: kubelet.do("health", uid="all").get(ours.uuid(5)) == "Unhealthy")


def test_mps_shares_are_healthy_while_their_daemon_is_there(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    mps = {"resources": [{"name": GPU, "replicas": 4}]}
    config = {"flags": {"mpsRoot": str(root / "mps")}, "sharing": {"mps": mps}}
    plugin(config=config, fake="h100-4")
    eventually(lambda: (kubelet.capacity(), kubelet.allocatable()) == (16, 0))

    (root / "mps" / "gpu" / "pipe").mkdir(parents=True)
    (root / "mps" / "gpu" / "pipe" / "control").touch()

    eventually(lambda: kubelet.allocatable() == 16)
    kubelet.admit("pod", {GPU: 1})
    assert kubelet.told("pod")["envs"]["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/gpu/pipe"


# --- allocation --------------------------------------------------------------------------------


def test_a_small_pod_leaves_nvlink_pairs_whole(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    ours = plugin(fake="a100-pcie-pairs-8")
    eventually(lambda: kubelet.allocatable() == 8)

    single = [kubelet.admit(f"single-{n}", {GPU: 1})["c0"][GPU][0] for n in range(2)]
    pairs = [kubelet.admit(f"pair-{n}", {GPU: 2})["c0"][GPU] for n in range(3)]

    index = {ours.uuid(i): i for i in range(8)}
    assert len({index[one] // 2 for one in single}) == 1
    assert all(len({index[one] // 2 for one in pair}) == 1 for pair in pairs)


def test_two_shares_are_of_two_gpus(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin(config=shared(4))
    eventually(lambda: kubelet.allocatable() == 32)

    kubelet.admit("pod", {GPU: 2})

    assert len(kubelet.told("pod")["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2


def test_a_thousand_shares(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin(config=shared(125))
    eventually(lambda: kubelet.allocatable() == 1000)

    held = kubelet.admit("pod", {GPU: 8})["c0"][GPU]

    assert len({one.split("::")[0] for one in held}) == 8


def test_more_than_one_share_may_be_refused(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin(config=shared(4, failRequestsGreaterThanOne=True))
    eventually(lambda: kubelet.allocatable() == 32)

    with pytest.raises(RefusedError, match="2 shares asked for, one is allowed"):
        kubelet.admit("two", {GPU: 2})

    kubelet.admit("one", {GPU: 1})


def test_more_than_there_is_fails_the_pod_only(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    with pytest.raises(RefusedError, match=r"Requested: 9, Available: 8"):
        kubelet.admit("nine", {GPU: 9})

    kubelet.admit("eight", {GPU: 8})


def test_an_init_container_hands_its_gpus_on(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)

    held = kubelet.admit("pod", {GPU: 8}, init=({GPU: 3},))

    assert set(held["i0"][GPU]) <= set(held["c0"][GPU])
    assert len(held["c0"][GPU]) == 8


@pytest.mark.parametrize("strategy", ["envvar", "cdi-cri"])
def test_two_kinds_of_instance_in_one_container_need_cdi(
    kubelet: Kubelet, plugin: Starts, root: Path, strategy: str
):
    kubelet.do("start")
    layout = [{"profile": "3g.40gb", "start": 4}, {"profile": "2g.20gb", "start": 0}]
    (root / "fake.json").write_text(json.dumps({"mig": {"0": layout}}))
    flags = {"migStrategy": "mixed", "plugin": {"deviceListStrategy": strategy}}
    plugin(config={"flags": flags})
    both = ("nvidia.com/mig-3g.40gb", "nvidia.com/mig-2g.20gb")
    eventually(lambda: all(kubelet.allocatable(name) == 1 for name in both))

    kubelet.admit("pod", dict.fromkeys(both, 1))

    told = kubelet.told("pod")
    seen = told["envs"].get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    if strategy == "cdi-cri":
        assert len(told["cdi"]) == 2
    else:
        assert len(seen) == 1  # the kubelet keeps the first of two values


def test_volume_mounts_and_device_nodes(kubelet: Kubelet, plugin: Starts):
    kubelet.do("start")
    settings = {"deviceListStrategy": "volume-mounts", "passDeviceSpecs": True}
    ours = plugin(config={"flags": {"plugin": settings}})
    eventually(lambda: kubelet.allocatable() == 8)

    kubelet.admit("pod", {GPU: 8})

    told = kubelet.told("pod")
    mount = f"/dev/null:/var/run/nvidia-container-devices/{ours.uuid(0)}"
    assert mount in told["mounts"]
    assert {"/dev/nvidia0", "/dev/nvidia7", "/dev/nvidiactl"} <= set(told["devices"])


def test_a_device_that_fails_between_admission_and_start_stops_the_container(
    kubelet: Kubelet, plugin: Starts
):
    kubelet.do("start")
    ours = plugin(pre_start=True)
    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("pod", {GPU: 8})
    kubelet.told("pod")

    ours.state.set(lost=[0])
    eventually(lambda: kubelet.allocatable() == 7)

    with pytest.raises(RefusedError, match="failed after it was given out"):
        kubelet.told("pod")


# --- what changes ------------------------------------------------------------------------------


def test_7_5_a_new_geometry_leaves_an_empty_list_behind(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    kubelet.do("start")
    (root / "fake.json").write_text(json.dumps({"mig": {"0": SEVEN}}))
    ours = plugin(config=MIXED)
    eventually(lambda: (kubelet.allocatable(), kubelet.allocatable(small)) == (7, 7))

    layout = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]
    ours.state.set(mig={"0": layout})
    eventually(lambda: (kubelet.allocatable(small), kubelet.allocatable(large)) == (0, 2))
    ours.state.set(mig={"0": SEVEN})

    eventually(lambda: (kubelet.allocatable(small), kubelet.allocatable(large)) == (7, 0))
    kubelet.admit("pod", {small: 7})


def test_7_5_a_wanted_geometry_waits_for_the_instance_in_use(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    kubelet.do("start")
    (root / "fake.json").write_text(json.dumps({"mig": {"0": SEVEN}}))
    wanted = root / "wanted.json"
    ours = plugin(config=MIXED, geometry=wanted)
    eventually(lambda: kubelet.allocatable(small) == 7)
    (held,) = kubelet.admit("pod", {small: 1})["c0"][small]

    final = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]
    wanted.write_text(json.dumps({"gpus": [{"gpu": 0, "final": final}]}))

    eventually(lambda: kubelet.allocatable(small) == 0)
    time.sleep(0.6)
    assert kubelet.do("devices", uid="pod")["c0"][small] == [held]
    there = {one.uuid for one in ours.source.scan().gpus[0].instances}
    assert held in there
    assert f"({held})" in next(one for one in ours.daemon.remarks if "GPU 0 waits: pod" in one)
    kubelet.do("remove_pod", uid="pod")
    eventually(lambda: kubelet.allocatable(large) == 2)
    profiles = [one.profile for one in ours.source.scan().gpus[0].instances]
    assert profiles == ["3g.40gb", "3g.40gb"]


def test_instances_with_new_names_after_a_restart_do_not_bring_back_the_old(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    small = "nvidia.com/mig-1g.10gb"
    kubelet.do("start")
    (root / "fake.json").write_text(json.dumps({"mig": {"0": SEVEN}}))
    ours = plugin(config=MIXED)
    eventually(lambda: kubelet.allocatable(small) == 7)
    kubelet.admit("pod", {small: 1})

    ours.state.set(mig={"0": []})
    eventually(lambda: not kubelet.allocatable(small))
    ours.state.set(mig={"0": SEVEN})
    kubelet.do("restart")

    eventually(lambda: kubelet.allocatable(small) == 7)
    kubelet.do("remove_pod", uid="pod")
    kubelet.admit("new", {small: 7})


def test_a_changed_config_file_is_picked_up_and_no_id_in_use_is_dropped(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    file = root / "config.yaml"

    def say(replicas: int) -> None:
        (root / "new.yaml").write_text(json.dumps(shared(replicas)))
        (root / "new.yaml").replace(file)

    say(4)
    plugin(config_file=file, fake="h100-4")
    eventually(lambda: kubelet.allocatable() == 16)
    held = kubelet.admit("pod", {GPU: 16})["c0"][GPU]

    say(2)
    eventually(lambda: kubelet.capacity() == 16)
    time.sleep(0.4)

    assert kubelet.capacity() == 16
    assert set(kubelet.do("health", uid="pod").values()) == {"Healthy"}
    kubelet.do("remove_pod", uid="pod")
    eventually(lambda: kubelet.allocatable() == 8)
    assert len(held) == 16


def test_a_gpu_held_whole_is_not_shared_until_it_is_free(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    file = root / "config.yaml"
    file.write_text("version: v1\n")
    plugin(config_file=file, fake="h100-4")
    eventually(lambda: kubelet.allocatable() == 4)
    kubelet.admit("pod", {GPU: 1})

    file.write_text(json.dumps(shared(4)))

    eventually(lambda: kubelet.allocatable() == 3 * 4 + 1)
    kubelet.do("remove_pod", uid="pod")
    eventually(lambda: kubelet.allocatable() == 16)


def test_a_renamed_resource_does_not_give_out_what_the_old_name_holds(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    file = root / "config.yaml"
    file.write_text("version: v1\n")
    plugin(config_file=file, fake="h100-4")
    eventually(lambda: kubelet.allocatable() == 4)
    kubelet.admit("pod", {GPU: 1})

    file.write_text(json.dumps(shared(4, renameByDefault=True)))

    eventually(lambda: kubelet.allocatable(f"{GPU}.shared") == 12)
    assert kubelet.allocatable() == 0
    kubelet.do("remove_pod", uid="pod")
    eventually(lambda: kubelet.allocatable(f"{GPU}.shared") == 16)


def test_7_6_a_wrong_config_changes_nothing_and_is_said(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    file = root / "config.yaml"
    file.write_text(json.dumps(shared(4)))
    ours = plugin(config_file=file, fake="h100-4")
    eventually(lambda: kubelet.allocatable() == 16)

    file.write_text('{"flags": {"renameByDefault": true}}')

    eventually(lambda: "renameByDefault" in ours.daemon.unready.get("config", ""))
    assert kubelet.allocatable() == 16


def test_a_driver_that_appears_later_is_found(kubelet: Kubelet, plugin: Starts, root: Path):
    kubelet.do("start")
    (root / "fake.json").write_text('{"driver": "no library"}')
    ours = plugin()
    eventually(lambda: "no library" in ours.daemon.unready.get("reconcile", ""))
    assert kubelet.capacity() is None

    ours.state.set()

    eventually(lambda: kubelet.allocatable() == 8)
    eventually(lambda: not ours.daemon.unready)


def test_a_cdi_folder_that_cannot_be_written_is_said_and_survived(
    kubelet: Kubelet, plugin: Starts, root: Path
):
    kubelet.do("start")
    (root / "cdi").write_text("not a folder")

    ours = plugin(config={"flags": {"plugin": {"deviceListStrategy": "cdi-cri"}}})

    eventually(lambda: kubelet.allocatable() == 8)
    eventually(lambda: "reconcile" in ours.daemon.unready)


def test_a_lost_checkpoint_gives_no_device_twice_that_the_kubelet_still_knows(
    kubelet: Kubelet, plugin: Starts
):
    kubelet.do("start")
    plugin()
    eventually(lambda: kubelet.allocatable() == 8)
    kubelet.admit("forgotten", {GPU: 2})

    kubelet.do("stop")
    kubelet.do("wipe_checkpoint")
    kubelet.do("start")
    eventually(lambda: kubelet.allocatable() == 8)

    assert not (kubelet.do("devices", uid="forgotten").get("c0") or {}).get(GPU)
    first = kubelet.admit("first", {GPU: 3})["c0"][GPU]
    kubelet.do("restart")
    eventually(lambda: kubelet.allocatable() == 8)
    second = kubelet.admit("second", {GPU: 5})["c0"][GPU]
    assert len({*first, *second}) == 8
    with pytest.raises(RefusedError, match=r"Requested: 1, Available: 0"):
        kubelet.admit("third", {GPU: 1})


def test_a_gpu_changes_its_mig_mode_while_the_plugin_runs(
    kubelet: Kubelet, plugin: Starts, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transition, "FAREWELL_S", 0.3)
    small = "nvidia.com/mig-1g.10gb"
    kubelet.do("start")
    ours = plugin(config=MIXED)
    eventually(lambda: kubelet.allocatable() == 8)
    (stays,) = kubelet.admit("stays", {GPU: 1})["c0"][GPU]
    (drained,) = kubelet.admit("leaves", {GPU: 1})["c0"][GPU]
    index = next(i for i in range(8) if ours.uuid(i) == drained)
    kubelet.do("remove_pod", uid="leaves")

    ours.state.set(mig={str(index): SEVEN})

    eventually(lambda: (kubelet.allocatable(), kubelet.allocatable(small)) == (7, 7))
    assert kubelet.do("health", uid="stays") == {stays: "Healthy"}
    (instance,) = kubelet.admit("small", {small: 1})["c0"][small]

    ours.state.set(mig={})  # an operator forces the mode off under a pod

    eventually(lambda: (kubelet.allocatable(), kubelet.allocatable(small)) == (8, 0))
    eventually(lambda: kubelet.capacity(small) == 1)
    time.sleep(0.4)  # longer than FAREWELL_S: what a pod holds stays listed after it
    assert kubelet.do("health", uid="small") == {instance: "Unhealthy"}
    assert kubelet.do("health", uid="stays") == {stays: "Healthy"}
    kubelet.do("remove_pod", uid="small")
    eventually(lambda: (kubelet.capacity(), kubelet.capacity(small)) == (8, 0))


# --- faults, many times ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifty_kills_at_random_points_give_nothing_out_twice(kubelet: Kubelet, root: Path):
    chance = random.Random(7)
    kubelet.do("start")
    kept: dict[str, str] = {}
    for turn in range(50):
        admits = turn % 5 == 0 and len(kept) < 8
        if turn and admits:  # so that what is allocatable next is the new process's
            eventually(lambda: kubelet.allocatable() == 0)
        ours = PluginProcess(root)
        if admits:
            eventually(lambda: kubelet.allocatable() == 8)
            (held,) = kubelet.admit(f"pod-{turn}", {GPU: 1})["c0"][GPU]
            assert held not in kept.values()
            kept[f"pod-{turn}"] = held
        else:
            time.sleep(chance.uniform(0.2, 1.2))
        ours.stop(signal.SIGKILL)

    eventually(lambda: kubelet.allocatable() == 0)
    last = PluginProcess(root)
    eventually(lambda: kubelet.allocatable() == 8)
    eventually(lambda: len(kubelet.our_sockets()) == 1)
    for uid, held in kept.items():
        assert kubelet.do("devices", uid=uid)["c0"][GPU] == [held]
    with pytest.raises(RefusedError):
        kubelet.admit("all", {GPU: 8 - len(kept) + 1})
    assert last.stop() == 0
    assert kubelet.our_sockets() == []
