"""Device specs in the Container Device Interface, so that the runtime can give devices itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from plugin.allocation.answer import CDI_KIND
from plugin.config import PluginConfig
from plugin.devices.base import NodeDevices
from plugin.resources import Device

CDI_VERSION = "0.5.0"
"""Oldest version that has all we use; runtimes read older specs as well as newer ones."""

FILE = "k8s.device-plugin.nvidia.com-gpu.unstrand.json"


class CdiFolder:
    """Writes the spec of this node's devices, whole or not at all, and only when it changes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._written = ""

    def write(self, node: NodeDevices, config: PluginConfig) -> None:
        """Write the spec if it says anything new and a strategy needs it.

        Raises
        ------
        OSError
            The folder may not be written.
        """
        if not any(strategy.is_cdi for strategy in config.list_strategies):
            return
        text = json.dumps(cdi_spec(node, config), indent=1) + "\n"
        if text == self._written and self._path.exists():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)
        self._written = text


def cdi_spec(node: NodeDevices, config: PluginConfig) -> dict[str, Any]:
    """The CDI spec of a node: a device for each GPU and each instance, by UUID.

    It names device nodes only. The hook of the container toolkit refreshes the loader's cache in
    the container; it brings no library, so the driver's have to be there by other means.
    """
    devices = [Device(gpu=gpu) for gpu in node.gpus]
    devices += [Device(gpu=gpu, instance=one) for gpu in node.gpus for one in gpu.instances]
    return {
        "cdiVersion": CDI_VERSION,
        "kind": CDI_KIND,
        "devices": [
            {"name": device.uuid, "containerEdits": {"deviceNodes": _nodes(device, config)}}
            for device in devices
        ],
        "containerEdits": {
            "deviceNodes": [_node(path, config) for path in node.control_nodes],
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],  # the legacy hook must not add GPUs of its own
            "hooks": [
                {
                    "hookName": "createContainer",
                    "path": config.ctk_path,
                    "args": ["nvidia-ctk", "hook", "update-ldcache"],
                }
            ],
        },
    }


def _nodes(device: Device, config: PluginConfig) -> list[dict[str, str]]:
    paths = [f"/dev/nvidia{device.gpu.minor}"]
    paths += device.instance.capability_nodes if device.instance else ()
    return [_node(path, config) for path in paths]


def _node(path: str, config: PluginConfig) -> dict[str, str]:
    return {"path": path, "hostPath": config.devices_at.rstrip("/") + path}
