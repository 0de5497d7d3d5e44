"""NVIDIA's environment variables and our options as parts of a config file.

Precedence is theirs: options over environment over file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "MIG_STRATEGY": ("flags", "migStrategy"),
    "FAIL_ON_INIT_ERROR": ("flags", "failOnInitError"),
    "NVIDIA_DRIVER_ROOT": ("flags", "nvidiaDriverRoot"),
    "NVIDIA_DEV_ROOT": ("flags", "nvidiaDevRoot"),
    "GDRCOPY_ENABLED": ("flags", "gdrcopyEnabled"),
    "GDS_ENABLED": ("flags", "gdsEnabled"),
    "MOFED_ENABLED": ("flags", "mofedEnabled"),
    "MPS_ROOT": ("flags", "mpsRoot"),
    "DEVICE_DISCOVERY_STRATEGY": ("flags", "deviceDiscoveryStrategy"),
    "PASS_DEVICE_SPECS": ("flags", "plugin", "passDeviceSpecs"),
    "DEVICE_LIST_STRATEGY": ("flags", "plugin", "deviceListStrategy"),
    "DEVICE_ID_STRATEGY": ("flags", "plugin", "deviceIDStrategy"),
    "CDI_ANNOTATION_PREFIX": ("flags", "plugin", "cdiAnnotationPrefix"),
    "NVIDIA_CTK_PATH": ("flags", "plugin", "nvidiaCTKPath"),
    "NVIDIA_CDI_HOOK_PATH": ("flags", "plugin", "nvidiaCTKPath"),
    "CONTAINER_DRIVER_ROOT": ("flags", "plugin", "containerDriverRoot"),
    "DRIVER_ROOT_CTR_PATH": ("flags", "plugin", "containerDriverRoot"),
    "SHARED_DEVICES_ALLOCATION_POLICY": ("flags", "plugin", "sharedDevicesAllocationPolicy"),
    "GFD_ONESHOT": ("flags", "gfd", "oneshot"),
    "GFD_NO_TIMESTAMP": ("flags", "gfd", "noTimestamp"),
    "GFD_SLEEP_INTERVAL": ("flags", "gfd", "sleepInterval"),
    "GFD_OUTPUT_FILE": ("flags", "gfd", "outputFile"),
    "GFD_MACHINE_TYPE_FILE": ("flags", "gfd", "machineTypeFile"),
    "USE_NODE_FEATURE_API": ("flags", "useNodeFeatureAPI"),
    "IMEX_REQUIRED": ("imex", "required"),
}
"""Where the value of each variable belongs in the file."""


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Values of the variables that are set, in the shape of a file."""
    data: dict[str, Any] = {}
    for name, path in VARIABLES.items():
        if environ.get(name):
            put(data, path, environ[name])
    if environ.get("IMEX_CHANNEL_IDS"):
        put(data, ("imex", "channelIDs"), environ["IMEX_CHANNEL_IDS"].split(","))
    return data


def put(data: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Set a value at a path, making mappings on the way; a plain value there gives way."""
    for step in path[:-1]:
        if not isinstance(data.get(step), dict):
            data[step] = {}
        data = data[step]
    data[path[-1]] = value


def merged(below: object, above: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a file says anything
    """Put one file's values over another's, key by key.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    if not above or (below is not None and not isinstance(below, Mapping)):
        return below
    result = dict(below or {})
    for key, value in above.items():
        result[key] = merged(result.get(key), value) if isinstance(value, Mapping) else value
    return result


def set_at(data: Mapping[str, Any], path: tuple[str | int, ...]) -> bool:
    """Whether a value stands at a path."""
    value: Any = data
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            return False
        value = value[step]
    return bool(path)
