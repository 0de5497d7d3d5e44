"""GPUs of jobs where Slurm counts otherwise: shards, MPS, what nodes have allocated, ``--gpus``."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from solver.cluster import GPU_MILLI
from specs.importers.slurm.jobs import OnNode
from specs.importers.slurm.nodes import total
from specs.importers.slurm.tres import SHARED, gpus_in, shared_in
from specs.models.quantity import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specs.importers.slurm.jobs import SlurmJob
    from specs.importers.slurm.nodes import SlurmNode
    from specs.importers.slurm.room import Room


def in_whole_gpus(job: SlurmJob, nodes: Mapping[str, SlurmNode]) -> SlurmJob:
    """A running job that holds the GPUs whole of which it has parts.

    It is not known of which they are, and another job that wants a whole GPU gets none of them.
    """
    on = tuple(
        replace(part, count=part.count + _whole(dict(part.parts), nodes[part.name]))
        if part.parts and part.name in nodes and part.gpus is None
        else part
        for part in job.on
    )
    return replace(job, on=on)


def _whole(parts: Mapping[str, int], node: SlurmNode) -> int:
    """How many GPUs of a node some parts of GPUs are at least."""
    gpus, here = total(node.gpus), dict(node.parts)
    return sum(
        -(-count * gpus // here[kind]) if here.get(kind) else gpus for kind, count in parts.items()
    )


def milli_of(job: SlurmJob, nodes: Mapping[str, SlurmNode]) -> int | None:
    """Thousandths of a GPU that each part of a job asks for; None where that is not one number."""
    if not job.parts:
        return 0
    ((kind, count), *others) = job.parts
    sizes = {
        Fraction(dict(node.parts)[kind], total(node.gpus))
        for node in nodes.values()
        if kind in dict(node.parts) and node.gpus
    }
    if others or job.gpus or len(sizes) != 1:
        return None
    (size,) = sizes
    milli = -(-count * GPU_MILLI * size.denominator // size.numerator) if size else 0
    return milli if 0 < milli <= GPU_MILLI else None


def over_nodes(job: SlurmJob, nodes: Mapping[str, SlurmNode]) -> SlurmJob:
    """A job that asks for GPUs in all, ``--gpus``: evenly over as few nodes as have them."""
    if job.per != "job":
        return job
    wanted = job.gpus * job.replicas
    here = [
        total(node.gpus)
        for node in nodes.values()
        if not (job.partitions and node.partitions) or set(job.partitions) & set(node.partitions)
    ]
    most = max(here, default=0)
    parts = max(job.replicas, -(-wanted // most) if most else 1)
    return replace(
        job,
        per="node",
        replicas=parts,
        gpus=-(-wanted // parts),
        cpu=job.cpu * job.replicas / parts,
        memory_mib=job.memory_mib * job.replicas / parts,
    )


def beyond(node: SlurmNode, room: Room) -> OnNode | None:
    """What a node has allocated beyond what is held of it already; None: nothing."""
    gpus = gpus_in(node.allocated)
    gpus += _whole({k: n for k in SHARED if (n := shared_in(node.allocated, k))}, node)
    left = len(room.free) - room.unnamed
    memory_mib = node.memory_mib - node.memory_reserved_mib
    rest = OnNode(
        name=node.name,
        count=max(0, min(gpus - (room.n_gpus - left), left)),
        cpus=_rest(node.allocated.get("cpu", Fraction(0)), node.cpus_usable, room.cpus),
        memory_mib=_rest(
            node.allocated.get("mem", Fraction(0)) / MIB, max(0, memory_mib), room.memory_mib
        ),
    )
    return rest if rest.count or rest.cpus or rest.memory_mib else None


def _rest(allocated: Fraction, capacity: int, left: Fraction) -> Fraction:
    return max(Fraction(0), min(allocated - (capacity - left), left))
