"""NVIDIA's v1 config file, strictly: a key that nobody reads is a fault that names its path.

The file comes as plain data (mappings, lists, texts, numbers, flags); whoever reads the YAML knows
lines and columns, and finds them by the path of a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from plugin import config_values as values
from plugin.config import (
    Discovery,
    IdStrategy,
    LabelConfig,
    MigStrategy,
    PluginConfig,
    SharePolicy,
    Sharing,
)
from plugin.config_keys import KEYS, SHARED_KEYS, way_out
from plugin.errors import ConfigError
from plugin.names import is_subdomain

Path = tuple[str | int, ...]
Value = TypeVar("Value")


class ConfigErrors(ConfigError):  # noqa: N818 - it holds several faults
    """All faults of a config file."""

    def __init__(self, faults: tuple[ConfigError, ...]) -> None:
        self.faults = faults
        Exception.__init__(self, "; ".join(str(fault) for fault in faults))


def read_config(data: object, base: PluginConfig | None = None) -> PluginConfig:
    """Typed values of a config file over defaults.

    Parameters
    ----------
    data
        What the YAML says: a mapping.
    base
        Values for what the file leaves out.

    Raises
    ------
    ConfigErrors
        Every unknown or misplaced key and every wrong value, each with its path.
    """
    reader = _Reader()
    config = reader.config(data, base if base is not None else PluginConfig())
    if reader.faults:
        raise ConfigErrors(tuple(reader.faults))
    return config.noting(*reader.notes)


class _Reader:
    def __init__(self) -> None:
        self.faults: list[ConfigError] = []
        self.notes: list[str] = []

    def config(self, data: object, base: PluginConfig) -> PluginConfig:
        top = self.mapping(data, ())
        version = self.get(top, (), "version", values.text, "v1")
        if version != "v1":
            self.fault(("version",), f'"{version}": only v1 is known')
        flags = self.mapping(top.get("flags"), ("flags",))
        plugin = self.mapping(flags.get("plugin"), ("flags", "plugin"))
        imex = self.mapping(top.get("imex"), ("imex",))
        config = self._flags(flags, base)
        config = self._plugin(plugin, config)
        config = self._imex(imex, config)
        labels = self._labels(self.mapping(flags.get("gfd"), ("flags", "gfd")), base.labels)
        use_api = self.get(
            flags, ("flags",), "useNodeFeatureAPI", values.flag, labels.use_node_feature_api
        )
        config = replace(config, labels=replace(labels, use_node_feature_api=use_api))
        if use_api:
            self.notes.append(
                "useNodeFeatureAPI: no NodeFeature object is made; plugin labels --save writes the "
                "file that node-feature-discovery reads"
            )
        if "resources" in top:
            self.mapping(top["resources"], ("resources",))
            self.notes.append("resources: patterns are not read, here as in NVIDIA's plugin")
        if config.fail_on_init_error:
            self.notes.append(
                "failOnInitError: the process stays, says why it is not ready and looks again"
            )
        if config.discovery is Discovery.TEGRA:
            self.fault(
                ("flags", "deviceDiscoveryStrategy"),
                '"tegra": only nvml is built in',
                "Use auto or nvml",
            )
        sharing = self._sharing(self.mapping(top.get("sharing"), ("sharing",)), config)
        return replace(config, sharing=sharing)

    def _flags(self, flags: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("flags",)
        return replace(
            base,
            mig_strategy=self.get(
                flags, at, "migStrategy", values.choice(MigStrategy), base.mig_strategy
            ),
            fail_on_init_error=self.get(
                flags, at, "failOnInitError", values.flag, base.fail_on_init_error
            ),
            driver_root=self.get(flags, at, "nvidiaDriverRoot", values.text, base.driver_root),
            dev_root=self.get(flags, at, "nvidiaDevRoot", values.text, base.dev_root),
            gdrcopy=self.get(flags, at, "gdrcopyEnabled", values.flag, base.gdrcopy),
            gds=self.get(flags, at, "gdsEnabled", values.flag, base.gds),
            mofed=self.get(flags, at, "mofedEnabled", values.flag, base.mofed),
            discovery=self.get(
                flags, at, "deviceDiscoveryStrategy", values.choice(Discovery), base.discovery
            ),
            mps_root=self.get(flags, at, "mpsRoot", values.text, base.mps_root),
        )

    def _plugin(self, plugin: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("flags", "plugin")
        return replace(
            base,
            pass_device_specs=self.get(
                plugin, at, "passDeviceSpecs", values.flag, base.pass_device_specs
            ),
            list_strategies=self.get(
                plugin, at, "deviceListStrategy", values.strategies, base.list_strategies
            ),
            id_strategy=self.get(
                plugin, at, "deviceIDStrategy", values.choice(IdStrategy), base.id_strategy
            ),
            cdi_annotation_prefix=self.get(
                plugin, at, "cdiAnnotationPrefix", values.text, base.cdi_annotation_prefix
            ),
            ctk_path=self.get(plugin, at, "nvidiaCTKPath", values.text, base.ctk_path),
            container_driver_root=self.get(
                plugin, at, "containerDriverRoot", values.text, base.container_driver_root
            ),
            share_policy=self.get(
                plugin,
                at,
                "sharedDevicesAllocationPolicy",
                values.choice(SharePolicy),
                base.share_policy,
            ),
        )

    def _imex(self, imex: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("imex",)
        channels = self.get(imex, at, "channelIDs", values.channels, base.imex_channel_ids)
        required = self.get(imex, at, "required", values.flag, base.imex_required)
        return replace(base, imex_channel_ids=channels, imex_required=required)

    def _labels(self, gfd: Mapping[str, object], base: LabelConfig) -> LabelConfig:
        at = ("flags", "gfd")
        return replace(
            base,
            oneshot=self.get(gfd, at, "oneshot", values.flag, base.oneshot),
            no_timestamp=self.get(gfd, at, "noTimestamp", values.flag, base.no_timestamp),
            sleep_s=self.get(gfd, at, "sleepInterval", values.seconds, base.sleep_s),
            output_file=self.get(gfd, at, "outputFile", values.text, base.output_file),
            machine_type_file=self.get(
                gfd, at, "machineTypeFile", values.text, base.machine_type_file
            ),
        )

    def _sharing(self, sharing: Mapping[str, object], config: PluginConfig) -> tuple[Sharing, ...]:
        mps, slices = sharing.get("mps"), sharing.get("timeSlicing")
        slices_read = (
            self._shared(slices, "timeSlicing", config.domain, mps=False)
            if slices is not None
            else ()
        )
        if mps is None:
            return slices_read
        if slices is not None:
            self.notes.append("sharing: mps is there, so timeSlicing is not used")
        at = ("sharing", "mps")
        if config.mig_strategy is MigStrategy.MIXED:
            self.fault(at, "MPS does not go with migStrategy mixed", "Use timeSlicing")
        if config.mps_root is None:
            self.fault(
                at,
                "MPS needs a folder for its daemon's files",
                "Set flags.mpsRoot, such as /run/nvidia/mps",
            )
        return self._shared(mps, "mps", config.domain, mps=True)

    def _shared(self, data: object, kind: str, domain: str, *, mps: bool) -> tuple[Sharing, ...]:
        at: Path = ("sharing", kind)
        group = self.mapping(data, at)
        rename = self.get(group, at, "renameByDefault", values.flag, default=False)
        single = self.get(group, at, "failRequestsGreaterThanOne", values.flag, mps)
        entries = group.get("resources")
        at = (*at, "resources")
        if not isinstance(entries, list) or not entries:
            self.fault(at, "a list with at least one resource is wanted here")
            return ()
        shared: dict[str, Sharing] = {}
        for number, entry in enumerate(entries):
            here = (*at, number)
            row = self.mapping(entry, here, SHARED_KEYS)
            if not row:
                continue
            name = self.get(row, here, "name", values.text, "")
            replicas = self.get(row, here, "replicas", values.replicas, 0)
            if not name:
                self.fault(here, "a resource has a name")
            if "replicas" not in row:
                self.fault(here, "a shared resource has replicas", "Say how many, at least 2")
            if "rename" in row:
                self.notes.append(f"{name}: rename is not read, here as in NVIDIA's plugin")
            if row.get("devices", "all") != "all":
                self.notes.append(f"{name}: devices other than all is not read; all are shared")
            suffix = self._suffix(name, (*here, "name"), domain)
            if suffix in shared:
                self.fault((*here, "name"), f'"{name}": shared twice')
            shared[suffix] = Sharing(
                suffix=suffix,
                replicas=replicas,
                mps=mps,
                rename_by_default=rename,
                fail_above_one=single,
            )
        return tuple(shared.values())

    def _suffix(self, name: str, at: Path, domain: str) -> str:
        """A resource's name without its domain: NVIDIA's, or the one we serve."""
        prefix, _, suffix = name.rpartition("/")
        if prefix not in ("", "nvidia.com", domain):
            self.fault(at, f'"{name}": not a resource of {domain}', "Leave the domain out")
        elif name and not is_subdomain(suffix):
            hint = f"Is it {suffix.replace('+', '.')}?" if "+" in suffix else ""
            self.fault(at, f'"{name}": no resource has such a name', hint)
        return suffix

    # --- places and values ---------------------------------------------------------------------

    def fault(self, path: Path, rule: str, hint: str = "") -> None:
        self.faults.append(ConfigError(path, rule, hint))

    def mapping(
        self, data: object, at: Path, keys: tuple[str, ...] | None = None
    ) -> Mapping[str, object]:
        if data is None:
            return {}
        if not isinstance(data, Mapping):
            self.fault(at, "a mapping is wanted here")
            return {}
        known = keys if keys is not None else KEYS[".".join(str(step) for step in at)]
        for key in data:
            if key not in known:
                self.fault((*at, key), "unknown key", way_out(str(key), known))
        return {key: value for key, value in data.items() if value is not None}

    def get(
        self,
        mapping: Mapping[str, object],
        at: Path,
        key: str,
        read: Callable[[object], Value],
        default: Value,
    ) -> Value:
        if key not in mapping:
            return default
        try:
            return read(mapping[key])
        except ValueError as error:
            self.fault((*at, key), f'"{mapping[key]}": {error}')
            return default
