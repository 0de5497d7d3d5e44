"""Generated clusters: HGX H100 nodes half occupied at random, and more gangs than fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from solver.cluster import Node
from solver.problem import Problem
from solver.workload import Job, LinkRule, Role, RunningJob, RunningReplica, Shape, TopologyRule
from topology.presets import preset

GPUS_PER_NODE = 8
NODE_CPU_MILLI = 192_000
NODE_MEMORY_MIB = 2 * 1024 * 1024
GPUS_PER_REPLICA = (1, 2, 4, 8)
MAX_REPLICAS = 16
MODEST = ((4, 16), (64, 200))
BINDING = ((4, 24), (64, 320))
"""CPU and GiB of memory that a replica asks for per GPU: least and most."""

PRIORITIES = (4, 2, 1)
DEMAND_RATIO = (1.2, 1.6)


Appetite = tuple[tuple[int, int], tuple[int, int]]

MIXED = (("hgx-h100", 8), ("dgx-1v", 1), ("a100-pcie-pairs", 1))
"""Machines of mixed clusters, by weight; a rack has machines of one kind."""

NODES_PER_RACK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a generated cluster is, and what it is like.

    Parameters
    ----------
    binding
        4 to 24 CPU and 64 to 320 GiB per GPU, where nodes have 24 and 256; else 4 to 16 and 64
        to 200, so that GPUs run out first.
    racks
        Racks of 16 nodes, among them DGX-1V and PCIe-pair nodes. Half of the gangs of 8 GPUs and
        more have to stay in one rack, a quarter would rather; a tenth of all want linked
        GPUs.
    different
        Every node has lost a random part of its CPU and memory, so that no two are alike.
    """

    name: str
    nodes: int
    gangs: int
    binding: bool = False
    racks: bool = False
    different: bool = False


SIZES = {
    size.name: size
    for size in (
        Size(name="S", nodes=16, gangs=20),
        Size(name="M", nodes=128, gangs=100),
        Size(name="L", nodes=1_250, gangs=1_500, binding=True),
        Size(name="L-racks", nodes=1_250, gangs=1_500, binding=True, racks=True),
        Size(name="L-different", nodes=1_250, gangs=1_500, binding=True, different=True),
        Size(name="XL", nodes=12_500, gangs=5_000, binding=True, racks=True),
        Size(name="XXL", nodes=125_000, gangs=50_000, binding=True, racks=True),
    )
}


def half_occupied(size: Size, seed: int) -> Problem:
    """A cluster half of whose GPUs are held, with 1.2 to 1.6 times as much demand as is free.

    Nothing that runs gives way here: it is the placement that is measured.

    Parameters
    ----------
    seed
        The same seed gives the same problem.
    """
    rng = Random(seed)
    nodes = _mixed(size, rng) if size.racks else _alike(size)
    if size.different:
        nodes = tuple(
            replace(
                node,
                cpu_milli=round((node.cpu_milli or 0) * rng.uniform(0.6, 1)),
                memory_mib=round((node.memory_mib or 0) * rng.uniform(0.6, 1)),
            )
            for node in nodes
        )
    appetite = BINDING if size.binding else MODEST
    running = _running(nodes, rng, appetite)
    held = sum(len(replica.gpus) for job in running for replica in job.replicas)
    jobs = _gangs(size.gangs, sum(node.n_gpus for node in nodes) - held, rng, appetite)
    if size.racks:
        jobs = tuple(_with_rules(job, rng) for job in jobs)
    return Problem(
        name=f"generated-{size.name}-{seed}",
        levels=("rack",) if size.racks else (),
        nodes=nodes,
        running=running,
        jobs=jobs,
        preempt_for=(),
    )


def _alike(size: Size) -> tuple[Node, ...]:
    topology = preset("hgx-h100")
    return tuple(
        Node(
            name=f"h100-{i}",
            topology=topology,
            cpu_milli=NODE_CPU_MILLI,
            memory_mib=NODE_MEMORY_MIB,
        )
        for i in range(size.nodes)
    )


