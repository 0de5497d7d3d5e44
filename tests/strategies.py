"""Hypothesis strategies for whole problems: tiny ones that can be enumerated, and small ones.

They mix what real clusters mix: kinds of nodes and links, running work, GPUs that are out of
service, gangs, roles, elastic and independent jobs, start groups, shares, links, topology,
spread, queues. Amounts come from short lists, so that limits are met exactly often enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from solver.cluster import Node, Taint, Toleration
from solver.problem import Problem
from solver.workload import (
    Job,
    LinkRule,
    Preemption,
    Queue,
    ResourceName,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
    SpreadRule,
    TopologyRule,
)
from tests.scenario import machine

GIB = 1024
TAINT = Taint(key="dedicated", value="infra")

# What `nvidia-smi topo -m` shows on a DGX-1V: two quads and a link across for each GPU.
HYBRID_CUBE = {
    (0, 1): "NV1", (0, 2): "NV1", (0, 3): "NV2", (0, 4): "NV2",
    (1, 2): "NV2", (1, 3): "NV1", (1, 5): "NV2", (2, 3): "NV2",
    (2, 6): "NV1", (3, 7): "NV1", (4, 5): "NV1", (4, 6): "NV1",
    (4, 7): "NV2", (5, 6): "NV2", (5, 7): "NV1", (6, 7): "NV2",
}  # fmt: skip

TINY_MACHINES = (
    machine(4),
    machine(2),
    machine(3, memory_gib=40),
    machine(1),
    machine(4, "NV12"),
    machine(4, {(0, 2): "NV12", (1, 3): "NV12"}),
    machine(4, {(0, 1): "NV2", (1, 2): "NV1", (2, 3): "NV2", (0, 3): "NV1"}),
    machine(3, {(0, 1): "NV4", (0, 2): "PIX", (1, 2): "NODE"}),
    machine(["A100", "V100", "A100"]),
    machine(2, memory_gib=None),
    machine(0),
)
"""At most four GPUs: no links, one switch, bridged pairs, a ring, mixed links and models."""

SMALL_MACHINES = (
    *TINY_MACHINES,
    machine(8, "NV18"),
    machine(8, HYBRID_CUBE, memory_gib=16),
    machine(["A100"] * 2 + ["V100"] * 2, {(0, 1): "NV4"}),
)

TINY = {"nodes": 3, "jobs": 3, "replicas": 5, "machines": TINY_MACHINES}
SMALL = {"nodes": 5, "jobs": 5, "replicas": 14, "machines": SMALL_MACHINES}


def rarely(draw: Any, one_in: int = 6) -> bool:
    """True in about one of so many draws; shrinks to False."""
    return bool(draw(st.integers(0, one_in - 1)) == one_in - 1)


@st.composite
def shapes(draw: Any) -> Shape:
    """A replica's request."""
    kind = draw(st.sampled_from(["gpus", "gpus", "gpus", "share", "share by memory", "cpu"]))
    facts: dict[str, Any] = {
        "cpu_milli": draw(st.sampled_from([0, 0, 0, 1000, 1500, 3000])),
        "memory_mib": draw(st.sampled_from([0, 0, 0, 4 * GIB, 10 * GIB])),
    }
    if kind == "gpus":
        facts["gpus"] = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4]))
        if facts["gpus"] > 1:
            facts["link"] = draw(st.sampled_from([LinkRule.NONE, *LinkRule]))
    elif kind == "share":
        facts["share_milli"] = draw(st.sampled_from([100, 400, 500, 900]))
    elif kind == "share by memory":
        facts["share_memory_mib"] = draw(st.sampled_from([10 * GIB, 30 * GIB, 60 * GIB]))
    else:
        facts["cpu_milli"] = draw(st.sampled_from([1000, 1500, 3000]))
    if kind != "cpu" and rarely(draw, 8):
        facts["gpu_models"] = draw(st.sampled_from([("A100",), ("V100",), ("A100", "H100")]))
    if rarely(draw, 8):
        facts["node_selector"] = (("zone", "a"),)
    if rarely(draw, 4):
        facts["tolerations"] = (Toleration(key="dedicated", operator="Exists"),)
    return Shape(**facts)


