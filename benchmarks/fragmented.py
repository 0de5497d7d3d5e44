"""Random fragmented states: gangs scattered over nodes, and one that finds no room."""

from __future__ import annotations

from collections import Counter
from random import Random

from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, Preemption, Role, RunningJob, RunningReplica, Shape
from topology.presets import preset

GPUS_PER_NODE = 8
SIZES = (16, 24, 32, 48, 64)
IN_USE = (0.6, 0.9)
"""Range of the part of all GPUs that is held."""


def fragmented(seed: int) -> Problem:
    """16 to 64 nodes of eight GPUs, 60 to 90 % of them held in pieces, and a gang that is blocked.

    Running gangs are of 1, 2 or 4 GPUs in one to three replicas; half may move, a tenth may
    not be stopped, two thirds have a lower priority than the gang that waits. It asks for whole
    nodes, or for four GPUs on each of several. The same seed gives the same problem.
    """
    rng = Random(seed)
    topology = preset("hgx-h100")
    while True:  # until the gang is blocked
        nodes = tuple(Node(name=f"n{i}", topology=topology) for i in range(rng.choice(SIZES)))
        running, job = _running(nodes, rng), _blocked(len(nodes), rng)
        if _room(nodes, running, job.roles[0].shape.gpus) < job.replicas:
            return Problem(name=f"fragmented-{seed}", nodes=nodes, running=running, jobs=(job,))


def _room(nodes: tuple[Node, ...], running: tuple[RunningJob, ...], gpus: int) -> int:
    """Replicas of so many GPUs that fit now."""
    held = Counter(r.node for job in running for r in job.replicas for _ in r.gpus)
    return sum((GPUS_PER_NODE - held[node.name]) // gpus for node in nodes)


def _running(nodes: tuple[Node, ...], rng: Random) -> tuple[RunningJob, ...]:
    free = {node.name: list(range(GPUS_PER_NODE)) for node in nodes}
    left = int(GPUS_PER_NODE * len(nodes) * rng.uniform(*IN_USE))
    jobs: list[RunningJob] = []
    while left > 0:
        size = rng.choice((1, 1, 2, 2, 4))
        replicas = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            open_ = [name for name, gpus in free.items() if len(gpus) >= size]
            if open_ and size <= left:
                name = rng.choice(open_)
                gpus = tuple(sorted(rng.sample(free[name], size)))
                free[name] = [gpu for gpu in free[name] if gpu not in gpus]
                replicas.append(RunningReplica(node=name, gpus=gpus))
                left -= size
        if not replicas:
            left -= 1  # nothing of that size fits any more
            continue
        jobs.append(_gang(f"running-{len(jobs)}", size, replicas, rng))
    return tuple(jobs)


def _gang(name: str, size: int, replicas: list[RunningReplica], rng: Random) -> RunningJob:
    return RunningJob(
        name=name,
        replicas=tuple(replicas),
        shapes=(Shape(gpus=size),) * len(replicas),
        priority=rng.choice((0, 0, 10)),
        preemption=Preemption(
            allowed=rng.random() >= 0.1,
            movable=rng.random() < 0.5,
            checkpoint_age_s=rng.randrange(0, 3600),
            restart_s=60,
        ),
    )


def _blocked(nodes: int, rng: Random) -> Job:
    """The gang that waits."""
    gpus = rng.choice((8, 8, 4))
    replicas = rng.randint(1, 4) if gpus == 8 else rng.randint(nodes // 4, nodes // 2)
    role = Role(name="worker", shape=Shape(gpus=gpus), replicas=replicas, min_replicas=replicas)
    return Job(name="blocked", roles=(role,), priority=5)
