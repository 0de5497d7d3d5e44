"""Whether a job fits into what is left, and whether it would if a rule of its were lifted.

One job at a time, replica by replica onto the first nodes that take it: exact for jobs with one
role, a good guess for gangs whose roles compete. Used to say why a job waits, never to place it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from solver.cluster import Node, Toleration
from solver.fit import fit, hosts, pick_gpus, share_milli_on
from solver.islands import parts_now
from solver.problem import Problem
from solver.slices import pick_instances
from solver.solution import Placement
from solver.state import NodeState, States
from solver.stock import Stock
from solver.workload import ANY_GROUP, Job, LinkRule, Role, Shape


class Lift(StrEnum):
    """A rule that can be lifted, in the order in which the fixes are cheap to make."""

    TAINT = "taint"
    LABEL = "label"
    LINK = "no-nvlink-set"
    TOPOLOGY = "no-domain-big-enough"
    SPREAD = "spread"
    SHARE_GROUP = "share-group"
    MODEL = "model-mismatch"
    CPU = "cpu-short"
    MEMORY = "mem-short"


def lifted(job: Job, rules: Iterable[Lift]) -> Job:
    """The job without some of its rules."""
    for rule in rules:
        if rule is Lift.TOPOLOGY:
            job = replace(job, topology=None)
        elif rule is Lift.SPREAD:
            job = replace(job, spread=None)
        else:
            roles = tuple(replace(r, shape=_lifted_shape(r.shape, rule)) for r in job.roles)
            job = replace(job, roles=roles)
    return job


def _lifted_shape(shape: Shape, rule: Lift) -> Shape:
    match rule:
        case Lift.TAINT:
            return replace(shape, tolerations=(Toleration(operator="Exists"),))
        case Lift.LABEL:
            return replace(shape, node_selector=())
        case Lift.LINK:
            return replace(shape, link=LinkRule.NONE)
        case Lift.SHARE_GROUP:
            return replace(shape, share_group=ANY_GROUP) if shape.is_share else shape
        case Lift.MODEL:
            return replace(shape, gpu_models=())
        case Lift.CPU:
            return replace(shape, cpu_milli=0)
        case Lift.MEMORY:
            return replace(shape, memory_mib=0)
        case _:
            return shape


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a job fits: replicas by role name."""

    fits: bool
    placed: dict[str, int]


def room_for(
    problem: Problem,
    states: States,
    job: Job,
    started: Iterable[Placement] = (),
    stock: Stock | None = None,
) -> Room:
    """Whether the job's minimum (one independent replica) fits into the states.

    Topology, spread, labels, taints, models, links, GPUs, CPU and memory are looked at; queue
    limits and start groups are not.

    Parameters
    ----------
    started
        Replicas of the job that are in place already, which a spread counts.
    stock
        The same states as arrays: then nodes without room are passed over at once.
    """
    names = [placement.node for placement in started]
    best = Room(False, {role.name: 0 for role in job.roles})
    for region in _regions(problem, states, job, stock):
        found = _fill(problem, region, job, names)
        if found.fits:
            return found
        if sum(found.placed.values()) > sum(best.placed.values()):
            best = found
    return best


def _regions(
    problem: Problem, states: States, job: Job, stock: Stock | None
) -> Iterator[dict[Node, NodeState]]:
    """What each place has left that could hold the whole job; islands of a node one by one."""
    rule = job.topology
    nodes: Iterable[Node] = problem.nodes
    if stock is not None:
        room = sum(stock.room(role.shape) > 0 for role in job.roles)
        nodes = [stock.nodes[int(n)] for n in np.flatnonzero(room)]
    if rule is None or not rule.required:
        yield {node: states[node.name] for node in nodes}
    elif rule.within == "island":
        for node in nodes:
            state = states[node.name]
            for part in parts_now(node, state):
                left = (m if gpu in part else 0 for gpu, m in enumerate(state.gpu_left))
                yield {node: replace(state, gpu_left=tuple(left))}
    else:
        groups: dict[tuple[str, ...], dict[Node, NodeState]] = {}
        for node in nodes:
            group = node.group(rule.within, problem.levels)
            groups.setdefault(group, {})[node] = states[node.name]
        yield from groups.values()


def _fill(
    problem: Problem, left: dict[Node, NodeState], job: Job, started_on: Iterable[str]
) -> Room:
    in_group: Counter[tuple[str, ...]] = Counter()
    if job.spread is not None:
        for name in started_on:
            in_group[problem.node_by_name[name].group(job.spread.over, problem.levels)] += 1
    placed: dict[str, int] = {}
    for role in sorted(job.roles, key=lambda r: (-problem.gpu_milli(r.shape), -r.shape.cpu_milli)):
        wanted = role.min_replicas if job.gang else 1
        placed[role.name] = 0
        for node in left:
            if placed[role.name] >= wanted:
                break
            if not hosts(node, role.shape):
                continue
            count = min(wanted - placed[role.name], fit(node, role.shape, left[node]))
            if job.spread is not None:
                group = node.group(job.spread.over, problem.levels)
                count = max(0, min(count, job.spread.max_per - in_group[group]))
                in_group[group] += count
            for _ in range(count):
                gpus = pick_gpus(node, role.shape, left[node])
                if gpus is None:
                    break
                milli = share_milli_on(node, role.shape, gpus[0]) if gpus else 0
                made = pick_instances(node, role.shape, left[node]) if role.shape.slices else ()
                if made is None:
                    break
                left[node] = left[node].place(role.shape, gpus, milli).cut(made)
                placed[role.name] += 1
    enough = all(placed[r.name] >= r.min_replicas for r in job.roles)
    return Room(enough if job.gang else any(placed.values()), placed)


def plain(role: Role) -> Shape:
    """The bare amounts of a role's shape, without any wish about where."""
    shape = role.shape
    return Shape(
        gpus=shape.gpus,
        share_milli=shape.share_milli,
        share_memory_mib=shape.share_memory_mib,
        compute_milli=shape.compute_milli,
        slices=shape.slices,
        cpu_milli=shape.cpu_milli,
        memory_mib=shape.memory_mib,
        share_group=ANY_GROUP if shape.is_share else "",
        tolerations=(Toleration(operator="Exists"),),
    )
