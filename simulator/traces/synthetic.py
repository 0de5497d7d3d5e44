"""Jobs drawn at random: a trace of any size, the same for the same text.

Arrivals are a Poisson process, run times are log-normal: many short jobs, and few long ones that
hold most of the GPU time, as in the published traces. How often jobs come follows from the load
that is asked for: near 1, queues form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from math import log
from random import Random

from simulator.scenario import DAY_MS, MS, Arrival, Scenario
from simulator.traces.machines import nodes_of
from simulator.traces.submission import GPUS_PER_NODE, gang
from simulator.traces.table import TraceError, near_and_known
from solver.cluster import GPU_MILLI
from solver.workload import Job, Queue, Role, Shape

GIB_MIB = 1024
NODE_CORES = 128
NODE_MEMORY_MIB = 1024 * GIB_MIB

SIZES: Mapping[int, int] = {1: 50, 2: 14, 4: 14, 8: 12, 16: 6, 32: 3, 64: 1}
"""GPUs of a gang, with weights. More than a node has are replicas of 8."""

SHARES_MILLI = (100, 250, 500, 750)
"""Thousandths of one GPU that a share asks for."""

CORES_PER_GPU = (4, 8, 12, 16, 24)
"""A node has 16 for each of its GPUs: jobs that take 24 strand some."""

MEMORY_GIB_PER_GPU = (16, 32, 64, 128)

MAX_DURATION_MS = 365 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a synthetic trace is made of: its keys, with their defaults.

    Parameters
    ----------
    jobs
        How many.
    nodes
        Nodes of 8 GPUs, 128 cores and 1 TiB.
    seed
        Another one gives another trace of the same kind.
    load
        GPU time that the jobs of a span ask for, over the GPU time of that span.
    queues
        Tenants ``q0``, ``q1``, …; ``q1`` submits half as much as ``q0``, ``q2`` a third.
    shares
        Part of the jobs that ask for a share of a GPU, from 0 to 1.
    median_s
        Half of the jobs run longer than this.
    sigma
        Spread of run times: the standard deviation of their logarithm.
    """

    jobs: int = 1000
    nodes: int = 16
    seed: int = 1
    load: float = 0.8
    queues: int = 4
    shares: float = 0.1
    median_s: float = 1800
    sigma: float = 1.5


LIMITS: Mapping[str, tuple[float, float]] = {
    "jobs": (1, 10_000_000),
    "nodes": (1, 1_000_000),
    "seed": (0, 2**53),
    "load": (0.001, 100),
    "queues": (1, 1000),
    "shares": (0, 1),
    "median_s": (1, 10_000_000),
    "sigma": (0, 4),
}
"""Least and largest value of each key."""


def recipe_of(text: str) -> Recipe:
    """What a text such as ``jobs=10000,load=0.95`` asks for.

    Raises
    ------
    TraceError
        A key that there is not, or a value that its key does not have.

    Examples
    --------
    >>> recipe_of("nodes=2, load=1.5")  # doctest: +ELLIPSIS
    Recipe(jobs=1000, nodes=2, seed=1, load=1.5, ...)
    """
    types: dict[str, Callable[[str], float]] = {
        each.name: int if each.type == "int" else float for each in fields(Recipe)
    }
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise TraceError("synthetic", f'"{part}" is not KEY=VALUE', "Write jobs=1000,load=0.8")
        if key not in types:
            hint = near_and_known(key, types, "keys")
            raise TraceError("synthetic", f'there is no key "{key}"', hint)
        if key in given:
            raise TraceError("synthetic", f'the key "{key}" is there twice', "Keep one of them")
        given[key] = _value(key, types[key], value)
    return Recipe(**given)  # type: ignore[arg-type]  # _value gives the type of each field


def names_seed(text: str) -> bool:
    """Whether a recipe has a seed of its own, which no other one overrides."""
    return any(part.partition("=")[0].strip() == "seed" for part in text.split(","))


def _value(key: str, read: Callable[[str], float], text: str) -> float:
    least, most = LIMITS[key]
    try:
        number = read(text)
    except ValueError:
        number = -1  # less than any key allows
    if not least <= number <= most or not text.isascii() or "_" in text:
        kind = "a whole number" if read is int else "a number"
        rule = f'{key} is {kind} from {least} to {most}, not "{text}"'
        raise TraceError("synthetic", rule, f"The default is {getattr(Recipe(), key)}")
    return number


