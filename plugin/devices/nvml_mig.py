"""MIG through NVML: instances that are there, and making and destroying them.

The library's calls take two kinds of number for a profile: the enumeration to ask about it, and the
``id`` of the answer for everything else.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from plugin.devices.base import GeometryError, GpuProcess, MigInstance

MIG_MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
"""Lines such as ``gpu0/gi1/ci0/access 12``: the device node of each capability."""

MAX_INSTANCES = 16

MONITOR_WAY_OUT = (
    "set NVIDIA_MIG_MONITOR_DEVICES=all in the plugin's container, or make it privileged"
)
CONFIG_WAY_OUT = (
    "set NVIDIA_MIG_CONFIG_DEVICES=all in the plugin's container and give it CAP_SYS_ADMIN"
)


def mode(nvml: Any, handle: Any) -> tuple[bool, bool]:  # noqa: ANN401
    """Whether the GPU can be cut, and whether it is set to be."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return False, False
    return True, current == nvml.NVML_DEVICE_MIG_ENABLE


def instances(
    nvml: Any,  # noqa: ANN401
    handle: Any,  # noqa: ANN401
    minor: int,
    mig_minors: Path = MIG_MINORS,
) -> tuple[MigInstance, ...]:
    """Instances of a GPU, in order of their numbers; holes in the driver's list are passed over.

    Any other error is raised: taken for a hole, it would make instances vanish that are there.
    """
    nodes = _capabilities(mig_minors)
    names = _profiles(nvml, handle)
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                continue
            raise
        gi, ci = nvml.nvmlDeviceGetGpuInstanceId(mig), nvml.nvmlDeviceGetComputeInstanceId(mig)
        info = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(handle, gi))
        about = nvml.nvmlDeviceGetAttributes_v2(mig)
        profile = names.get(info.profileId) or _rounded(about)
        if about.computeInstanceSliceCount < about.gpuInstanceSliceCount:
            profile = f"{about.computeInstanceSliceCount}c.{profile}"
        access = (f"gpu{minor}/gi{gi}/access", f"gpu{minor}/gi{gi}/ci{ci}/access")
        found.append(
            MigInstance(
                uuid=str(nvml.nvmlDeviceGetUUID(mig)),
                profile=profile,
                gi=gi,
                ci=ci,
                start=int(info.placement.start),
                memory_mib=int(about.memorySizeMB),
                multiprocessors=int(about.multiprocessorCount),
                capability_nodes=tuple(nodes[one] for one in access if one in nodes),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.gi, one.ci)))


def _profiles(nvml: Any, handle: Any) -> dict[int, str]:  # noqa: ANN401
    """Name of each profile by its id, as the driver writes it."""
    names = {}
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
        except nvml.NVMLError:
            continue
        name = info.name.decode() if isinstance(info.name, bytes) else str(info.name)
        names[int(info.id)] = name.removeprefix("MIG ").strip()
    return names


def _rounded(about: Any) -> str:  # noqa: ANN401
    """Name made of slices and memory, for drivers that do not tell names."""
    return f"{about.gpuInstanceSliceCount}g.{(int(about.memorySizeMB) + 1023) // 1024}gb"


def _capabilities(mig_minors: Path) -> dict[str, str]:
    try:
        lines = mig_minors.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {
        words[0]: f"/dev/nvidia-caps/nvidia-cap{words[1]}" for words in pairs if len(words) == 2
    }


def why(nvml: Any, error: Any) -> str:  # noqa: ANN401
    """An error of making or destroying in words; with the way out where a right is missing."""
    if error.value == nvml.NVML_ERROR_NO_PERMISSION:
        return f"{error}: {CONFIG_WAY_OUT}"
    return str(error)


def processes(nvml: Any, handle: Any, gi: int) -> tuple[GpuProcess, ...]:  # noqa: ANN401
    """Processes that compute in an instance."""
    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return tuple(
        GpuProcess(int(one.pid), _name(nvml, one.pid)) for one in running if one.gpuInstanceId == gi
    )


def _name(nvml: Any, pid: int) -> str:  # noqa: ANN401
    """Program of a process, without its arguments: those may hold secrets."""
    try:
        said = nvml.nvmlSystemGetProcessName(pid)
    except nvml.NVMLError:
        return ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return Path((text.split() or [""])[0]).name


def destroy(nvml: Any, handle: Any, gi: int) -> None:  # noqa: ANN401
    """Destroy an instance, its compute instances first."""
    instance = nvml.nvmlDeviceGetGpuInstanceById(handle, gi)
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0, version=2)
        except nvml.NVMLError:
            continue
        array = (nvml.c_nvmlComputeInstance_t * MAX_INSTANCES)()
        count = ctypes.c_uint(MAX_INSTANCES)
        nvml.nvmlGpuInstanceGetComputeInstances(instance, info.id, array, ctypes.byref(count))
        for at in range(count.value):
            nvml.nvmlComputeInstanceDestroy(array[at])
    nvml.nvmlGpuInstanceDestroy(instance)


def create(nvml: Any, handle: Any, profile: str, start: int) -> int:  # noqa: ANN401
    """Make an instance at a slot, with one compute instance that has all of it."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
        except nvml.NVMLError:
            continue
        name = info.name.decode() if isinstance(info.name, bytes) else str(info.name)
        if name.removeprefix("MIG ").strip() == profile:
            break
    else:
        raise GeometryError(f"this GPU has no profile {profile}")
    size = _size_at(nvml, handle, info.id, start)
    if size is None:
        raise GeometryError(f"{profile} cannot start at slot {start}")
    placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
        handle, info.id, ctypes.byref(placement)
    )
    made = nvml.nvmlGpuInstanceGetInfo(instance)
    try:
        whole = _whole_compute(nvml, instance, info.sliceCount)
        nvml.nvmlGpuInstanceCreateComputeInstance(instance, whole)
    except nvml.NVMLError:
        nvml.nvmlGpuInstanceDestroy(instance)  # an instance without compute serves nobody
        raise
    return int(made.id)


def _size_at(nvml: Any, handle: Any, profile: int, start: int) -> int | None:  # noqa: ANN401
    """Memory slots of a profile at a start; None where it cannot start there."""
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, ctypes.byref(count))
    array = (nvml.c_nvmlGpuInstancePlacement_t * max(count.value, 1))()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, array, ctypes.byref(count))
    sizes = {int(array[at].start): int(array[at].size) for at in range(count.value)}
    return sizes.get(start)


def _whole_compute(nvml: Any, instance: Any, slices: int) -> int:  # noqa: ANN401
    """Profile of a compute instance with all slices of its GPU instance."""
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0, version=2)
        except nvml.NVMLError:
            continue
        if info.sliceCount == slices:
            return int(info.id)
    raise GeometryError(f"no compute instance of {slices} slices")
