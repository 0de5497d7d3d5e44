"""The plugin's configuration: NVIDIA's v1 file as typed values. Reading YAML is the caller's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class MigStrategy(StrEnum):
    """How MIG instances are shown: not at all, as ``gpu``, or by profile."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class ListStrategy(StrEnum):
    """How a container is told its devices."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"

    @property
    def is_cdi(self) -> bool:
        """Whether the runtime takes the device from a CDI spec."""
        return self in (ListStrategy.CDI_ANNOTATIONS, ListStrategy.CDI_CRI)


class SharePolicy(StrEnum):
    """Where the shares of one container, and of the next, come from."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


class Discovery(StrEnum):
    """Where GPUs are looked for."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"


class IdStrategy(StrEnum):
    """How devices are named to the runtime."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Sharing of one resource.

    Parameters
    ----------
    suffix
        Name of the resource without domain: ``gpu``, ``mig-1g.10gb``.
    replicas
        Shares per device, at least 2.
    mps
        Whether an MPS daemon arbitrates; time-slicing otherwise.
    rename_by_default
        Whether the resource becomes ``<name>.shared``.
    fail_above_one
        Whether a container may have one share only.
    """

    suffix: str
    replicas: int
    mps: bool = False
    rename_by_default: bool = False
    fail_above_one: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    """Everything that a config file, the environment and options can say; defaults are NVIDIA's."""

    domain: str = "nvidia.com"
    mig_strategy: MigStrategy = MigStrategy.NONE
    fail_on_init_error: bool = False
    driver_root: str = "/"
    dev_root: str | None = None
    container_driver_root: str = "/driver-root"
    ctk_path: str = "/usr/bin/nvidia-ctk"
    pass_device_specs: bool = False
    list_strategies: tuple[ListStrategy, ...] = (ListStrategy.ENVVAR,)
    id_strategy: IdStrategy = IdStrategy.UUID
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    share_policy: SharePolicy = SharePolicy.DISTRIBUTED
    discovery: Discovery = Discovery.AUTO
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    mps_root: str | None = None
    imex_channel_ids: tuple[int, ...] = ()
    imex_required: bool = False
    labels: LabelConfig = field(default_factory=lambda: LabelConfig())
    sharing: tuple[Sharing, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def devices_at(self) -> str:
        """Folder that holds ``dev``; the driver's root unless said otherwise."""
        return self.dev_root if self.dev_root is not None else self.driver_root

    def noting(self, *notes: str) -> PluginConfig:
        """The same with further remarks for the operator."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelConfig:
    """What ``plugin labels`` writes, and how often (None: once)."""

    oneshot: bool = False
    no_timestamp: bool = False
    sleep_s: float | None = 60.0
    output_file: str | None = None
    machine_type_file: str | None = None
    use_node_feature_api: bool = False
