"""Links between GPUs, and the NVLink domain they are in, as NVML tells them."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from topology.links import Link

ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's nearest common ancestor of two GPUs, as ``nvidia-smi topo -m`` writes it."""


FABRIC_READY = 3


def links_of(nvml: Any, handles: Sequence[Any]) -> dict[tuple[int, int], Link]:  # noqa: ANN401
    """Best link of each pair of GPUs; GPUs without a handle, or that fail, have none.

    Behind an NVSwitch the far end of a link is the switch, so two GPUs that both have links to
    one reach each other over as many as the one with fewer has.
    """
    direct: Counter[tuple[int, int]] = Counter()
    to_switch: Counter[int] = Counter()
    buses = {bus: index for index, handle in enumerate(handles) if (bus := _bus(nvml, handle))}
    for index, handle in enumerate(handles):
        for link in range(nvml.NVML_NVLINK_MAX_LINKS if handle is not None else 0):
            far = _far_end(nvml, handle, link)
            if far == "switch":
                to_switch[index] += 1
            elif far in buses and buses[far] > index:
                direct[index, buses[far]] += 1
    found = {}
    for a, b in combinations(range(len(handles)), 2):
        lanes = direct[a, b] or min(to_switch[a], to_switch[b])
        label = f"NV{lanes}" if lanes else _ancestor(nvml, handles[a], handles[b])
        found[a, b] = Link.parse(label)
    return found


def _bus(nvml: Any, handle: Any) -> str:  # noqa: ANN401
    try:
        return str(nvml.nvmlDeviceGetPciInfo(handle).busId) if handle is not None else ""
    except nvml.NVMLError:
        return ""


def _far_end(nvml: Any, handle: Any, link: int) -> str:  # noqa: ANN401
    """Bus of the GPU at the other end, ``switch``, or nothing for a link that is down."""
    try:
        if not nvml.nvmlDeviceGetNvLinkState(handle, link):
            return ""
        kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return "switch"
        return str(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
    except nvml.NVMLError:
        return ""


def _ancestor(nvml: Any, a: Any, b: Any) -> str:  # noqa: ANN401
    if a is None or b is None:
        return "SYS"
    try:
        return ANCESTORS.get(nvml.nvmlDeviceGetTopologyCommonAncestor(a, b), "SYS")
    except nvml.NVMLError:
        return "SYS"


def clique_of(nvml: Any, handles: Sequence[Any]) -> str | None:  # noqa: ANN401
    """NVLink domain and clique; None unless all GPUs agree, one without a handle does not."""
    found = set()
    for handle in handles:
        if handle is None:
            return None
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        try:
            nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        except nvml.NVMLError:
            return None
        cluster = bytes(info.clusterUuid)
        if info.state != FABRIC_READY or info.status != 0 or not any(cluster):
            return None
        text = cluster.hex()
        dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        found.add(f"{dashed}.{info.cliqueId}")
    return found.pop() if len(found) == 1 else None
