"""Node labels in the words of GPU feature discovery, computed from one listing of the devices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from plugin.config import MigStrategy, PluginConfig, Sharing
from plugin.devices.base import MigInstance, NodeDevices, PhysicalGpu
from plugin.names import mig_suffix
from topology.graph import Fabric

PREFIX = "nvidia.com/"
OWN_PREFIX = "unstrand.io/"
MAX_VALUE = 63

FAMILIES: Mapping[tuple[int, int], str] = {(7, 5): "turing", (8, 9): "ada-lovelace"}
FAMILY_BY_MAJOR: Mapping[int, str] = {
    5: "maxwell",
    6: "pascal",
    7: "volta",
    8: "ampere",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
"""Compute capability to architecture."""


def labels(
    node: NodeDevices, config: PluginConfig, *, machine: str = "", now: int | None = None
) -> dict[str, str]:
    """Labels of a node.

    Parameters
    ----------
    machine
        The machine's type (DMI product name).
    now
        Unix time of the listing, or None for labels that stay the same.

    Returns
    -------
    dict
        Key to value; every value is a legal label value.
    """
    found: dict[str, str] = {}
    if now is not None:
        found["gfd.timestamp"] = str(now)
    if machine:
        found["gpu.machine"] = machine
    if node.gpus:
        found |= _versions(node) | _gpu(node, config) | _mig(node, config)
    if node.clique is not None:
        found["gpu.clique"] = node.clique
    result = {PREFIX + key: label_value(value) for key, value in found.items()}
    if node.gpus:
        result |= {OWN_PREFIX + key: label_value(value) for key, value in _links(node).items()}
    return result


def label_value(text: str) -> str:
    """Make a legal label value of a text: blanks to dashes, others dropped, 63 characters at most.

    Examples
    --------
    >>> label_value("NVIDIA H100 80GB HBM3 (SXM)")
    'NVIDIA-H100-80GB-HBM3-SXM'
    """
    kept = re.sub(r"[^A-Za-z0-9_. -]", "", text).replace(" ", "-")
    return kept[:MAX_VALUE].strip("-_.")


def _versions(node: NodeDevices) -> dict[str, str]:
    found = {}
    parts = node.driver_version.split(".")
    if node.driver_version:
        found["cuda.driver-version.full"] = node.driver_version
        for name, old, part in zip(
            ("major", "minor", "revision"), ("major", "minor", "rev"), parts, strict=False
        ):
            found[f"cuda.driver-version.{name}"] = found[f"cuda.driver.{old}"] = part
    if node.cuda_version:
        major, _, minor = node.cuda_version.partition(".")
        found["cuda.runtime-version.full"] = node.cuda_version
        found["cuda.runtime-version.major"] = found["cuda.runtime.major"] = major
        found["cuda.runtime-version.minor"] = found["cuda.runtime.minor"] = minor or "0"
    return found


def _gpu(node: NodeDevices, config: PluginConfig) -> dict[str, str]:
    """Of the node's most frequent model; the keys have room for one."""
    counts = Counter(gpu.product for gpu in node.gpus)
    product = min(counts, key=lambda name: (-counts[name], name))
    gpu = next(one for one in node.gpus if one.product == product)
    sharing = next((one for one in config.sharing if one.suffix == "gpu"), None)
    found = {
        "gpu.present": "true",
        "gpu.count": str(counts[product]),
        "gpu.product": _product(product, sharing),
        "gpu.memory": str(gpu.memory_mib),
        "gpu.replicas": _replicas(gpu, config, sharing),
        "gpu.sharing-strategy": _strategy(sharing),
        "gpu.mode": "compute",
        "mig.capable": _flag(any(one.mig_capable for one in node.gpus)),
        "mps.capable": _flag(sharing is not None and sharing.mps),
    }
    if gpu.compute_capability is not None:
        major, minor = gpu.compute_capability
        found |= {"gpu.compute.major": str(major), "gpu.compute.minor": str(minor)}
        family = FAMILIES.get((major, minor), FAMILY_BY_MAJOR.get(major))
        found |= {"gpu.family": family} if family else {}
    return found


def _replicas(gpu: PhysicalGpu, config: PluginConfig, sharing: Sharing | None) -> str:
    if gpu.mig_enabled and config.mig_strategy is MigStrategy.MIXED:
        return "0"
    return str(sharing.replicas if sharing else 1)


def _product(product: str, sharing: Sharing | None) -> str:
    shared = sharing is not None and not sharing.rename_by_default
    return f"{product}-SHARED" if shared else product


def _strategy(sharing: Sharing | None) -> str:
    if sharing is None:
        return "none"
    return "mps" if sharing.mps else "time-slicing"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _mig(node: NodeDevices, config: PluginConfig) -> dict[str, str]:
    if config.mig_strategy is MigStrategy.NONE:
        return {}
    found = {"mig.strategy": config.mig_strategy.value}
    if config.mig_strategy is MigStrategy.SINGLE:
        return found | _single(node)
    by_profile: dict[str, list[tuple[PhysicalGpu, MigInstance]]] = {}
    for gpu in node.gpus:
        for instance in gpu.instances:
            by_profile.setdefault(instance.profile, []).append((gpu, instance))
    for profile, pairs in by_profile.items():
        suffix = mig_suffix(profile)
        sharing = next((one for one in config.sharing if one.suffix == suffix), None)
        gpu, instance = pairs[0]
        found |= {
            f"{suffix}.count": str(len(pairs)),
            f"{suffix}.product": _product(_mig_product(gpu, profile), sharing),
            f"{suffix}.memory": str(instance.memory_mib),
            f"{suffix}.replicas": str(sharing.replicas if sharing else 1),
            f"{suffix}.sharing-strategy": _strategy(sharing),
        }
        if instance.multiprocessors:
            found[f"{suffix}.multiprocessors"] = str(instance.multiprocessors)
    return found


def _mig_product(gpu: PhysicalGpu, profile: str) -> str:
    return f"{gpu.product}-MIG-{profile.replace('+', '.')}"


def _single(node: NodeDevices) -> dict[str, str]:
    """Instances take the keys of GPUs; a layout that is not alike everywhere is called INVALID."""
    cut = [gpu for gpu in node.gpus if gpu.mig_enabled]
    if not cut:
        return {}
    instances = [one for gpu in node.gpus for one in gpu.instances]
    alike = len({one.profile for one in instances}) == 1
    if not alike or len(cut) < len(node.gpus) or not all(gpu.instances for gpu in cut):
        return {
            "gpu.product": f"{cut[0].product}-MIG-INVALID",
            "gpu.count": "0",
            "gpu.replicas": "0",
            "gpu.memory": "0",
            "gpu.sharing-strategy": "",
        }
    return {
        "gpu.product": _mig_product(cut[0], instances[0].profile),
        "gpu.count": str(len(instances)),
        "gpu.memory": str(instances[0].memory_mib),
    }


def _links(node: NodeDevices) -> dict[str, str]:
    """What a scheduler wants to know of the links, beyond what GPU feature discovery tells."""
    topology = node.topology
    found = {"nvlink.fabric": topology.fabric.value}
    if topology.fabric is not Fabric.NONE:
        found["nvlink.islands"] = _counts(len(island) for island in topology.islands)
    return found


def _counts(sizes: Iterable[int]) -> str:
    """Sizes of islands, largest first: ``4x2`` are four of two GPUs."""
    return "_".join(f"{n}x{size}" for size, n in sorted(Counter(sizes).items(), reverse=True))
