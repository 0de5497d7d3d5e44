"""Generated clusters: HGX H100 nodes half occupied at random, and more gangs than fit."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape
from topology.presets import preset

GPUS_PER_NODE = 8
NODE_CPU_MILLI = 192_000
NODE_MEMORY_MIB = 2 * 1024 * 1024
GPUS_PER_REPLICA = (1, 2, 4, 8)
MAX_REPLICAS = 16
CPU_PER_GPU = (4, 16)
MEMORY_GIB_PER_GPU = (64, 200)
PRIORITIES = (4, 2, 1)
DEMAND_RATIO = (1.2, 1.6)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a generated cluster is."""

    name: str
    nodes: int
    gangs: int


SIZES = {size.name: size for size in (Size("S", 16, 20), Size("M", 128, 100))}


def half_occupied(size: Size, seed: int) -> Problem:
    """A cluster half of whose GPUs are held, with 1.2 to 1.6 times as much demand as is free.

    Parameters
    ----------
    seed
        The same seed gives the same problem.
    """
    rng = Random(seed)
    topology = preset("hgx-h100")
    nodes = tuple(
        Node(
            name=f"h100-{i}",
            topology=topology,
            cpu_milli=NODE_CPU_MILLI,
            memory_mib=NODE_MEMORY_MIB,
        )
        for i in range(size.nodes)
    )
    running = _running(nodes, rng)
    held = sum(len(replica.gpus) for job in running for replica in job.replicas)
    jobs = _gangs(size.gangs, GPUS_PER_NODE * size.nodes - held, rng)
    return Problem(name=f"generated-{size.name}-{seed}", nodes=nodes, running=running, jobs=jobs)


def _running(nodes: tuple[Node, ...], rng: Random) -> tuple[RunningJob, ...]:
    """One running job per node; any number of GPUs is equally likely, half of all are held."""
    held = [rng.randint(0, GPUS_PER_NODE) for _ in nodes]
    target = GPUS_PER_NODE * len(nodes) // 2
    while sum(held) != target:
        place = rng.randrange(len(held))
        step = 1 if sum(held) < target else -1
        if 0 <= held[place] + step <= GPUS_PER_NODE:
            held[place] += step
    jobs = []
    for node, count in zip(nodes, held, strict=True):
        if count:
            shape = _shape(count, rng)
            replica = RunningReplica(
                node=node.name,
                gpus=tuple(sorted(rng.sample(range(GPUS_PER_NODE), count))),
                cpu_milli=shape.cpu_milli,
                memory_mib=shape.memory_mib,
            )
            priority = rng.choice(PRIORITIES)
            jobs.append(
                RunningJob(
                    name=f"running-{node.name}",
                    replicas=(replica,),
                    shapes=(shape,),
                    priority=priority,
                )
            )
    return tuple(jobs)


def _shape(gpus: int, rng: Random) -> Shape:
    return Shape(
        gpus=gpus,
        cpu_milli=1000 * gpus * rng.randint(*CPU_PER_GPU),
        memory_mib=1024 * gpus * rng.randint(*MEMORY_GIB_PER_GPU),
    )


def _gangs(count: int, free_gpus: int, rng: Random) -> tuple[Job, ...]:
    """Gangs whose GPUs add up to a demand drawn between 1.2 and 1.6 times the free GPUs."""
    demand = round(rng.uniform(*DEMAND_RATIO) * free_gpus)
    parts = [rng.expovariate(1) + 0.1 for _ in range(count)]
    budgets = [demand * part / sum(parts) for part in parts]
    gpus = [rng.choice([g for g in GPUS_PER_REPLICA if g <= max(1, b)]) for b in budgets]
    replicas = [min(MAX_REPLICAS, max(1, round(b / g))) for b, g in zip(budgets, gpus, strict=True)]
    # Rounding and clipping moved the total; walk back into the range.
    low, high = (ratio * free_gpus for ratio in DEMAND_RATIO)
    while not low <= sum(g * r for g, r in zip(gpus, replicas, strict=True)) <= high:
        place = rng.randrange(count)
        step = 1 if sum(g * r for g, r in zip(gpus, replicas, strict=True)) < low else -1
        if 1 <= replicas[place] + step <= MAX_REPLICAS:
            replicas[place] += step
    return tuple(
        Job(
            name=f"gang-{i}",
            priority=rng.choice(PRIORITIES),
            roles=(Role(name="worker", shape=_shape(g, rng), replicas=r, min_replicas=r),),
        )
        for i, (g, r) in enumerate(zip(gpus, replicas, strict=True))
    )


def explicit_nodes_yaml(count: int) -> str:
    """A spec that writes out every node, as an export of a real cluster does."""
    lines = ["cluster:", "  name: written-out", "  levels: [rack]", "  nodes:"]
    for i in range(count):
        lines += [
            f"    - name: node-{i}",
            "      preset: hgx-h100",
            "      cpu: 192",
            "      memory: 2Ti",
            f"      location: {{rack: r{i // 8}}}",
            f"      labels: {{zone: z{i % 3}, pool: h100}}",
        ]
    lines += ["jobs:", "  - {name: one, gpus: 8, cpu: 32, memory: 256Gi}"]
    return "\n".join(lines) + "\n"
