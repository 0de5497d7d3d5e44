"""How long a few new pods wait for their places on clusters of growing size and load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

from benchmarks.instances import NODE_CPU_MILLI, NODE_MEMORY_MIB
from benchmarks.registry import Benchmark, Row
from solver.cluster import Node
from solver.options import SolveOptions
from solver.problem import Problem
from solver.workload import Job, Role, RunningJob, RunningReplica, Shape
from topology.presets import preset

LIMITS_S = {100: 0.1, 1_000: 0.3, 10_000: 1.0, 30_000: 3.0}
"""p99 by nodes."""

PODS = (10, 50)
LOADS = (0.0, 0.5, 0.8)
REPEATS = 5


def run_latency(size: str | None) -> Iterator[Row]:
    """The grid, or its rows for so many nodes."""
    import ortools.sat.python.cp_model  # noqa: F401 - loaded once, before the clock starts

    from solver.api import solve

    for nodes, limit_s in LIMITS_S.items():
        if size not in (None, str(nodes)):
            continue
        for load in LOADS:
            for pods in PODS:
                took_s, whole_s, started = [], [], []
                for seed in range(REPEATS):
                    problem = loaded(nodes, load, pods, seed)
                    began = time.monotonic()
                    result = solve(problem, SolveOptions(time_limit_s=limit_s * 0.6))
                    whole_s.append(time.monotonic() - began)
                    took_s.append(result.timing.build_s + result.timing.solve_s)
                    started.append(result.metrics.admitted_jobs)
                yield Row(
                    instance=f"{nodes:,} nodes, {load:.0%} load",
                    measure=f"{pods} new pods, worst of {REPEATS}",
                    value=max(took_s),
                    unit="s",
                    limit=limit_s,
                    note=f"with check, metrics and reasons {max(whole_s):.2f} s; "
                    f"{min(started)} of {pods} start, {result.model} model",
                )


def loaded(nodes: int, load: float, pods: int, seed: int) -> Problem:
    """HGX H100 nodes with so much of their GPUs held, and pods of one replica each."""
    rng = Random(seed)
    topology = preset("hgx-h100")
    machines = tuple(
        Node(name=f"n{i}", topology=topology, cpu_milli=NODE_CPU_MILLI, memory_mib=NODE_MEMORY_MIB)
        for i in range(nodes)
    )
    running = []
    for node in machines:
        held = sum(rng.random() < load for _ in range(node.n_gpus))
        if held:
            shape = Shape(gpus=held, cpu_milli=8_000 * held, memory_mib=65_536 * held)
            replica = RunningReplica(
                node=node.name,
                gpus=tuple(range(held)),
                cpu_milli=shape.cpu_milli,
                memory_mib=shape.memory_mib,
            )
            running.append(RunningJob(name=f"on-{node.name}", replicas=(replica,), shapes=(shape,)))
    jobs = []
    for i in range(pods):
        gpus = rng.choice((1, 2, 4, 8))
        shape = Shape(gpus=gpus, cpu_milli=8_000 * gpus, memory_mib=65_536 * gpus)
        role = Role(name="pod", shape=shape, replicas=1, min_replicas=1)
        jobs.append(Job(name=f"pod-{i}", roles=(role,)))
    return Problem(
        name=f"latency-{nodes}", nodes=machines, running=tuple(running), jobs=tuple(jobs)
    )


LATENCY = Benchmark(
    name="latency",
    text="a few new pods on 100 to 30,000 nodes, empty to 80 % full: the solve alone",
    sizes=tuple(str(nodes) for nodes in LIMITS_S),
    run=run_latency,
)
