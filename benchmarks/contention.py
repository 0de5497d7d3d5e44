"""Generated clusters that are full: gangs run, and more urgent and better entitled ones wait."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from benchmarks.instances import GPUS_PER_NODE, NODE_CPU_MILLI, NODE_MEMORY_MIB
from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, Preemption, Queue, Role, RunningJob, RunningReplica, Shape
from topology.presets import preset

QUEUES = ("research", "product", "batch", "guest")
QUOTA_RATIO = (0.35, 0.3, 0.15, 0.0)
"""What each queue is guaranteed of the GPUs; the rest is anybody's."""

RUNS_IN = (0.2, 0.2, 0.35, 0.25)
"""Where running work belongs to: the first two use less than they are guaranteed."""

PRIORITIES = (0, 0, 0, 5, 10)


def contended(nodes: int, running: int, pending: int, seed: int) -> Problem:
    """A full cluster: `running` gangs hold nearly all GPUs, and `pending` gangs wait.

    Gangs are of 1, 2, 4 or 8 GPUs in up to eight replicas; a third is elastic, a fifth may move, a
    tenth may not be stopped; checkpoints are up to two hours old. The same seed gives the
    same problem.
    """
    rng = Random(seed)
    topology = preset("hgx-h100")
    machines = tuple(
        Node(
            name=f"h100-{i}",
            topology=topology,
            cpu_milli=NODE_CPU_MILLI,
            memory_mib=NODE_MEMORY_MIB,
        )
        for i in range(nodes)
    )
    gpus = nodes * GPUS_PER_NODE
    quota = [int(gpus * ratio) * 1000 for ratio in QUOTA_RATIO]
    return Problem(
        name=f"contended-{nodes}-{seed}",
        nodes=machines,
        queues=tuple(
            Queue(name=name, quota={"gpu_milli": amount} if amount else {})
            for name, amount in zip(QUEUES, quota, strict=True)
        ),
        running=_running(machines, running, rng),
        jobs=tuple(_pending(i, rng) for i in range(pending)),
    )


def _running(machines: tuple[Node, ...], count: int, rng: Random) -> tuple[RunningJob, ...]:
    """Gangs in random places, as large as it takes to fill the cluster."""
    free = {node.name: list(range(node.n_gpus)) for node in machines}
    average = GPUS_PER_NODE * len(machines) / count
    jobs = []
    for i in range(count):
        size = rng.choice([g for g in (1, 2, 4, 8) if g <= 2 * average] or [1])
        wanted = max(1, round(average / size * rng.uniform(0.6, 1.6)))
        places = _places(free, size, wanted, rng)
        if not places:
            size, places = 1, _places(free, 1, wanted, rng)
        if places:
            jobs.append(_job(i, size, places, rng))
    return tuple(jobs)


def _places(
    free: dict[str, list[int]], size: int, wanted: int, rng: Random
) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []
    for name in rng.sample(sorted(free), len(free)):
        while len(found) < wanted and len(free[name]) >= size:
            gpus = tuple(sorted(rng.sample(free[name], size)))
            free[name] = [gpu for gpu in free[name] if gpu not in gpus]
            found.append((name, gpus))
        if len(found) == wanted:
            break
    return found


def _job(
    number: int, size: int, places: list[tuple[str, tuple[int, ...]]], rng: Random
) -> RunningJob:
    shape = Shape(gpus=size, cpu_milli=12_000 * size, memory_mib=100 * 1024 * size)
    elastic = len(places) > 1 and rng.random() < 1 / 3
    return RunningJob(
        name=f"running-{number}",
        replicas=tuple(
            RunningReplica(
                node=node, gpus=gpus, cpu_milli=shape.cpu_milli, memory_mib=shape.memory_mib
            )
            for node, gpus in places
        ),
        shapes=(shape,) * len(places),
        queue=rng.choices(QUEUES, RUNS_IN)[0],
        priority=rng.choice(PRIORITIES),
        min_replicas=rng.randint(1, len(places)) if elastic else None,
        preemption=Preemption(
            allowed=rng.random() > 0.1,
            movable=rng.random() < 0.2,
            checkpoint_age_s=rng.randint(0, 7200),
            restart_s=rng.choice([60, 120, 300]),
        ),
    )


def _pending(number: int, rng: Random) -> Job:
    size = rng.choice((1, 2, 4, 8, 8))
    replicas = rng.randint(1, 4)
    shape = Shape(gpus=size, cpu_milli=12_000 * size, memory_mib=100 * 1024 * size)
    role = Role(name="worker", shape=shape, replicas=replicas, min_replicas=replicas)
    job = Job(
        name=f"pending-{number}",
        roles=(role,),
        queue=rng.choices(QUEUES, (0.4, 0.3, 0.2, 0.1))[0],
        priority=rng.choice((0, 5, 10, 20)),
    )
    if replicas > 1 and rng.random() < 0.25:
        job = replace(job, roles=(replace(role, min_replicas=1),))
    return job