def _mixed(size: Size, rng: Random) -> tuple[Node, ...]:
    names = [name for name, _ in MIXED]
    weights = [weight for _, weight in MIXED]
    machines: list[str] = []
    while len(machines) < size.nodes:
        machines += rng.choices(names, weights) * NODES_PER_RACK
    nodes = []
    for i, machine in enumerate(machines[: size.nodes]):
        topology = preset(machine)
        nodes.append(
            Node(
                name=f"{machine}-{i}",
                topology=topology,
                cpu_milli=NODE_CPU_MILLI * topology.n_gpus // GPUS_PER_NODE,
                memory_mib=NODE_MEMORY_MIB * topology.n_gpus // GPUS_PER_NODE,
                location={"rack": f"r{i // NODES_PER_RACK}"},
            )
        )
    return tuple(nodes)


def _with_rules(job: Job, rng: Random) -> Job:
    role = job.roles[0]
    gpus = role.shape.gpus * role.replicas
    if role.replicas > 1 and gpus >= GPUS_PER_NODE:
        draw = rng.random()
        if draw < 0.75:
            job = replace(job, topology=TopologyRule(within="rack", required=draw < 0.5))
    if role.shape.gpus > 1 and rng.random() < 0.1:
        link = rng.choice([LinkRule.REQUIRED, LinkRule.PREFERRED])
        job = replace(job, roles=(replace(role, shape=replace(role.shape, link=link)),))
    return job


def _running(nodes: tuple[Node, ...], rng: Random, appetite: Appetite) -> tuple[RunningJob, ...]:
    """One running job per node; any number of GPUs is equally likely, half of all are held."""
    held = [rng.randint(0, node.n_gpus) for node in nodes]
    target = sum(node.n_gpus for node in nodes) // 2
    total = sum(held)
    while total != target:
        place = rng.randrange(len(held))
        step = 1 if total < target else -1
        if 0 <= held[place] + step <= nodes[place].n_gpus:
            held[place] += step
            total += step
    jobs = []
    for node, count in zip(nodes, held, strict=True):
        if count:
            shape = _shape(count, rng, appetite)
            replica = RunningReplica(
                node=node.name,
                gpus=tuple(sorted(rng.sample(range(node.n_gpus), count))),
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


def _shape(gpus: int, rng: Random, appetite: Appetite) -> Shape:
    cpu, memory_gib = appetite
    return Shape(
        gpus=gpus,
        cpu_milli=1000 * gpus * rng.randint(*cpu),
        memory_mib=1024 * gpus * rng.randint(*memory_gib),
    )


def _gangs(count: int, free_gpus: int, rng: Random, appetite: Appetite) -> tuple[Job, ...]:
    """Gangs whose GPUs add up to a demand drawn between 1.2 and 1.6 times the free GPUs."""
    demand = round(rng.uniform(*DEMAND_RATIO) * free_gpus)
    parts = [rng.expovariate(1) + 0.1 for _ in range(count)]
    budgets = [demand * part / sum(parts) for part in parts]
    gpus = [rng.choice([g for g in GPUS_PER_REPLICA if g <= max(1, b)]) for b in budgets]
    replicas = [min(MAX_REPLICAS, max(1, round(b / g))) for b, g in zip(budgets, gpus, strict=True)]
    # Rounding and clipping moved the total; walk back into the range.
    low, high = (ratio * free_gpus for ratio in DEMAND_RATIO)
    total = sum(g * r for g, r in zip(gpus, replicas, strict=True))
    while not low <= total <= high:
        place = rng.randrange(count)
        step = 1 if total < low else -1
        if 1 <= replicas[place] + step <= MAX_REPLICAS:
            replicas[place] += step
            total += step * gpus[place]
    return tuple(
        Job(
            name=f"gang-{i}",
            priority=rng.choice(PRIORITIES),
            roles=(
                Role(name="worker", shape=_shape(g, rng, appetite), replicas=r, min_replicas=r),
            ),
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
