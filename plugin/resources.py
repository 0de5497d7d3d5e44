"""From the GPUs of a node to the extended resources it advertises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from plugin.config import ListStrategy, MigStrategy, PluginConfig, Sharing
from plugin.devices.base import MigInstance, NodeDevices, PhysicalGpu
from plugin.errors import ConfigError
from plugin.names import mig_suffix, resource_name, share_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a container sees as one device: a GPU, or one MIG instance of it."""

    gpu: PhysicalGpu
    instance: MigInstance | None = None

    @property
    def uuid(self) -> str:
        """UUID that the runtime takes."""
        return self.instance.uuid if self.instance else self.gpu.uuid

    @property
    def index(self) -> str:
        """Index form: ``3``, or ``3:1`` for an instance (its place among those of the GPU)."""
        if self.instance is None:
            return str(self.gpu.index)
        return f"{self.gpu.index}:{self.gpu.instances.index(self.instance)}"

    @property
    def memory_mib(self) -> int:
        """Memory of the GPU or instance."""
        return self.instance.memory_mib if self.instance else self.gpu.memory_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One extended resource and the devices behind it.

    Parameters
    ----------
    name
        ``nvidia.com/gpu``.
    devices
        GPUs or instances, by ID of the device; each is advertised as is, or in shares.
    sharing
        How each device is shared; None where it is not.
    extra
        IDs that are kept beside those for the containers that hold them, with the position of
        their device.

    Attributes
    ----------
    ids
        Advertised IDs of each device, in order of `devices`.
    owner
        Position of the device behind each advertised ID.
    """

    name: str
    devices: tuple[Device, ...]
    sharing: Sharing | None = None
    extra: tuple[tuple[str, int], ...] = ()
    ids: tuple[tuple[str, ...], ...] = field(init=False, repr=False)
    owner: Mapping[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        shares = range(self.sharing.replicas) if self.sharing else None
        own = [
            [one.uuid] if shares is None else [share_id(one.uuid, n) for n in shares]
            for one in self.devices
        ]
        for kept, position in self.extra:
            own[position].append(kept)
        ids = tuple(tuple(one) for one in own)
        owner = {one: position for position, group in enumerate(ids) for one in group}
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "owner", owner)

    def device(self, advertised: str) -> Device:
        """Look up the device behind an advertised ID; KeyError where there is none."""
        return self.devices[self.owner[advertised]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """All that a node advertises, and what an operator should know about it."""

    resources: tuple[Resource, ...]
    notes: tuple[str, ...] = ()


def offer(node: NodeDevices, config: PluginConfig) -> Offer:
    """Resources of a node under a config, by name.

    A layout that the strategy cannot serve is no error: what is consistent is served, and a note
    names the odd GPU.

    Raises
    ------
    ConfigError
        A resource would get a name that the kubelet refuses.
    """
    notes = list(_unmonitored(node))
    if config.mig_strategy is not MigStrategy.NONE:
        notes += hidden_instances(node)
    groups: dict[str, list[Device]] = {}
    for suffix, device in _devices(node, config.mig_strategy, notes):
        groups.setdefault(suffix, []).append(device)
    known = {*groups}
    for sharing in config.sharing:
        if sharing.suffix not in known and node.gpus:
            notes.append(f"sharing names {config.domain}/{sharing.suffix}, which no device has")
    made = [_resource(suffix, devices, config, notes) for suffix, devices in groups.items()]
    offered = tuple(sorted(made, key=lambda r: r.name))
    if len(offered) > 1 and config.list_strategies == (ListStrategy.ENVVAR,):
        names = ", ".join(one.name for one in offered)
        notes.append(
            f"a container that asks for two of {names} sees devices of one of them, at random: "
            "with deviceListStrategy envvar each sets the same variable. Use volume-mounts, or "
            "cdi-cri where images bring the driver's libraries"
        )
    return Offer(resources=offered, notes=tuple(notes))


def hidden_instances(node: NodeDevices) -> tuple[str, ...]:
    """GPUs whose instances cannot be listed, with the reason of each."""
    return tuple(
        f"GPU {gpu.index} has MIG on, and its instances cannot be listed: {gpu.hidden}"
        for gpu in node.gpus
        if gpu.hidden is not None
    )


def _unmonitored(node: NodeDevices) -> Iterator[str]:
    """GPUs that are healthy only because nobody reports their errors, by reason."""
    reasons: dict[str, list[int]] = {}
    for gpu in node.gpus:
        if gpu.unmonitored is not None:
            reasons.setdefault(gpu.unmonitored, []).append(gpu.index)
    for why, indexes in reasons.items():
        which = f"GPU {indexes[0]}" if len(indexes) == 1 else f"each of the GPUs {indexes}"
        yield f"{which} is unmonitored: {why}; probes alone find out when it fails"


def _resource(
    suffix: str, devices: list[Device], config: PluginConfig, notes: list[str]
) -> Resource:
    sharing = next((s for s in config.sharing if s.suffix == suffix), None)
    if sharing is None:
        return Resource(name=resource_name(config.domain, suffix), devices=tuple(devices))
    if sharing.mps and any(device.instance for device in devices):
        raise ConfigError(
            ("sharing", "mps"), f'"{suffix}": MPS is not for MIG instances', "Use timeSlicing"
        )
    name = f"{suffix}.shared" if sharing.rename_by_default else suffix
    notes.append(_caveat(config.domain, name, devices, sharing))
    return Resource(
        name=resource_name(config.domain, name), devices=tuple(devices), sharing=sharing
    )


def _caveat(domain: str, name: str, devices: list[Device], sharing: Sharing) -> str:
    memory = min(device.memory_mib for device in devices)
    if sharing.mps:
        limit = (
            "MPS limits memory and threads per client process, so two processes in one container "
            f"have twice the limit ({memory // sharing.replicas} MiB each)"
        )
    else:
        limit = (
            "time-slicing shares compute in turns and does not divide memory: one container can "
            f"take all {memory} MiB"
        )
    return f"{domain}/{name}: {sharing.replicas} shares per device; {limit}"


def _devices(
    node: NodeDevices, strategy: MigStrategy, notes: list[str]
) -> Iterable[tuple[str, Device]]:
    """Every device with the suffix of its resource name."""
    if strategy is MigStrategy.NONE:
        cut = [gpu.index for gpu in node.gpus if gpu.mig_enabled]
        if cut:
            notes.append(f"GPUs {cut} have MIG on, but migStrategy none does not show instances")
        return [("gpu", Device(gpu=gpu)) for gpu in node.gpus]
    if strategy is MigStrategy.SINGLE:
        return _single(node, notes)
    return [*_whole(node.gpus), *_instances(node.gpus, notes)]


def _whole(gpus: Iterable[PhysicalGpu]) -> Iterator[tuple[str, Device]]:
    return (("gpu", Device(gpu=gpu)) for gpu in gpus if not gpu.mig_enabled)


def _instances(gpus: Iterable[PhysicalGpu], notes: list[str]) -> Iterator[tuple[str, Device]]:
    for gpu in gpus:
        for instance in gpu.instances:
            if "c." in instance.profile:
                notes.append(
                    f"GPU {gpu.index}: {instance.profile} has a part of its instance's compute "
                    "slices and is not advertised"
                )
                continue
            yield mig_suffix(instance.profile), Device(gpu=gpu, instance=instance)


def _single(node: NodeDevices, notes: list[str]) -> list[tuple[str, Device]]:
    """One kind of device for the whole node: all GPUs whole, or all instances alike."""
    cut = [gpu for gpu in node.gpus if gpu.mig_enabled]
    if not cut:
        return list(_whole(node.gpus))
    counts = Counter(instance.profile for gpu in cut for instance in gpu.instances)
    if not counts:
        notes.append("migStrategy single: MIG is on, but there is no instance on any GPU")
        return []
    profile = min(counts, key=lambda name: (-counts[name], name))
    served: list[tuple[str, Device]] = []
    for gpu in node.gpus:
        profiles = {instance.profile for instance in gpu.instances}
        if profiles == {profile}:
            served += [("gpu", Device(gpu=gpu, instance=one)) for one in gpu.instances]
            continue
        odd = "MIG off" if not gpu.mig_enabled else f"instances {sorted(profiles)}"
        notes.append(
            f"migStrategy single: GPU {gpu.index} has {odd}, the others {profile}; it is left out"
        )
    return served
