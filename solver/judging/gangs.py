"""Gangs and start groups start whole; where their replicas belong together, or apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import networkx as nx

from solver.cluster import Node
from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed, Start, listed, role_path
from solver.problem import Problem
from solver.workload import (
    Job,
)


def check_gangs(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """A gang that starts has the minimum of every role."""
    for name, starts in placed.by_job.items():
        job = problem.job_by_name[name]
        count = Counter(start.role.name for start in starts)
        for role in job.roles:
            if job.gang and count[role.name] < role.min_replicas:
                which = name if len(job.roles) == 1 else role_path(name, role.name)
                text = (
                    f'job "{which}": starts with {count[role.name]} replicas,'
                    f" its gang needs {role.min_replicas}"
                )
                yield Violation(Rule.GANG, name, text)


def check_start_groups(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Jobs of one start group start together or not at all."""
    members: dict[str, list[Job]] = defaultdict(list)
    for job in problem.jobs:
        if job.start_group is not None:
            members[job.start_group].append(job)
    for group, jobs in members.items():
        started = [job.name for job in jobs if job.name in placed.by_job]
        # A job that needs no replica to start holds nobody back.
        missing = [job.name for job in jobs if job.name not in placed.by_job and job.min_replicas]
        if started and missing:
            text = f'start group "{group}": {listed(started)} starts without {listed(missing)}'
            yield Violation(Rule.START_GROUP, group, text)


def check_topology(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """A gang that has to be in one group of a level is."""
    in_mig_mode = _in_mig_mode(problem, placed)
    for name, starts in placed.by_job.items():
        job = problem.job_by_name[name]
        if job.topology is None or not job.topology.required:
            continue
        within = job.topology.within
        # Independent replicas are no gang: each is held to the rule by itself.
        for members in [starts] if job.gang else [[start] for start in starts]:
            groups = _groups_of(problem, within, members, in_mig_mode)
            if len(groups) > 1:
                shown = listed([" / ".join(map(str, group[1:])) for group in sorted(groups)])
                text = f'job "{name}": wants one {within} and is spread over {len(groups)}: {shown}'
                yield Violation(Rule.TOPOLOGY, name, text)


def _in_mig_mode(problem: Problem, placed: Placed) -> dict[str, frozenset[int]]:
    """By node, the GPUs in MIG mode after the plan: whatever nobody switches back, or cuts now."""
    found = {node.name: set(node.mig_mode | node.mig_gpus) for node in problem.nodes}
    for start in placed.arrivals:
        found[start.node.name].difference_update(set(start.gpus) - start.node.mig_gpus)
    for start in placed.arrivals:
        found[start.node.name].update(entry.gpu for entry in start.at.instances)
    return {name: frozenset(gpus) for name, gpus in found.items() if gpus}


def _islands(node: Node, in_mig_mode: frozenset[int]) -> Iterator[set[int]]:
    """What NVLink joins: a GPU in MIG mode has left its island, whoever it was a bridge for."""
    links = node.topology.nvlink_graph
    kept = [gpu for gpu in range(node.n_gpus) if gpu not in in_mig_mode]
    yield from nx.connected_components(links.subgraph(kept))
    yield from ({gpu} for gpu in range(node.n_gpus) if gpu not in kept)


def _groups_of(
    problem: Problem,
    level: str,
    starts: Sequence[Start],
    in_mig_mode: Mapping[str, frozenset[int]],
) -> set[tuple[str, ...]]:
    """Name the groups of a level that replicas are in.

    An island is inside a node, so replicas without GPUs count as in an island of their node,
    whichever it is; on a node where nobody has a GPU they make up one.
    """
    if level != "island":
        return {start.node.group(level, problem.levels) for start in starts}
    islands = {
        ("island", start.node.name, f"GPUs {sorted(part)}")
        for start in starts
        for part in _islands(start.node, in_mig_mode.get(start.node.name, frozenset()))
        if not part.isdisjoint(start.gpus)
    }
    with_gpus = {node for _, node, _ in islands}
    return islands | {
        ("island", start.node.name, "no GPU")
        for start in starts
        if start.node.name not in with_gpus
    }


def check_spread(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """No group has more replicas of a job than its rule allows."""
    for name, starts in placed.by_job.items():
        rule = problem.job_by_name[name].spread
        if rule is None:
            continue
        count = Counter(start.node.group(rule.over, problem.levels) for start in starts)
        for group, replicas in sorted(count.items()):
            if replicas > rule.max_per:
                text = (
                    f'job "{name}": has {replicas} replicas in one {rule.over}'
                    f" ({' / '.join(group[1:])}), at most {rule.max_per} may be"
                )
                yield Violation(Rule.SPREAD, name, text)
