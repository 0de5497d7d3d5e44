"""What a container is told."""

from dataclasses import replace

import pytest

from plugin.allocation.answer import answer
from plugin.config import IdStrategy, ListStrategy, PluginConfig
from plugin.errors import RequestRefusedError, UnknownDeviceError
from plugin.resources import Device, Resource
from tests.plugin.building import DEFAULTS, gpu, whole


def told_by(*strategies: ListStrategy, **rest: object) -> PluginConfig:
    return replace(DEFAULTS, list_strategies=strategies, **rest)


def test_the_environment_names_the_gpus_in_order():
    told = answer(whole(4), ["GPU-2", "GPU-0"], DEFAULTS)

    assert told.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-2"}
    assert not told.mounts
    assert not told.cdi_devices


def test_the_same_question_has_the_same_answer_in_any_order():
    resource = whole(4, 3)
    ids = ["GPU-2::0", "GPU-0::2", "GPU-2::1"]

    assert answer(resource, ids, DEFAULTS) == answer(resource, ids[::-1], DEFAULTS)


def test_shares_of_one_gpu_are_one_visible_gpu():
    told = answer(whole(4, 3), ["GPU-2::0", "GPU-2::1"], DEFAULTS)

    assert told.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-2"


def test_an_unknown_id_is_refused_by_name():
    with pytest.raises(UnknownDeviceError, match="GPU-9"):
        answer(whole(4), ["GPU-0", "GPU-9"], DEFAULTS)


def test_a_second_share_is_refused_where_the_config_says_so():
    resource = whole(2, 4, fail_above_one=True)

    with pytest.raises(RequestRefusedError, match="one is allowed"):
        answer(resource, ["GPU-0::0", "GPU-1::0"], DEFAULTS)


def test_indices_name_instances_with_a_colon():
    config = replace(DEFAULTS, id_strategy=IdStrategy.INDEX)
    cut = gpu(3, "1g.10gb", "1g.10gb")
    devices = tuple(Device(gpu=cut, instance=one) for one in cut.instances)
    resource = Resource(name="nvidia.com/mig-1g.10gb", devices=devices)

    told = answer(resource, ["MIG-3-2"], config)

    assert told.envs["NVIDIA_VISIBLE_DEVICES"] == "3:1"


def test_cdi_alone_sets_no_environment():
    told = answer(whole(2), ["GPU-1"], told_by(ListStrategy.CDI_CRI, imex_channel_ids=(0,)))

    assert told.cdi_devices == ("k8s.device-plugin.nvidia.com/gpu=GPU-1",)
    assert told.envs == {}


def test_cdi_annotations_carry_the_names():
    told = answer(whole(2), ["GPU-0", "GPU-1"], told_by(ListStrategy.CDI_ANNOTATIONS))

    ((key, value),) = told.annotations.items()
    assert key.startswith("cdi.k8s.io/")
    assert value.count("k8s.device-plugin.nvidia.com/gpu=") == 2


def test_volume_mounts_win_over_the_environment_variable():
    strategies = (ListStrategy.ENVVAR, ListStrategy.VOLUME_MOUNTS)

    told = answer(whole(2), ["GPU-1"], told_by(*strategies))

    assert told.envs["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"
    assert [m.container for m in told.mounts] == ["/var/run/nvidia-container-devices/GPU-1"]


def test_device_nodes_of_an_instance_have_its_capabilities():
    config = replace(DEFAULTS, pass_device_specs=True)
    cut = gpu(1, "1g.10gb")
    instance = replace(cut.instances[0], capability_nodes=("/dev/nvidia-caps/nvidia-cap12",))
    resource = Resource(name="n/m", devices=(Device(gpu=cut, instance=instance),))

    told = answer(resource, [instance.uuid], config, ("/dev/nvidiactl",))

    assert told.device_nodes == ("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidiactl")


def test_mps_clients_find_their_daemon():
    config = replace(DEFAULTS, mps_root="/run/nvidia/mps")

    told = answer(whole(1, 4, mps=True), ["GPU-0::1"], config)

    assert told.envs["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/gpu/pipe"
    assert [(m.host, m.container) for m in told.mounts] == [
        ("/run/nvidia/mps/gpu/pipe", "/mps/gpu/pipe"),
        ("/run/nvidia/mps/shm", "/dev/shm"),
    ]


def test_features_are_passed_on():
    config = replace(DEFAULTS, gds=True, mofed=True, imex_channel_ids=(0,))

    told = answer(whole(1), ["GPU-0"], config)

    assert told.envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        "NVIDIA_IMEX_CHANNELS": "0",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
    }
