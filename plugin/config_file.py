"""NVIDIA's v1 config file, strictly: a key that nobody reads is a fault that names its path.

The file comes as plain data (mappings, lists, texts, numbers, flags); whoever reads the YAML knows
lines and columns, and finds them by the path of a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from plugin.config import (
    Discovery,
    IdStrategy,
    LabelConfig,
    ListStrategy,
    MigStrategy,
    PluginConfig,
    SharePolicy,
    Sharing,
)
from plugin.errors import ConfigError

Path = tuple[str | int, ...]
Choice = TypeVar("Choice", bound=StrEnum)
Value = TypeVar("Value")

MAX_REPLICAS = 10_000
"""More shares of a GPU than that are a slip of the keyboard."""

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

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


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
        version = self.get(top, (), "version", _text, "v1")
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
            flags, ("flags",), "useNodeFeatureAPI", _flag, labels.use_node_feature_api
        )
        config = replace(config, labels=replace(labels, use_node_feature_api=use_api))
        if "resources" in top:
            self.mapping(top["resources"], ("resources",))
            self.notes.append("resources: patterns are not read, here as in NVIDIA's plugin")
        if config.fail_on_init_error:
            self.notes.append(
                "failOnInitError: the process stays, says why it is not ready and looks again"
            )
        if config.discovery is Discovery.TEGRA:
            self.fault(("flags", "deviceDiscoveryStrategy"), '"tegra": only nvml is built in')
        sharing = self._sharing(self.mapping(top.get("sharing"), ("sharing",)), config)
        return replace(config, sharing=sharing)

    def _flags(self, flags: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("flags",)
        return replace(
            base,
            mig_strategy=self.get(
                flags, at, "migStrategy", _choice(MigStrategy), base.mig_strategy
            ),
            fail_on_init_error=self.get(
                flags, at, "failOnInitError", _flag, base.fail_on_init_error
            ),
            driver_root=self.get(flags, at, "nvidiaDriverRoot", _text, base.driver_root),
            dev_root=self.get(flags, at, "nvidiaDevRoot", _text, base.dev_root),
            gdrcopy=self.get(flags, at, "gdrcopyEnabled", _flag, base.gdrcopy),
            gds=self.get(flags, at, "gdsEnabled", _flag, base.gds),
            mofed=self.get(flags, at, "mofedEnabled", _flag, base.mofed),
            discovery=self.get(
                flags, at, "deviceDiscoveryStrategy", _choice(Discovery), base.discovery
            ),
            mps_root=self.get(flags, at, "mpsRoot", _text, base.mps_root),
        )

    def _plugin(self, plugin: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("flags", "plugin")
        return replace(
            base,
            pass_device_specs=self.get(
                plugin, at, "passDeviceSpecs", _flag, base.pass_device_specs
            ),
            list_strategies=self.get(
                plugin, at, "deviceListStrategy", _strategies, base.list_strategies
            ),
            id_strategy=self.get(
                plugin, at, "deviceIDStrategy", _choice(IdStrategy), base.id_strategy
            ),
            cdi_annotation_prefix=self.get(
                plugin, at, "cdiAnnotationPrefix", _text, base.cdi_annotation_prefix
            ),
            ctk_path=self.get(plugin, at, "nvidiaCTKPath", _text, base.ctk_path),
            container_driver_root=self.get(
                plugin, at, "containerDriverRoot", _text, base.container_driver_root
            ),
            share_policy=self.get(
                plugin,
                at,
                "sharedDevicesAllocationPolicy",
                _choice(SharePolicy),
                base.share_policy,
            ),
        )

    def _imex(self, imex: Mapping[str, object], base: PluginConfig) -> PluginConfig:
        at = ("imex",)
        channels = self.get(imex, at, "channelIDs", _channels, base.imex_channel_ids)
        required = self.get(imex, at, "required", _flag, base.imex_required)
        return replace(base, imex_channel_ids=channels, imex_required=required)

    def _labels(self, gfd: Mapping[str, object], base: LabelConfig) -> LabelConfig:
        at = ("flags", "gfd")
        return replace(
            base,
            oneshot=self.get(gfd, at, "oneshot", _flag, base.oneshot),
            no_timestamp=self.get(gfd, at, "noTimestamp", _flag, base.no_timestamp),
            sleep_s=self.get(gfd, at, "sleepInterval", _seconds, base.sleep_s),
            output_file=self.get(gfd, at, "outputFile", _text, base.output_file),
            machine_type_file=self.get(gfd, at, "machineTypeFile", _text, base.machine_type_file),
        )

    def _sharing(self, sharing: Mapping[str, object], config: PluginConfig) -> tuple[Sharing, ...]:
        mps, slices = sharing.get("mps"), sharing.get("timeSlicing")
        slices_read = self._shared(slices, "timeSlicing", mps=False) if slices is not None else ()
        if mps is None:
            return slices_read
        if slices is not None:
            self.notes.append("sharing: mps is there, so timeSlicing is not used")
        at = ("sharing", "mps")
        if config.mig_strategy is MigStrategy.MIXED:
            self.fault(at, "MPS does not go with migStrategy mixed", "Use timeSlicing")
        if config.mps_root is None:
            self.fault(at, "MPS needs a folder for its daemon's files", "Set flags.mpsRoot")
        return self._shared(mps, "mps", mps=True)

    def _shared(self, data: object, kind: str, *, mps: bool) -> tuple[Sharing, ...]:
        at: Path = ("sharing", kind)
        group = self.mapping(data, at)
        rename = self.get(group, at, "renameByDefault", _flag, default=False)
        single = self.get(group, at, "failRequestsGreaterThanOne", _flag, mps)
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
            name = self.get(row, here, "name", _text, "")
            replicas = self.get(row, here, "replicas", _replicas, 0)
            if not name:
                self.fault(here, "a resource has a name")
            if "replicas" not in row:
                self.fault(here, "a shared resource has replicas", "Say how many, at least 2")
            if "rename" in row:
                self.notes.append(f"{name}: rename is not read, here as in NVIDIA's plugin")
            if row.get("devices", "all") != "all":
                self.notes.append(f"{name}: devices other than all is not read; all are shared")
            suffix = name.rpartition("/")[2]
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
                self.fault((*at, key), "unknown key", _where(str(key), known))
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


def _where(key: str, known: tuple[str, ...]) -> str:
    """Way out for an unknown key: where it belongs, or what it may have meant."""
    places = [place or "the top" for place, keys in KEYS.items() if key in keys]
    if places:
        return f"It belongs under {' or '.join(places)}"
    near = get_close_matches(key, known, n=1, cutoff=0.6)
    return f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(known)}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is wanted here")
    return str(value)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("true or false is wanted here")


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is wanted here")
    try:
        return int(value)
    except ValueError:
        raise ValueError("a whole number is wanted here") from None


def _replicas(value: object) -> int:
    count = _whole(value)
    if not 2 <= count <= MAX_REPLICAS:
        raise ValueError(f"replicas are between 2 and {MAX_REPLICAS}")
    return count


def _choice(kind: type[Choice]) -> Callable[[object], Choice]:
    def read(value: object) -> Choice:
        try:
            return kind(_text(value))
        except ValueError:
            raise ValueError(f"one of {', '.join(kind)}") from None

    return read


def _strategies(value: object) -> tuple[ListStrategy, ...]:
    values = value if isinstance(value, list) else _text(value).split(",")
    if not values:
        raise ValueError("at least one strategy is wanted here")
    return tuple(dict.fromkeys(_choice(ListStrategy)(one) for one in values))


def _channels(value: object) -> tuple[int, ...]:
    ids = tuple(_whole(one) for one in value) if isinstance(value, list) else (-1,)
    if ids not in ((), (0,)):
        raise ValueError("the list is empty or has the one channel 0")
    return ids


def _seconds(value: object) -> float | None:
    text = _text(value)
    if text == "infinite":
        return None
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("a duration such as 60s or 5m, or infinite")
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000