def synthetic(text: str, seed: int | None = None) -> Scenario:
    """Draw a trace for a text such as ``jobs=10000,nodes=1250,load=0.95``; see `Recipe`.

    `seed` is that of a text that does not name one.

    The rate of arrivals is ``load * GPUs / mean GPU-seconds``, the mean being that of the very
    jobs drawn, so that a few long ones do not change the load.

    Raises
    ------
    TraceError
        The text has a key that there is not, or a value that its key does not have.
    """
    recipe = recipe_of(text)
    fixed = seed is None or names_seed(text)
    if seed is not None and not fixed:
        recipe = replace(recipe, seed=seed)
    random = Random(recipe.seed)
    demand = tuple(accumulate(1 / (index + 1) for index in range(recipe.queues)))
    drawn = [_drawn(recipe, random, demand, f"job-{index}") for index in range(recipe.jobs)]
    mean_gpu_ms = sum(_gpu_milli(job) * ms for job, ms in drawn) / GPU_MILLI / len(drawn)
    rate_per_ms = recipe.load * recipe.nodes * GPUS_PER_NODE / mean_gpu_ms
    moments = accumulate(random.expovariate(rate_per_ms) for _ in drawn)
    return Scenario(
        name="synthetic",
        nodes=nodes_of(
            "node",
            recipe.nodes * GPUS_PER_NODE,
            cpu_milli=NODE_CORES * 1000,
            memory_mib=NODE_MEMORY_MIB,
        ),
        arrivals=tuple(
            Arrival(job=job, arrival_ms=round(at_ms), duration_ms=duration_ms)
            for (job, duration_ms), at_ms in zip(drawn, moments, strict=True)
        ),
        queues=tuple(Queue(name=f"q{index}") for index in range(recipe.queues)),
        notes=(f"Jobs are drawn at random: {_said(recipe, seed=fixed)}.",),
    )


def _drawn(recipe: Recipe, random: Random, demand: Sequence[float], name: str) -> tuple[Job, int]:
    """A job, and its run time in ms; `demand` has what the tenants up to each one submit."""
    tenant = random.choices(range(recipe.queues), cum_weights=demand)[0]
    duration_ms = round(MS * random.lognormvariate(log(recipe.median_s), recipe.sigma))
    is_share = random.random() < recipe.shares
    cores, memory_gib = random.choice(CORES_PER_GPU), random.choice(MEMORY_GIB_PER_GPU)
    roles = (
        _share(random.choice(SHARES_MILLI), cores, memory_gib)
        if is_share
        else _whole(_size(recipe, random), cores, memory_gib)
    )
    job = Job(name=name, roles=roles, queue=f"q{tenant}")
    return job, min(max(duration_ms, MS), MAX_DURATION_MS)


def _size(recipe: Recipe, random: Random) -> int:
    """GPUs of a gang that the whole cluster can hold."""
    sizes = [size for size in SIZES if size <= recipe.nodes * GPUS_PER_NODE]
    return random.choices(sizes, [SIZES[size] for size in sizes])[0]


def _whole(gpus: int, cores: int, memory_gib: int) -> tuple[Role, ...]:
    on_node = min(gpus, GPUS_PER_NODE)
    cores = min(cores, NODE_CORES // on_node)  # or no node could ever hold a replica
    memory_mib = memory_gib * GIB_MIB * on_node
    return gang(gpus, cpu_milli=gpus * cores * 1000, memory_mib=memory_mib)


def _share(share_milli: int, cores: int, memory_gib: int) -> tuple[Role, ...]:
    shape = Shape(
        share_milli=share_milli,
        cpu_milli=cores * share_milli,
        memory_mib=memory_gib * GIB_MIB * share_milli // GPU_MILLI,
    )
    return (Role(name="replica", shape=shape),)


def _gpu_milli(job: Job) -> int:
    return sum(
        role.replicas * (role.shape.share_milli or GPU_MILLI * role.shape.gpus)
        for role in job.roles
    )


def _said(recipe: Recipe, *, seed: bool) -> str:
    said = [each.name for each in fields(Recipe) if seed or each.name != "seed"]
    return ",".join(f"{name}={getattr(recipe, name):.15g}" for name in said)
