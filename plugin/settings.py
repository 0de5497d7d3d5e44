"""How the plugin runs on a node: what is no part of NVIDIA's config file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from plugin.kubelet import KubeletPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the plugin runs on this node.

    Parameters
    ----------
    rescan_s
        How often devices are listed again.
    probe_s
        How often GPUs are probed.
    busy_s
        How often to look while containers hold what is to go.
    pre_start
        Whether the kubelet asks once more before a container starts.
    runtime_config
        Config file of the container runtime, to say whom it believes; None looks at none.
    """

    paths: KubeletPaths = field(default_factory=KubeletPaths)
    rescan_s: float = 30.0
    probe_s: float = 5.0
    busy_s: float = 1.0
    config_poll_s: float = 2.0
    pre_start: bool = False
    runtime_config: Path | None = None
