"""The keys of NVIDIA's v1 config file, by the place they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

FLAG_KEYS = (
    "migStrategy",
    "failOnInitError",
    "nvidiaDriverRoot",
    "nvidiaDevRoot",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
    "deviceDiscoveryStrategy",
    "mpsRoot",
    "plugin",
    "gfd",
)
PLUGIN_KEYS = (
    "passDeviceSpecs",
    "deviceListStrategy",
    "deviceIDStrategy",
    "cdiAnnotationPrefix",
    "nvidiaCTKPath",
    "containerDriverRoot",
    "sharedDevicesAllocationPolicy",
)
GFD_KEYS = ("oneshot", "noTimestamp", "sleepInterval", "outputFile", "machineTypeFile")
SHARING_KEYS = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
SHARED_KEYS = ("name", "replicas", "rename", "devices")
KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("version", "flags", "resources", "sharing", "imex"),
    "flags": FLAG_KEYS,
    "flags.plugin": PLUGIN_KEYS,
    "flags.gfd": GFD_KEYS,
    "resources": ("gpus", "mig"),
    "sharing": ("timeSlicing", "mps"),
    "sharing.timeSlicing": SHARING_KEYS,
    "sharing.mps": SHARING_KEYS,
    "sharing.timeSlicing.resources": SHARED_KEYS,
    "imex": ("channelIDs", "required"),
}
"""Every key that is known, by the place it belongs to."""


def way_out(key: str, known: tuple[str, ...]) -> str:
    """Way out for an unknown key: where it belongs, or what it may have meant."""
    places = [place or "the top" for place, keys in KEYS.items() if key in keys]
    if places:
        return f"It belongs under {' or '.join(places)}"
    near = get_close_matches(key, known, n=1, cutoff=0.6)
    return f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(known)}"
