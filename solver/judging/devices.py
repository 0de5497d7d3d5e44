"""Whole GPUs and shares of them: which, of what model, how they are joined, who holds them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import networkx as nx

from solver.cluster import GPU_MILLI
from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed
from solver.problem import Problem
from solver.workload import ANY_GROUP, LinkRule


def check_gpus(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """GPUs are distinct, exist, are healthy and whole, and as many as requested."""
    for start in placed.arrivals:
        node, chosen, name = start.node, start.at.gpus, start.job.name
        wanted = 1 if start.shape.is_share else start.shape.gpus
        if len(chosen) != wanted:
            text = f"{start}: wants {wanted} GPUs and is given {len(chosen)}"
            yield Violation(Rule.GPU, name, text)
        if len(set(chosen)) < len(chosen):
            yield Violation(Rule.GPU, name, f"{start}: is given a GPU twice, {list(chosen)}")
        for gpu in sorted(set(chosen)):
            which = f'GPU {gpu} of node "{node.name}"'
            if not 0 <= gpu < node.n_gpus:
                text = f"{start}: {which} does not exist, it has {node.n_gpus} GPUs"
                yield Violation(Rule.GPU, name, text)
            elif gpu in node.unhealthy_gpus:
                yield Violation(Rule.GPU, name, f"{start}: {which} is unhealthy")
            elif gpu in node.mig_gpus:
                yield Violation(Rule.GPU, name, f"{start}: {which} is cut into MIG instances")


def check_models(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Every GPU is of a model that will do."""
    for start in placed.arrivals:
        allowed = start.shape.gpu_models
        for gpu in start.gpus:
            model = start.node.topology.gpu_models[gpu]
            if allowed and model not in allowed:
                text = (
                    f"{start}: wants {' or '.join(allowed)}, GPU {gpu} of node"
                    f' "{start.node.name}" is {model or "of an unknown model"}'
                )
                yield Violation(Rule.MODEL, start.job.name, text)


def check_shares(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """A share is of one GPU with memory enough, and of the size that is needed there."""
    for start in placed.arrivals:
        for gpu in start.gpus:
            which = f'GPU {gpu} of node "{start.node.name}"'
            wanted = start.milli_of(gpu)
            if wanted is None:
                memory = start.node.topology.gpu_memory_mib[gpu]
                has = "unknown memory" if memory is None else f"{memory} MiB"
                text = f"{start}: wants {start.shape.share_memory_mib} MiB of {which} with {has}"
                yield Violation(Rule.SHARE, start.job.name, text)
            elif start.at.share_milli != wanted:
                given = start.at.share_milli
                text = f"{start}: needs {wanted} thousandths of {which} and is given {given}"
                yield Violation(Rule.SHARE, start.job.name, text)


def check_share_groups(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """What the plan puts on a GPU is of the same share group as all else that is on it."""
    there: dict[tuple[str, int], set[str]] = defaultdict(set)
    for job in problem.running:
        for replica in placed.staying(job):
            for gpu in replica.gpus:
                if replica.share_milli < GPU_MILLI:
                    there[replica.node, gpu].add(replica.share_group)
    added = set()
    for start in placed.arrivals:
        for gpu in start.gpus if start.shape.is_share else ():
            there[start.node.name, gpu].add(start.shape.share_group)
            added.add((start.node.name, gpu))
    for node, gpu in sorted(added):
        groups = there[node, gpu] - {ANY_GROUP}
        if len(groups) > 1:
            shown = ", ".join(group or "no group" for group in sorted(groups))
            text = f'GPU {gpu} of node "{node}": is shared by {shown}, which may not be'
            yield Violation(Rule.SHARE_GROUP, node, text)


def check_compute(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Compute of the shares that the plan puts on a GPU, and of what is there, within its limit.

    A share has the part of the compute that it says, else the same part as of the memory; where
    none says any, the two sums are one, and `check_held` tells of it.
    """
    there: Counter[tuple[str, int]] = Counter()
    said: set[tuple[str, int]] = set()
    for job in problem.running:
        for replica in placed.staying(job):
            for gpu in replica.gpus:
                there[replica.node, gpu] += replica.compute_milli or replica.share_milli
                if replica.compute_milli:
                    said.add((replica.node, gpu))
    added: Counter[tuple[str, int]] = Counter()
    for start in placed.arrivals:
        for gpu in start.gpus if start.shape.is_share else ():
            part = start.shape.compute_milli or start.milli_of(gpu) or GPU_MILLI
            added[start.node.name, gpu] += part
            if start.shape.compute_milli:
                said.add((start.node.name, gpu))
    for (node, gpu), more in sorted(added.items()):
        most, before = problem.node_by_name[node].compute_limit_milli, there[node, gpu]
        if (node, gpu) in said and before + more > most:
            text = (
                f'GPU {gpu} of node "{node}": running work has {before} thousandths of compute,'
                f" the plan adds {more}, {before + more - most} too many"
            )
            yield Violation(Rule.COMPUTE, node, text)


def check_held(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """What running work and the plan hold of one GPU adds up to one GPU at most."""
    running: Counter[tuple[str, int]] = Counter()
    new: Counter[tuple[str, int]] = Counter()
    for job in problem.running:
        for replica in placed.staying(job):
            for gpu in replica.gpus:
                running[replica.node, gpu] += replica.share_milli
    for start in placed.arrivals:
        for gpu in start.gpus:
            # What it needs, whatever the placement says: `check_shares` compares the two.
            new[start.node.name, gpu] += start.milli_of(gpu) or GPU_MILLI
    for (node, gpu), added in sorted(new.items()):
        before = running[node, gpu]
        if before + added > GPU_MILLI:
            text = (
                f'GPU {gpu} of node "{node}": running work holds {before} thousandths,'
                f" the plan adds {added}, {before + added - GPU_MILLI} too many"
            )
            yield Violation(Rule.HELD, node, text)


def check_links(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Where links are required, NVLink connects the GPUs of a replica."""
    for start in placed.arrivals:
        if start.shape.link is not LinkRule.REQUIRED or not start.gpus:
            continue
        parts = nx.number_connected_components(
            start.node.topology.nvlink_graph.subgraph(start.gpus)
        )
        if parts > 1:
            text = (
                f'{start}: GPUs {list(start.gpus)} of node "{start.node.name}" fall into'
                f" {parts} parts without NVLink between them"
            )
            yield Violation(Rule.LINK, start.job.name, text)
