"""The driver's library through a stand-in: what is there, what fails, what is reported."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plugin.devices.base import GeometryError
from plugin.devices.nvml import NvmlSource
from plugin.devices.nvml_links import links_of
from plugin.errors import DriverError

LOST, TIMEOUT, UNSUPPORTED, MISSING = 15, 10, 3, 6
UNKNOWN, FORBIDDEN = 999, 4


class NVMLError(Exception):
    def __init__(self, value: int):
        self.value = value
        words = {
            LOST: "GPU is lost",
            UNKNOWN: "Unknown Error",
            FORBIDDEN: "Insufficient Permissions",
        }
        super().__init__(words.get(value, f"error {value}"))


class Placement(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


class Fabric(ctypes.Structure):
    _fields_ = (
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint),
        ("state", ctypes.c_uint),
    )


class Library:
    """Two GPUs with four NVLinks between them; the second has MIG on and an instance."""

    NVMLError = NVMLError
    NVML_ERROR_TIMEOUT, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_NOT_FOUND = TIMEOUT, LOST, MISSING
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_FUNCTION_NOT_FOUND = UNSUPPORTED, 13
    NVML_ERROR_NO_PERMISSION, NVML_ERROR_INVALID_ARGUMENT = FORBIDDEN, 2
    NVML_ERROR_GPU_NOT_FOUND, NVML_ERROR_RESET_REQUIRED, NVML_ERROR_CORRUPTED_INFOROM = 28, 16, 14
    NVML_ERROR_INSUFFICIENT_POWER, NVML_ERROR_IRQ_ISSUE = 8, 11
    NVML_NVLINK_MAX_LINKS = 6
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_GPU_INSTANCE_PROFILE_COUNT = 3
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 1
    nvmlEventTypeXidCriticalError = 8
    c_nvmlGpuInstancePlacement_t = Placement
    c_nvmlGpuFabricInfo_v2_t = Fabric

    def __init__(self, *, count: int = 2, switch: bool = False):
        self.count, self.switch = count, switch
        self.lost: set[int] = set()
        self.odd: dict[int, int] = {}
        self.silent: set[int] = {0}
        self.freed: list[str] = []
        self.mig_fails: int | None = None
        self.wait_fails: int | None = None
        self.broken: int | None = None
        self.pending: list[Any] = []
        self.started = 0
        self.destroyed: list[int] = []
        self.clique = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            raise AttributeError(f"the stand-in has no {name}")
        raise AttributeError(name)

    def nvmlInit(self):
        if self.broken:
            raise NVMLError(self.broken)
        self.started += 1

    def nvmlShutdown(self): ...
    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlSystemGetDriverVersion(self):
        return "570.86.10"

    def nvmlSystemGetCudaDriverVersion_v2(self):
        return 12080

    def _well(self, handle: int) -> int:
        if handle in self.lost:
            raise NVMLError(LOST)
        if handle in self.odd:
            raise NVMLError(self.odd[handle])
        return handle

    def nvmlDeviceGetHandleByIndex(self, index: int):
        return self._well(index)

    def nvmlDeviceGetHandleByUUID(self, uuid: str):
        return self._well(int(uuid[-1]))

    def nvmlDeviceGetPciInfo(self, handle: int):
        return SimpleNamespace(busId=f"00000000:0{handle + 1}:00.0")

    def nvmlDeviceGetMinorNumber(self, handle: int):
        return handle

    def nvmlDeviceGetUUID(self, handle: Any):
        return f"GPU-{handle}" if isinstance(handle, int) else handle

    def nvmlDeviceGetName(self, handle: int):
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetMemoryInfo(self, handle: int):
        return SimpleNamespace(total=81559 * 2**20)

    def nvmlDeviceGetCudaComputeCapability(self, handle: int):
        return (9, 0)

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int):
        if link >= 4:
            raise NVMLError(UNSUPPORTED)
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int):
        return 2 if self.switch else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int):
        return self.nvmlDeviceGetPciInfo(1 - handle)

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int):
        return 40

    def nvmlDeviceGetGpuFabricInfoV(self, handle: int, info: Any):
        if not self.clique:
            raise NVMLError(UNSUPPORTED)
        told = info._obj
        told.clusterUuid[0], told.status, told.cliqueId, told.state = 0xAB, 0, self.clique, 3

    # --- MIG ---

    def nvmlDeviceGetMigMode(self, handle: int):
        return [int(handle == 1), int(handle == 1)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, index: int):
        if self.mig_fails:
            raise NVMLError(self.mig_fails)
        if index != 3:
            raise NVMLError(MISSING)
        return "MIG-1"

    def nvmlDeviceGetGpuInstanceId(self, mig: str):
        return 5

    def nvmlDeviceGetComputeInstanceId(self, mig: str):
        return 0

    def nvmlDeviceGetGpuInstanceById(self, handle: int, gi: int):
        return gi

    def nvmlGpuInstanceGetInfo(self, instance: int):
        return SimpleNamespace(id=instance, profileId=19, placement=Placement(4, 1))

    def nvmlDeviceGetAttributes_v2(self, mig: str):
        return SimpleNamespace(
            memorySizeMB=9856,
            multiprocessorCount=16,
            gpuInstanceSliceCount=1,
            computeInstanceSliceCount=1,
        )

    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle: int, number: int, version: int):
        if number != 1:
            raise NVMLError(UNSUPPORTED)
        return SimpleNamespace(id=19, name=b"MIG 1g.10gb", sliceCount=1)

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, handle, profile, array, count):
        count._obj.value = 2
        if array is not None:
            array[0], array[1] = Placement(0, 1), Placement(1, 1)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, handle, profile, placement):
        if self.mig_fails:
            raise NVMLError(self.mig_fails)
        return 9

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance, number, engine, version):
        return SimpleNamespace(id=0, sliceCount=1)

    def nvmlGpuInstanceCreateComputeInstance(self, instance: int, profile: int):
        if self.lost:
            raise NVMLError(LOST)

    def nvmlGpuInstanceDestroy(self, instance: int):
        self.destroyed.append(instance)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int):
        if self.mig_fails:
            raise NVMLError(self.mig_fails)
        return [SimpleNamespace(pid=pid, gpuInstanceId=gi) for pid, gi in ((7, 5), (8, 5), (9, 6))]

    def nvmlSystemGetProcessName(self, pid: int):
        if pid != 7:
            raise NVMLError(MISSING)
        return "/usr/bin/python3 train.py --token=secret"

    # --- events ---

    def nvmlEventSetCreate(self):
        return "events"

    def nvmlEventSetFree(self, events: str):
        self.freed.append(events)

    def nvmlDeviceGetSupportedEventTypes(self, handle: int):
        return 1 if handle in self.silent else 8

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str):
        assert kinds, "registered for nothing"
        self._well(handle)

    def nvmlEventSetWait_v2(self, events: str, ms: int):
        if self.wait_fails:
            raise NVMLError(self.wait_fails)
        if not self.pending:
            raise NVMLError(TIMEOUT)
        return self.pending.pop(0)


def event(xid: int, device: int, gi: int = 0xFFFFFFFF, ci: int = 0xFFFFFFFF) -> SimpleNamespace:
    return SimpleNamespace(
        eventType=8, eventData=xid, device=device, gpuInstanceId=gi, computeInstanceId=ci
    )


def test_gpus_links_and_instances_are_listed(tmp_path: Path):
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0" / "numa_node").write_text("1\n")
    (tmp_path / "0000:02:00.0").mkdir()
    (tmp_path / "0000:02:00.0" / "numa_node").write_text("-1\n")

    node = NvmlSource(Library(), tmp_path).scan()

    assert [(gpu.uuid, gpu.numa_node, gpu.mig_enabled) for gpu in node.gpus] == [
        ("GPU-0", 1, False),
        ("GPU-1", None, True),
    ]
    (instance,) = node.gpus[1].instances
    assert (instance.profile, instance.gi, instance.start) == ("1g.10gb", 5, 4)
    assert str(node.topology.link(0, 1)) == "NV4"
    assert node.topology.gpu_models == ("H100-80GB", "H100-80GB")
    assert (node.driver_version, node.cuda_version) == ("570.86.10", "12.8")
    assert node.clique is None


def test_links_to_a_switch_count_for_every_pair():
    assert str(links_of(Library(switch=True), [0, 1])[0, 1]) == "NV4"
    assert str(links_of(Library(), [0, None])[0, 1]) == "SYS"


def test_the_clique_of_an_nvlink_domain_is_told():
    library = Library()
    library.clique = 7

    assert NvmlSource(library).scan().clique == "ab000000-0000-0000-0000-000000000000.7"


def test_c3_a_lost_gpu_stays_in_the_list_with_its_fault():
    library = Library()
    source = NvmlSource(library)
    source.scan()

    library.lost = {0}
    node = source.scan()

    assert (node.gpus[0].uuid, node.gpus[0].fault) == ("GPU-0", "GPU is lost")
    assert node.gpus[1].fault is None
    assert source.probe("GPU-0") == "GPU is lost"
    assert source.probe("GPU-1") is None


def test_c10_a_library_that_does_not_start_is_tried_again():
    library = Library()
    library.broken = 18
    source = NvmlSource(library)
    with pytest.raises(DriverError, match="NVML cannot be used"):
        source.scan()

    library.broken = None

    assert len(source.scan().gpus) == 2


def test_a_node_without_gpus_says_so():
    with pytest.raises(DriverError, match="no GPU"):
        NvmlSource(Library(count=0)).scan()


def test_events_name_the_gpu_and_the_instance():
    library = Library()
    source = NvmlSource(library)
    source.scan()
    library.pending = [event(94, 1, 5, 0), event(79, 0)]

    told = [*source.events(0.01), *source.events(0.01), *source.events(0.01)]

    assert [(one.xid, one.gpu, one.gi, one.ci) for one in told] == [
        (94, "GPU-1", 5, 0),
        (79, "GPU-0", None, None),
    ]


def test_a_gpu_without_xid_events_is_healthy_and_visible_as_unmonitored():
    gpus = NvmlSource(Library()).scan().gpus

    assert [(gpu.fault, gpu.unmonitored) for gpu in gpus] == [
        (None, "the driver reports no XID events of it"),
        (None, None),
    ]


def test_where_the_driver_has_no_events_at_all_every_gpu_is_unmonitored():
    class Old(Library):
        def nvmlEventSetCreate(self):
            raise NVMLError(UNSUPPORTED)

    source = NvmlSource(Old())

    assert all(gpu.unmonitored for gpu in source.scan().gpus)
    assert list(source.events(0.01)) == []


def test_a_gpu_that_appears_later_is_monitored_from_then_on():
    library = Library()
    library.silent, library.lost = set(), {0}
    source = NvmlSource(library)
    source.scan()

    library.lost = set()

    assert [gpu.unmonitored for gpu in source.scan().gpus] == [None, None]


def test_access_that_is_lost_to_all_gpus_is_the_monitor_s_trouble_and_not_theirs():
    library = Library()
    source = NvmlSource(library)
    source.scan()

    library.odd = {0: UNKNOWN, 1: UNKNOWN}

    with pytest.raises(DriverError, match=r"none of 2 GPUs: Unknown Error.*daemon-reload"):
        source.scan()
    with pytest.raises(DriverError):
        source.probe("GPU-0")
    library.odd = {}
    assert [gpu.fault for gpu in source.scan().gpus] == [None, None]
    assert library.started == 2


def test_a_gpu_that_alone_gives_a_strange_answer_has_a_fault():
    library = Library()
    library.odd = {0: UNKNOWN}

    assert [gpu.fault for gpu in NvmlSource(library).scan().gpus] == ["Unknown Error", None]


def test_a_wait_for_events_that_fails_says_so_and_gives_the_queue_back():
    library = Library()
    source = NvmlSource(library)
    source.scan()
    library.wait_fails = UNKNOWN

    with pytest.raises(DriverError, match="cannot report errors of GPUs: Unknown Error"):
        list(source.events(0.01))
    assert library.freed == ["events"]
    library.wait_fails = None
    library.pending = [event(79, 1)]
    assert [one.gpu for one in source.events(0.01)] == ["GPU-1"]


def test_a_lost_gpu_does_not_end_the_watch_over_the_others():
    library = Library()
    library.silent = set()
    source = NvmlSource(library)
    source.scan()
    library.wait_fails, library.lost = LOST, {0}
    assert list(source.events(0.01)) == []

    library.wait_fails = None
    library.pending = [event(48, 1)]

    assert [one.gpu for one in source.events(0.01)] == ["GPU-1"]


def test_an_error_of_a_gpu_that_no_longer_answers_is_not_taken_for_one_of_all_gpus():
    class Silent(Library):
        def nvmlDeviceGetUUID(self, handle: Any):
            self._well(handle) if isinstance(handle, int) else None
            return super().nvmlDeviceGetUUID(handle)

    library = Silent()
    source = NvmlSource(library)
    source.scan()
    library.lost = {1}
    library.pending = [event(79, 1)]

    assert [one.gpu for one in source.events(0.01)] == ["GPU-1"]


def test_an_instance_is_made_where_it_may_start():
    source = NvmlSource(Library())
    source.scan()

    assert source.create("GPU-1", "1g.10gb", 1) == 9
    with pytest.raises(GeometryError, match="cannot start at slot 5"):
        source.create("GPU-1", "1g.10gb", 5)
    with pytest.raises(GeometryError, match="no profile 9g"):
        source.create("GPU-1", "9g.99gb", 0)


def test_without_the_right_to_see_instances_what_to_set_is_said():
    library = Library()
    library.mig_fails = FORBIDDEN

    gpu = NvmlSource(library).scan().gpus[1]

    assert (gpu.fault, gpu.instances) == (None, ())
    assert gpu.hidden is not None
    assert "Insufficient Permissions: set NVIDIA_MIG_MONITOR_DEVICES=all" in gpu.hidden
    assert "privileged" in gpu.hidden


def test_instances_that_were_seen_do_not_vanish_when_they_cannot_be_seen_any_more():
    library = Library()
    source = NvmlSource(library)
    (before,) = source.scan().gpus[1].instances

    library.mig_fails = FORBIDDEN
    assert source.scan().gpus[1].instances == (before,)
    library.mig_fails = UNKNOWN

    gpu = source.scan().gpus[1]
    assert (gpu.instances, gpu.fault) == ((before,), "Unknown Error")


def test_without_the_right_to_make_instances_what_to_set_is_said():
    library = Library()
    source = NvmlSource(library)
    source.scan()
    library.mig_fails = FORBIDDEN

    with pytest.raises(GeometryError, match=r"NVIDIA_MIG_CONFIG_DEVICES=all.*CAP_SYS_ADMIN"):
        source.create("GPU-1", "1g.10gb", 1)


def test_processes_in_an_instance_are_named_without_their_arguments():
    library = Library()
    source = NvmlSource(library)
    source.scan()

    assert [str(one) for one in source.processes("GPU-1", 5)] == ["PID 7 (python3)", "PID 8"]
    library.mig_fails = FORBIDDEN
    with pytest.raises(GeometryError, match="Insufficient Permissions"):
        source.processes("GPU-1", 5)


def test_an_instance_without_compute_does_not_stay():
    library = Library()
    source = NvmlSource(library)
    source.scan()
    library.lost = {5}

    with pytest.raises(GeometryError, match="not created"):
        source.create("GPU-1", "1g.10gb", 1)

    assert library.destroyed == [9]


def test_without_the_binding_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)

    with pytest.raises(DriverError, match="unstrand\\[nvml\\]"):
        NvmlSource().scan()


def test_every_call_that_is_made_exists_in_the_binding():
    pynvml = pytest.importorskip("pynvml")
    import re

    folder = Path(__file__).parents[2] / "plugin" / "devices"
    text = "".join(path.read_text() for path in folder.glob("nvml*.py"))

    names = set(re.findall(r"nvml\.((?:nvml|NVML_|c_nvml)\w+)", text))
    assert names
    assert {name for name in names if not hasattr(pynvml, name)} == set()