@st.composite
def nodes(draw: Any, name: str, machines: tuple[Any, ...]) -> Node:
    """One host."""
    topology = draw(st.sampled_from(machines))
    gpus = range(topology.n_gpus)
    place = {"rack": draw(st.sampled_from(["r1", "r2"]))} if not rarely(draw, 4) else {}
    if rarely(draw, 3):
        place["domain"] = draw(st.sampled_from(["d1", "d2"]))
    return Node(
        name=name,
        topology=topology,
        cpu_milli=draw(st.sampled_from([None, None, 3000, 4000, 8000])),
        memory_mib=draw(st.sampled_from([None, None, 8 * GIB, 20 * GIB])),
        location=place,
        labels={"zone": draw(st.sampled_from("ab"))},
        taints=(TAINT,) if rarely(draw, 8) else (),
        ready=not rarely(draw, 20),
        cordoned=rarely(draw, 20),
        unhealthy_gpus=frozenset(g for g in gpus if rarely(draw, 20)),
        mig_gpus=frozenset(g for g in gpus if rarely(draw, 30)),
    )


@st.composite
def running_on(draw: Any, name: str, node: Node, queues: tuple[str, ...]) -> RunningJob:
    """Replicas that hold whole GPUs, a share, or only CPU of a node; some are elastic.

    It may hold more CPU than the node gives, and a GPU that has become unhealthy.
    """
    share = rarely(draw, 4) and node.n_gpus > 0
    most = 1 if share else min(node.n_gpus, 3)
    gpus = draw(
        st.lists(
            st.integers(0, max(0, node.n_gpus - 1)), min_size=int(share), max_size=most, unique=True
        )
    )
    held = RunningReplica(
        node=node.name,
        gpus=tuple(sorted(gpus)),
        share_milli=draw(st.sampled_from([300, 500])) if share else 1000,
        cpu_milli=draw(st.sampled_from([0, 1000, 3000])),
        memory_mib=draw(st.sampled_from([0, 4 * GIB])),
    )
    replicas: tuple[RunningReplica, ...] = (held,)
    floor = None
    if not share and len(gpus) > 1 and rarely(draw, 2):  # a replica for each GPU
        replicas = tuple(replace(held, gpus=(gpu,)) for gpu in held.gpus)
        floor = draw(st.sampled_from([None, *range(len(replicas) + 1)]))
    asked = Shape(
        gpus=0 if share else len(replicas[0].gpus),
        share_milli=held.share_milli if share else 0,
        cpu_milli=held.cpu_milli,
        memory_mib=held.memory_mib,
    )
    return RunningJob(
        name=name,
        replicas=replicas,
        shapes=(asked,) * len(replicas),
        min_replicas=floor,
        queue=draw(st.sampled_from(queues)),
        priority=draw(st.sampled_from([0, 0, 10])),
        preemption=Preemption(
            allowed=not rarely(draw, 8),
            movable=rarely(draw, 3),
            checkpoint_age_s=draw(st.sampled_from([0, 0, 30, 1000])),
            cost_gpu_s=draw(st.sampled_from([None, None, None, 0, 7])),
        ),
    )


@st.composite
def queue_trees(draw: Any) -> tuple[Queue, ...]:
    """One to three queues, flat or with a parent, with quota, limit, weight, priority."""
    names = draw(st.permutations(["red", "green", "blue"]))[: draw(st.integers(1, 3))]
    found = []
    for place, name in enumerate(names):
        parent = names[0] if place and rarely(draw, 4) else None
        quota = draw(st.sampled_from([0, 0, 1000, 2000]))
        limit: dict[ResourceName, int] = {}
        if amount := draw(st.sampled_from([None, None, 1000, 2500, 4000])):
            limit["gpu_milli"] = amount
        if rarely(draw, 8):
            limit["cpu_milli"] = 4000
        found.append(
            Queue(
                name=name,
                parent=parent,
                priority=draw(st.sampled_from([0, 0, 1])),
                weight=draw(st.sampled_from([1, 1, 2, 0])),
                quota={"gpu_milli": quota} if quota else {},
                limit=limit,
            )
        )
    return tuple(found)


