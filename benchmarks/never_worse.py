"""Small clusters of every sort: cp-sat against every greedy, and every plan checked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from statistics import mean

from benchmarks.registry import Benchmark, Row
from solver.cluster import Node
from solver.options import ModelChoice, SolveOptions
from solver.problem import Problem
from solver.workload import Job, LinkRule, Role, RunningJob, RunningReplica, Shape, TopologyRule
from topology.presets import preset

MACHINES = ("hgx-h100", "dgx-1v", "a100-pcie-pairs", "l40s")
SIZES = ("200", "2000")
LIMIT_S = 2.0


def run_never_worse(size: str | None) -> Iterator[Row]:
    """So many instances; half of them by each model."""
    from solver import greedy
    from solver.api import solve
    from solver.tiers import Ruler
    from solver.verify import verify

    count = int(size or SIZES[-1])
    worse = violations = optimal = 0
    better = more_admitted = less_stranded = 0
    admitted: list[float] = []
    stranded: list[float] = []
    began = time.monotonic()
    for seed in range(count):
        problem = anything(seed)
        ruler = Ruler(problem)
        model = (ModelChoice.DIRECT, ModelChoice.AGGREGATED)[seed % 2]
        options = SolveOptions(time_limit_s=LIMIT_S, model=model)
        result = solve(problem, options)
        optimal += result.status.value == "optimal"
        ours = ruler.key(result.plan)
        violations += len(verify(problem, result.plan))
        plans = [greedy.place(problem, name, options.seed) for name in greedy.POLICIES]
        keys = [ruler.key(plan) for plan in plans]
        violations += sum(len(verify(problem, plan)) for plan in plans)
        best = max(keys)
        name = list(greedy.POLICIES)[keys.index(best)]
        worse += best > ours
        if ours > best:
            better += 1
            theirs = solve(problem, options, name)
            gained = result.metrics.admitted_gpus - theirs.metrics.admitted_gpus
            spared = theirs.metrics.stranded_gpus - result.metrics.stranded_gpus
            admitted.append(gained)
            stranded.append(spared)
            more_admitted += gained > 0
            less_stranded += spared > 0
    instance = f"{count:,} instances"
    yield Row(instance=instance, measure="a greedy better than cp-sat", value=worse,
              unit="instances", limit=0)  # fmt: skip
    yield Row(instance=instance, measure="violations of any plan", value=violations,
              unit="violations", limit=0)  # fmt: skip
    note = f"more admitted in {more_admitted}, fewer stranded in {less_stranded}"
    yield Row(instance=instance, measure="strictly better than every greedy",
              value=100 * better / count, unit="%", note=note)  # fmt: skip
    yield Row(instance=instance, measure="admitted beyond the best greedy, where better",
              value=mean(admitted or [0.0]), unit="GPUs")  # fmt: skip
    yield Row(instance=instance, measure="stranded less than the best greedy, where better",
              value=mean(stranded or [0.0]), unit="GPUs")  # fmt: skip
    yield Row(instance=instance, measure="proved optimal", value=100 * optimal / count, unit="%",
              note="direct and aggregated model by turns")  # fmt: skip
    yield Row(instance=instance, measure="all", value=time.monotonic() - began, unit="s")


def anything(seed: int) -> Problem:
    """Three to ten nodes of several kinds in racks, running work, gangs with all sorts of rules."""
    rng = Random(seed)
    topologies = {name: preset(name) for name in MACHINES}  # nodes of a kind share theirs
    nodes = []
    for i in range(rng.randint(3, 10)):
        topology = topologies[rng.choice(MACHINES)]
        nodes.append(
            Node(
                name=f"n{i}",
                topology=topology,
                cpu_milli=topology.n_gpus * rng.choice((12_000, 24_000)),
                memory_mib=topology.n_gpus * rng.choice((64, 256)) * 1024,
                location={"rack": f"r{i // rng.choice((2, 3))}"},
            )
        )
    running = []
    for node in nodes:
        held = rng.sample(range(node.n_gpus), rng.randint(0, node.n_gpus - 1))
        if held:
            shape = _shape(len(held), rng)
            replica = RunningReplica(
                node=node.name,
                gpus=tuple(sorted(held)),
                cpu_milli=shape.cpu_milli,
                memory_mib=shape.memory_mib,
            )
            running.append(RunningJob(name=f"on-{node.name}", replicas=(replica,), shapes=(shape,)))
    models = sorted({m for node in nodes for m in node.topology.gpu_models if m})
    jobs = [_job(f"job-{i}", rng, models) for i in range(rng.randint(2, 9))]
    return Problem(name=f"anything-{seed}", levels=("rack",), nodes=tuple(nodes),
                   running=tuple(running), jobs=tuple(jobs))  # fmt: skip


def _shape(gpus: int, rng: Random) -> Shape:
    cpu, memory = rng.choice((2_000, 8_000, 16_000)), rng.choice((16, 64, 160)) * 1024
    return Shape(gpus=gpus, cpu_milli=cpu * gpus, memory_mib=memory * gpus)


def _job(name: str, rng: Random, models: list[str]) -> Job:
    roles = []
    for number in range(rng.choice((1, 1, 1, 2))):
        shape = _shape(rng.choice((1, 1, 2, 2, 3, 4, 8)), rng)
        if rng.random() < 0.2:
            shape = replace(shape, gpu_models=(rng.choice(models),))
        if shape.gpus > 1 and rng.random() < 0.25:
            shape = replace(shape, link=rng.choice((LinkRule.REQUIRED, LinkRule.PREFERRED)))
        replicas = rng.choice((1, 1, 2, 3, 4))
        least = replicas if rng.random() < 0.7 else rng.randint(1, replicas)
        roles.append(
            Role(name=f"role-{number}", shape=shape, replicas=replicas, min_replicas=least)
        )
    topology = None
    if rng.random() < 0.3:
        within = rng.choice(("rack", "node"))
        topology = TopologyRule(within=within, required=rng.random() < 0.5)
    return Job(name=name, roles=tuple(roles), priority=rng.choice((1, 2, 4)), topology=topology)


NEVER_WORSE = Benchmark(
    name="never-worse",
    text="generated small clusters of every sort: cp-sat against every greedy, plans checked",
    sizes=SIZES,
    run=run_never_worse,
)
