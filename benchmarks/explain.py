"""Explanations: how long one takes, and whether every fix that is offered starts the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from benchmarks.instances import NODE_CPU_MILLI, NODE_MEMORY_MIB
from benchmarks.registry import Benchmark, Row
from solver.cluster import Node, Taint
from solver.explain.explanation import Explanation
from solver.explain.fixes.change import Change
from solver.explain.question import Case, case_of
from solver.options import SolveOptions
from solver.problem import Problem, RoleKey
from solver.reasons import rank
from solver.solution import Plan
from solver.workload import (
    Job,
    LinkRule,
    Preemption,
    Queue,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
    TopologyRule,
)
from topology.graph import NodeTopology
from topology.links import Link
from topology.presets import preset

LIMITS_S = {128: 1.0, 1_250: 5.0}
"""Longest explanation by nodes."""

CASES = 500
SEEDS = 3
OPTIONS = SolveOptions(time_limit_s=30.0, workers=1)


def run_explain(size: str | None) -> Iterator[Row]:
    """Times by nodes, then generated cases."""
    import ortools.sat.python.cp_model  # noqa: F401 - loaded once, before the clock starts

    from solver.api import solve
    from solver.explain.answer import explain

    for nodes, limit_s in LIMITS_S.items():
        if size not in (None, str(nodes)):
            continue
        took_s, whole_s, kinds = [], [], set()
        for seed in range(SEEDS):
            problem = full_cluster(nodes, seed)
            began = time.monotonic()
            plan = solve(problem, OPTIONS).plan
            solved = time.monotonic()
            told = explain(problem, plan, "big", OPTIONS)
            took_s.append(time.monotonic() - solved)
            whole_s.append(time.monotonic() - began)
            kinds |= {fix.kind for fix in told.fixes}
        yield Row(
            instance=f"{nodes:,} nodes",
            measure=f"explain one gang, worst of {SEEDS}",
            value=max(took_s),
            unit="s",
            limit=limit_s,
            note=f"the explain part; with the solve before it {max(whole_s):.2f} s; "
            f"fixes: {', '.join(sorted(kinds))}",
        )
    if size in (None, "cases"):
        yield from _cases()


def _cases() -> Iterator[Row]:
    explained = offered = seed = 0
    failed: list[str] = []
    missed: list[str] = []
    while explained < CASES:
        problem = fragmented(seed)
        seed += 1
        for _, told, faults, found in judged(problem):
            explained += 1
            offered += len(told.fixes)
            failed += faults
            missed += found[:1]  # a case counts once
    yield Row(
        instance=f"{explained} cases",
        measure="fixes that do not start the job",
        value=len(failed),
        unit="fixes",
        limit=0,
        note="; ".join([f"of {offered} offered", *failed]),
    )
    yield Row(
        instance=f"{explained} cases",
        measure="cheaper single changes not offered",
        value=len(missed),
        unit="cases",
        limit=0,
        note="; ".join(missed),
    )


# Judging


def judged(problem: Problem) -> Iterator[tuple[str, Explanation, list[str], list[str]]]:
    """Each waiting job with its explanation, fixes that fail, and cheaper ones that are missing."""
    from solver.api import solve
    from solver.explain.answer import explain
    from solver.explain.fixes.table import PROPOSE

    plan = solve(problem, OPTIONS).plan
    for job in problem.jobs:
        if job.name in plan.by_job:
            continue
        told = explain(problem, plan, job.name, OPTIONS)
        if told.verdict == "starts-now":
            continue
        case = case_of(problem, plan, job.name, OPTIONS.time_limit_s)
        faults = []
        for fix in told.fixes:
            same = [c for c in PROPOSE[fix.kind](case) if c.text == fix.text]
            if not same or not starts(case, same[0].apply(problem), same[0].touches):
                faults.append(f"{problem.name} {job.name}: {fix.kind}: {fix.text}")
        cheapest = min((fix.cost_gpu_s for fix in told.fixes), default=None)
        missing = [
            f"{problem.name} {job.name}: {change.text}"
            for change in single_changes(problem, job)
            if (cheapest is None or change.cost_gpu_s < cheapest)
            and starts(case, change.apply(problem), change.touches)
        ]
        yield job.name, told, faults, missing


def starts(case: Case, changed: Problem, touched: frozenset[str]) -> bool:
    """Whether a plain solve starts the job, and nobody with an earlier turn loses anything."""
    from solver.api import solve

    plan = solve(changed, OPTIONS).plan
    job = changed.job_by_name[case.job.name]
    if not all(
        plan.started.get(RoleKey(job.name, role.name), 0) >= role.min_replicas for role in job.roles
    ):
        return False
    turn = rank(case.problem, case.job)
    early = [j for j in case.problem.jobs if rank(case.problem, j) < turn]
    lost = any(_fewer(plan, case.plan, other.name) for other in early)
    displaced = {
        name
        for name, numbers in plan.displaced.items()
        if numbers - case.plan.displaced.get(name, frozenset())
    }
    return not lost and displaced <= touched


def _fewer(plan: Plan, before: Plan, name: str) -> bool:
    return len(plan.by_job.get(name, ())) < len(before.by_job.get(name, ()))


def single_changes(problem: Problem, job: Job) -> Iterator[Change]:
    """Every way to change one thing, written down without asking any model."""

    def change(text: str, apply: Callable[[Problem], Problem], cost: int = 0) -> Change:
        return Change(kind="one", text=text, apply=apply, cost_gpu_s=cost)

    (role,) = job.roles

    def with_job(new: Job) -> Callable[[Problem], Problem]:
        return lambda p: replace(p, jobs=tuple(new if j.name == job.name else j for j in p.jobs))

    def with_shape(shape: Shape) -> Callable[[Problem], Problem]:
        return with_job(replace(job, roles=(replace(role, shape=shape),)))

    for node in problem.nodes:
        if node.cordoned:
            opened = tuple(replace(n, cordoned=n.cordoned and n is not node) for n in problem.nodes)
            yield change(f"uncordon {node.name}", lambda p, o=opened: replace(p, nodes=o))  # type: ignore[misc]
    if role.shape.node_selector:
        yield change("any label", with_shape(replace(role.shape, node_selector=())))
    if role.shape.link is LinkRule.REQUIRED:
        yield change("any link", with_shape(replace(role.shape, link=LinkRule.PREFERRED)))
    if job.topology is not None:
        yield change("anywhere", with_job(replace(job, topology=None)))
    models = {m for n in problem.nodes for m in n.topology.gpu_models if m is not None}
    for model in sorted(models - set(role.shape.gpu_models)) if role.shape.gpu_models else ():
        more = tuple(sorted({*role.shape.gpu_models, model}))
        yield change(f"also {model}", with_shape(replace(role.shape, gpu_models=more)))
    for gpus in range(1, role.shape.gpus):
        less = (role.shape.gpus - gpus) * role.min_replicas * 3600
        yield change(f"{gpus} GPUs", with_shape(replace(role.shape, gpus=gpus)), less)
    for floor in range(1, role.min_replicas):
        less = (role.min_replicas - floor) * role.shape.gpus * 3600
        new = replace(job, roles=(replace(role, min_replicas=floor),))
        yield change(f"min {floor}", with_job(new), less)
    for running in problem.running:
        if running.ends_in_s is not None:
            left = [j for j in problem.running if (j.ends_in_s or 1 << 30) > running.ends_in_s]
            yield change(f"after {running.name}", lambda p, r=tuple(left): replace(p, running=r))  # type: ignore[misc]


# Instances


def fragmented(seed: int) -> Problem:
    """A few nodes in two racks with work scattered over them, and up to three jobs that wait."""
    rng = Random(seed)
    kinds = [_machine("A100", linked=False), _machine("A100", linked=True), _machine("V100")]
    nodes = tuple(
        Node(
            name=f"n{i}",
            topology=rng.choice(kinds),
            cpu_milli=rng.choice((None, 32_000)),
            location={"rack": rng.choice(("r0", "r1"))},
            labels={"zone": rng.choice("ab")},
            taints=(Taint(key="team", value="x"),) if rng.random() < 0.15 else (),
            cordoned=rng.random() < 0.15,
        )
        for i in range(rng.randint(2, 5))
    )
    running: list[RunningJob] = []
    for node in nodes:
        free = list(range(node.n_gpus))
        while free and rng.random() < 0.7:
            count = min(len(free), rng.choice((1, 2)))
            held = tuple(free.pop(rng.randrange(len(free))) for _ in range(count))
            shape = Shape(gpus=len(held), cpu_milli=2_000)
            replica = RunningReplica(node=node.name, gpus=tuple(sorted(held)), cpu_milli=2_000)
            running.append(
                RunningJob(
                    name=f"run-{len(running)}",
                    queue="b",
                    priority=rng.choice((0, 1)),
                    replicas=(replica,),
                    shapes=(shape,),
                    ends_in_s=rng.choice((None, 600, 1200)),
                    preemption=Preemption(movable=rng.random() < 0.4),
                )
            )
    jobs = tuple(_job(rng, i) for i in range(rng.randint(1, 3)))
    limit = {"gpu_milli": 1000 * rng.randint(2, 6)} if rng.random() < 0.2 else {}
    return Problem(
        name=f"seed-{seed}",
        levels=("rack",),
        nodes=nodes,
        queues=(Queue(name="a", limit=limit), Queue(name="b")),  # type: ignore[arg-type]
        running=tuple(running),
        jobs=jobs,
        preempt_for=rng.choice(((), ("priority", "guarantee"))),
    )


def _machine(model: str, *, linked: bool = False) -> NodeTopology:
    pairs = {(0, 1): Link.parse("NV12"), (2, 3): Link.parse("NV12")} if linked else {}
    return NodeTopology(f"{model} x 4", [model] * 4, [None] * 4, pairs)


def _job(rng: Random, number: int) -> Job:
    gpus = rng.choice((1, 2, 3, 4))
    shape = Shape(
        gpus=gpus,
        cpu_milli=rng.choice((1_000, 8_000)),
        gpu_models=("A100",) if rng.random() < 0.3 else (),
        node_selector=(("zone", "a"),) if rng.random() < 0.2 else (),
        link=LinkRule.REQUIRED if gpus == 2 and rng.random() < 0.4 else LinkRule.NONE,
    )
    replicas = rng.choice((1, 2, 3))
    rack = TopologyRule(within="rack") if replicas > 1 and rng.random() < 0.3 else None
    role = Role(name="replica", shape=shape, replicas=replicas, min_replicas=replicas)
    return Job(
        name=f"job-{number}", queue="a", priority=rng.choice((0, 1)), roles=(role,), topology=rack
    )


def full_cluster(nodes: int, seed: int) -> Problem:
    """HGX H100 nodes in racks of 16, all but full with gangs, and one gang that waits."""
    rng = Random(seed)
    machine = preset("hgx-h100")
    machines = tuple(
        Node(
            name=f"n{i}",
            topology=machine,
            cpu_milli=NODE_CPU_MILLI,
            memory_mib=NODE_MEMORY_MIB,
            location={"rack": f"r{i // 16}"},
            cordoned=i == nodes - 1,
        )
        for i in range(nodes)
    )
    slots = [(node.name, start) for node in machines for start in (0, 4)]
    rng.shuffle(slots)
    gangs = nodes * 150 // 128
    replicas: list[list[RunningReplica]] = [[] for _ in range(gangs)]
    for number, (name, start) in enumerate(slots):
        held = tuple(range(start, start + rng.choice((3, 4, 4))))
        replicas[number % gangs].append(
            RunningReplica(node=name, gpus=held, cpu_milli=40_000, memory_mib=262_144)
        )
    running = tuple(
        RunningJob(
            name=f"gang-{number}",
            priority=rng.choice((0, 0, 1)),
            replicas=tuple(members),
            shapes=tuple(
                Shape(gpus=len(m.gpus), cpu_milli=40_000, memory_mib=262_144) for m in members
            ),
            ends_in_s=rng.choice((None, 600 * rng.randint(1, 20))),
            preemption=Preemption(
                movable=rng.random() < 0.2, checkpoint_age_s=rng.randint(0, 3600)
            ),
        )
        for number, members in enumerate(replicas)
    )
    shape = Shape(gpus=8, cpu_milli=96_000, memory_mib=1 << 20)
    role = Role(name="replica", shape=shape, replicas=4, min_replicas=4)
    big = Job(name="big", roles=(role,), topology=TopologyRule(within="rack"))
    return Problem(
        name=f"full-{nodes}", levels=("rack",), nodes=machines, running=running, jobs=(big,)
    )


EXPLAIN = Benchmark(
    name="explain",
    text="why a job waits: time of one explanation; every fix tried out on generated cases",
    sizes=(*(str(nodes) for nodes in LIMITS_S), "cases"),
    run=run_explain,
)
