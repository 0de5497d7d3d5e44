"""Which of the available devices a container should have.

Whole GPUs go by `topology.scoring`, as in the solver: the set that loses the least bandwidth, and
among those the one that leaves the most bandwidth between the GPUs that remain, so that a small
request does not break up an NVLink pair. Instances and shares are counted per GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

from plugin.config import SharePolicy
from plugin.resources import Resource
from topology.graph import NodeTopology
from topology.scoring import GpuSet, lost_gb_s, total_gb_s

Ids = dict[str, None]
"""A set of IDs that keeps their order."""

MAX_SETS = 300
"""Sets that are compared exactly: all of 8 GPUs (70 at most), none of 16 in the middle."""


def preferred(
    resource: Resource,
    topology: NodeTopology,
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    policy: SharePolicy = SharePolicy.DISTRIBUTED,
) -> tuple[str, ...]:
    """IDs that a container should get.

    Parameters
    ----------
    resource
        The resource asked for.
    topology
        Links of the node; taken when the GPUs were listed, never asked for here.
    available, must_include
        IDs as the kubelet gives them; IDs that are not advertised are left out.
    size
        Devices wanted in all.
    policy
        Where shares come from.

    Returns
    -------
    tuple of str
        Exactly `size` IDs, those of `must_include` among them; empty where that cannot be done,
        which leaves the choice to the kubelet.
    """
    known = resource.owner
    must = [one for one in dict.fromkeys(must_include) if one in known]
    if resource.sharing is not None:
        return _shares(resource, available, must, size, policy)
    free: Ids = dict.fromkeys(available)
    free.update(dict.fromkeys(must))
    if not free.keys() <= known.keys():
        free = {one: None for one in free if one in known}
    if not 0 < size <= len(free) or len(must) > size:
        return ()
    if any(device.instance for device in resource.devices):
        return _instances(resource, free, must, size)
    return _gpus(resource, topology, free, must, size)


def _gpus(
    resource: Resource, topology: NodeTopology, free: Ids, must: list[str], size: int
) -> tuple[str, ...]:
    by_index = {resource.device(one).gpu.index: one for one in free}
    fixed = tuple(sorted(resource.device(one).gpu.index for one in must))
    chosen = least_damage(topology, tuple(sorted(by_index)), fixed, size)
    return tuple(by_index[index] for index in chosen)


@lru_cache(maxsize=4096)
def least_damage(topology: NodeTopology, free: GpuSet, fixed: GpuSet, size: int) -> GpuSet:
    """The set of `size` free GPUs, `fixed` among them, that serves its owner and the next best.

    Notes
    -----
    In order: least lost bandwidth of the set itself, most bandwidth of all pairs that stay free,
    most bandwidth of all its own pairs, lowest indices. Where there are too many sets for a look
    at each (nodes of sixteen GPUs that are not all alike), GPUs are added one by one in the same
    order, once from each start.

    Examples
    --------
    >>> from topology.presets import preset
    >>> least_damage(preset("a100-pcie-pairs"), (0, 1, 2), (), 1)
    (2,)
    """
    rest = [gpu for gpu in free if gpu not in fixed]
    wanted = size - len(fixed)
    if topology.is_uniform or wanted == len(rest):
        return tuple(sorted((*fixed, *rest[:wanted])))

    def damage(gpus: Iterable[int]) -> tuple[int, int, int, GpuSet]:
        chosen = tuple(sorted(gpus))
        left = tuple(gpu for gpu in free if gpu not in chosen)
        own = total_gb_s(topology, chosen)
        return lost_gb_s(topology, chosen), -total_gb_s(topology, left), -own, chosen

    if comb(len(rest), wanted) <= MAX_SETS:
        return min(damage((*fixed, *more)) for more in combinations(rest, wanted))[-1]
    starts: list[GpuSet] = [fixed] if fixed else [(gpu,) for gpu in rest]
    return min(damage(_grown(topology, start, rest, size)) for start in starts)[-1]


def _grown(topology: NodeTopology, start: GpuSet, rest: list[int], size: int) -> GpuSet:
    """Add the GPU that has most bandwidth to those chosen, and least to the others, each time."""
    chosen = list(start)
    while len(chosen) < size:
        others = [gpu for gpu in rest if gpu not in chosen]

        def pull(gpu: int, others: list[int] = others) -> tuple[int, int, int, int]:
            own = [topology.gb_s(gpu, one) for one in chosen]
            outside = sum(topology.gb_s(gpu, one) for one in others)
            return -min(own, default=0), -sum(own), outside, gpu

        chosen.append(min(others, key=pull))
    return tuple(chosen)


def _instances(resource: Resource, free: Ids, must: list[str], size: int) -> tuple[str, ...]:
    """Instances of GPUs that are in use already, so that others stay empty for a new geometry."""

    def key(one: str) -> tuple[int, int]:
        return left[resource.device(one).gpu.uuid], resource.owner[one]

    left = Counter(resource.device(one).gpu.uuid for one in free)
    rest = sorted((one for one in free if one not in must), key=key)
    return tuple([*must, *rest][:size])


def _shares(
    resource: Resource, available: Sequence[str], must: list[str], size: int, policy: SharePolicy
) -> tuple[str, ...]:
    """Shares of the devices with the fewest taken (or, packed, with the most).

    Distributed, a container that asks for two shares gets two devices where there are two.
    """
    replicas = resource.sharing.replicas if resource.sharing else 1
    free = {*available, *must}
    # Sets, not loops: a node may have a thousand shares, and every pod start waits for this.
    left = [free.intersection(ids) for ids in resource.ids]
    if not 0 < size <= sum(map(len, left)) or len(must) > size:
        return ()
    here = Counter(map(resource.owner.__getitem__, must))
    for one in must:
        left[resource.owner[one]].remove(one)
    chosen = list(must)
    while len(chosen) < size:

        def key(position: int) -> tuple[int, int, int]:
            taken = replicas - len(left[position])
            if policy is SharePolicy.PACKED:
                return 0, -taken, position
            return here[position], taken, position

        position = min((one for one, shares in enumerate(left) if shares), key=key)
        share = next(one for one in resource.ids[position] if one in left[position])
        left[position].remove(share)
        here[position] += 1
        chosen.append(share)
    return tuple(chosen)
