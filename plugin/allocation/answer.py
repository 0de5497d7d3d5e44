"""What a container is told about its devices: environment, mounts, device nodes, CDI names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from plugin.config import IdStrategy, ListStrategy, PluginConfig
from plugin.errors import RequestRefusedError, UnknownDeviceError
from plugin.resources import Device, Resource

CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
"""Vendor and class of our CDI devices, the same as NVIDIA's plugin uses."""

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
VOLUME_MOUNTS_AT = "/var/run/nvidia-container-devices"
IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A path of the host in the container."""

    host: str
    container: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one container is told."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def answer(
    resource: Resource,
    ids: Sequence[str],
    config: PluginConfig,
    control_nodes: Sequence[str] = (),
) -> Answer:
    """What a container with these IDs is told. The same IDs always give the same answer.

    Parameters
    ----------
    ids
        Advertised IDs; several shares of one device are one visible device.
    control_nodes
        Device nodes of the driver as a whole that the host has.

    Raises
    ------
    UnknownDeviceError
        An ID is not advertised.
    RequestRefusedError
        More than one share, where the config allows one.
    """
    unknown = [one for one in ids if one not in resource.owner]
    if unknown:
        raise UnknownDeviceError(f"{resource.name} has no device {', '.join(unknown)}")
    sharing = resource.sharing
    if sharing is not None and sharing.fail_above_one and len(ids) > 1:
        raise RequestRefusedError(
            f"{resource.name}: {len(ids)} shares asked for, one is allowed: more shares are no "
            "larger part of a GPU (failRequestsGreaterThanOne)"
        )
    positions = sorted({resource.owner[one] for one in ids})
    devices = [resource.devices[position] for position in positions]
    names = [_name(device, config) for device in devices]
    strategies = config.list_strategies
    envs: dict[str, str] = {}
    mounts: list[Mount] = []
    if ListStrategy.VOLUME_MOUNTS in strategies:
        envs[VISIBLE_DEVICES] = VOLUME_MOUNTS_AT
        mounts += [Mount(host="/dev/null", container=f"{VOLUME_MOUNTS_AT}/{n}") for n in names]
    elif ListStrategy.ENVVAR in strategies:
        envs[VISIBLE_DEVICES] = ",".join(names)
    if config.imex_channel_ids and not all(strategy.is_cdi for strategy in strategies):
        envs[IMEX_CHANNELS] = ",".join(str(channel) for channel in config.imex_channel_ids)
    features = {"GDS": config.gds, "MOFED": config.mofed, "GDRCOPY": config.gdrcopy}
    envs |= {f"NVIDIA_{name}": "enabled" for name, on in features.items() if on}
    if sharing is not None and sharing.mps:
        mps_envs, mps_mounts = _mps(resource.name, config)
        envs |= mps_envs
        mounts += mps_mounts
    by_uuid = [f"{CDI_KIND}={device.uuid}" for device in devices]
    annotations = {}
    if ListStrategy.CDI_ANNOTATIONS in strategies:
        key = f"{config.cdi_annotation_prefix}unstrand_{devices[0].uuid}" if devices else ""
        annotations = {key: ",".join(by_uuid)} if key else {}
    nodes: tuple[str, ...] = ()
    if config.pass_device_specs and not all(strategy.is_cdi for strategy in strategies):
        nodes = tuple(dict.fromkeys([*_nodes(devices), *control_nodes]))
    return Answer(
        envs=envs,
        mounts=tuple(mounts),
        device_nodes=nodes,
        annotations=annotations,
        cdi_devices=tuple(by_uuid) if ListStrategy.CDI_CRI in strategies else (),
    )


def _name(device: Device, config: PluginConfig) -> str:
    return device.uuid if config.id_strategy is IdStrategy.UUID else device.index


def _nodes(devices: Iterable[Device]) -> Iterator[str]:
    """Nodes of the GPUs, and of the capabilities of instances."""
    for device in devices:
        yield f"/dev/nvidia{device.gpu.minor}"
        if device.instance is not None:
            yield from device.instance.capability_nodes


def _mps(resource: str, config: PluginConfig) -> tuple[dict[str, str], list[Mount]]:
    """Where a client finds the daemon of its resource."""
    name = resource.rpartition("/")[2]
    pipe = f"/mps/{name}/pipe"
    mounts = [
        Mount(host=f"{config.mps_root}/{name}/pipe", container=pipe),
        Mount(host=f"{config.mps_root}/shm", container="/dev/shm"),
    ]
    return {"CUDA_MPS_PIPE_DIRECTORY": pipe}, mounts