@st.composite
def jobs(draw: Any, name: str, queues: tuple[str, ...], most: int) -> Job:
    """A pending job of at most `most` replicas."""
    gang = draw(st.sampled_from([True, True, False]))
    roles = []
    left = draw(st.integers(1, most))
    for role_name in ("worker", "leader"):
        count = left if role_name == "leader" else draw(st.integers(1, left))
        if count:
            floor = draw(st.integers(0, count)) if gang and rarely(draw, 3) else count
            shape = draw(shapes())
            roles.append(Role(name=role_name, shape=shape, replicas=count, min_replicas=floor))
        left -= count
    if sum(role.min_replicas for role in roles) == 0:
        roles[0] = Role(name="worker", shape=roles[0].shape, replicas=roles[0].replicas)
    within = draw(st.sampled_from([None, None, None, None, "rack", "node", "domain", "island"]))
    over = draw(st.sampled_from([None, None, None, None, None, None, "rack", "node"]))
    return Job(
        name=name,
        roles=tuple(roles),
        queue=draw(st.sampled_from(queues)),
        priority=draw(st.sampled_from([0, 0, 0, 5, 10])),
        gang=gang,
        topology=TopologyRule(within=within, required=not rarely(draw, 3)) if within else None,
        spread=SpreadRule(over=over, max_per=draw(st.integers(1, 2))) if over else None,
        start_group="together" if gang and rarely(draw, 4) else None,
    )


@st.composite
def problems(draw: Any, size: dict[str, Any]) -> Problem:
    """A whole problem no larger than `size` says (`TINY` or `SMALL`)."""
    node_names = draw(st.permutations(["n1", "n2", "n3", "n4", "n5"]))
    least = draw(st.sampled_from([min(2, size["nodes"]), 1, size["nodes"]]))
    machines = tuple(
        draw(nodes(name, size["machines"]))
        for name in node_names[: draw(st.integers(least, size["nodes"]))]
    )
    tree = draw(queue_trees())
    queues = tuple(queue.name for queue in tree)
    running = tuple(
        draw(running_on(f"run-{place}", node, queues))
        for place, node in enumerate(machines)
        if rarely(draw, 2)
    )
    pending: list[Job] = []
    names = draw(st.permutations(["ant", "bee", "cat", "dog", "emu"]))
    left = size["replicas"]
    waiting = draw(st.integers(1, size["jobs"]))
    for place, name in enumerate(names[:waiting]):
        most = left - (waiting - place - 1)  # at least one is kept for each that follows
        pending.append(draw(jobs(name, queues, min(most, 4))))
        left -= pending[-1].replicas
    return Problem(
        name="drawn",
        levels=("rack",),
        nodes=machines,
        queues=tree,
        running=running,
        jobs=tuple(pending),
    )


def tiny_problems() -> st.SearchStrategy[Problem]:
    """At most 3 nodes of 4 GPUs, 3 jobs, 5 replicas in all: every plan can be looked at."""
    return problems(TINY)


def small_problems() -> st.SearchStrategy[Problem]:
    """At most 5 nodes of 8 GPUs, 5 jobs, 14 replicas in all."""
    return problems(SMALL)


def crowded_problems() -> st.SearchStrategy[Problem]:
    """Tiny ones in which what waits is more urgent than what runs, or may take its share."""
    return st.builds(_crowd, tiny_problems(), st.sampled_from([10, 10, 0]), st.booleans())


def _crowd(problem: Problem, priority: int, fair: bool) -> Problem:
    reasons = ("fair_share", "guarantee") if fair else problem.preempt_for
    return replace(
        problem,
        running=tuple(replace(job, priority=0) for job in problem.running),
        jobs=tuple(replace(job, priority=priority) for job in problem.jobs),
        preempt_for=reasons,
    )
