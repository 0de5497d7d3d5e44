"""What readers make of a row: a job submitted at a time, a gang as replicas on nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from simulator.scenario import Arrival
from solver.workload import Job, Role, Shape

GPUS_PER_NODE = 8
"""GPUs of a node in all traces with gangs over several nodes."""

Selector = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job of a trace before it is known when time begins.

    Parameters
    ----------
    submit_ms
        When it was submitted, on the clock of the trace since 1970.
    roles
        Its replicas; they start together.
    """

    name: str
    queue: str
    submit_ms: int
    duration_ms: int
    roles: tuple[Role, ...]
    outcome: Literal["finished", "failed"] = "finished"


def arrivals_of(
    submissions: Iterable[Submission], since_ms: int | None = None
) -> tuple[Arrival, ...]:
    """Arrivals in order of time; those of one moment keep the order of the file.

    Parameters
    ----------
    since_ms
        When time begins; None: with the first submission.
    """
    ordered = sorted(submissions, key=lambda job: job.submit_ms)
    if not ordered:
        return ()
    zero_ms = ordered[0].submit_ms if since_ms is None else since_ms
    return tuple(
        Arrival(
            job=Job(name=job.name, roles=job.roles, queue=job.queue),
            arrival_ms=job.submit_ms - zero_ms,
            duration_ms=job.duration_ms,
            outcome=job.outcome,
        )
        for job in ordered
    )


@lru_cache(maxsize=65536)  # most jobs of a trace are alike: one object serves them all
def gang(
    gpus: int,
    selector: Selector = (),
    cpu_milli: int = 0,
    memory_mib: int = 0,
    per_node: int = GPUS_PER_NODE,
) -> tuple[Role, ...]:
    """Roles of a gang of GPUs: nodes that it fills (`whole`), and what remains (`rest`).

    A gang that fits one node is one replica.

    Parameters
    ----------
    cpu_milli
        CPU of the whole gang; a replica has its part of it by GPUs, rounded up.
    memory_mib
        Memory of each replica.

    Examples
    --------
    >>> [(role.name, role.replicas, role.shape.gpus) for role in gang(20)]
    [('whole', 2, 8), ('rest', 1, 4)]
    >>> [(role.name, role.replicas, role.shape.gpus) for role in gang(4)]
    [('replica', 1, 4)]
    """
    nodes, rest = divmod(gpus, per_node)
    parts = [("whole", nodes, per_node), ("rest", 1, rest)]
    if gpus <= per_node:
        parts = [("replica", 1, gpus)]
    return tuple(
        Role(
            name=name,
            shape=Shape(
                gpus=size,
                cpu_milli=-(-cpu_milli * size // gpus),
                memory_mib=memory_mib,
                node_selector=selector,
            ),
            replicas=replicas,
            min_replicas=replicas,
        )
        for name, replicas, size in parts
        if size
    )


@lru_cache(maxsize=65536)
def cpu_gang(
    cpu_milli: int, nodes: int, selector: Selector = (), memory_mib: int = 0
) -> tuple[Role, ...]:
    """Role of a job without GPUs: a replica on each of its nodes, with its part of the CPU."""
    shape = Shape(cpu_milli=-(-cpu_milli // nodes), memory_mib=memory_mib, node_selector=selector)
    return (Role(name="replica", shape=shape, replicas=nodes, min_replicas=nodes),)
