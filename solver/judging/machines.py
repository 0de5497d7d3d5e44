"""What nodes let in, and the CPU and memory that they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed
from solver.problem import Problem


def check_nodes(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Nodes are ready and not cordoned."""
    for start in placed.arrivals:
        node = start.node
        if not node.ready:
            yield Violation(Rule.NODE, node.name, f'{start}: node "{node.name}" is not ready')
        if node.cordoned:
            yield Violation(Rule.NODE, node.name, f'{start}: node "{node.name}" is cordoned')


def check_taints(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Taints that keep work away are tolerated."""
    for start in placed.arrivals:
        for taint in start.node.taints:
            hard = taint.effect in ("NoSchedule", "NoExecute")
            if hard and not any(t.tolerates(taint) for t in start.shape.tolerations):
                text = (
                    f"{start}: does not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
                    f' of node "{start.node.name}"'
                )
                yield Violation(Rule.TAINT, start.job.name, text)


def check_labels(_problem: Problem, placed: Placed) -> Iterator[Violation]:
    """Nodes carry the labels that replicas ask for."""
    for start in placed.arrivals:
        labels = {"kubernetes.io/hostname": start.node.name, **start.node.labels}
        for key, wanted in start.shape.node_selector:
            if labels.get(key) != wanted:
                has = f"has {labels[key]!r}" if key in labels else "has no such label"
                text = f'{start}: wants label {key}={wanted!r}, node "{start.node.name}" {has}'
                yield Violation(Rule.LABEL, start.job.name, text)


def check_amounts(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """CPU and memory of every node.

    Where running work alone exceeds what the node gives, that is not the plan's doing: it may
    still bring replicas that ask nothing of this resource.
    """
    before: Counter[tuple[str, Rule]] = Counter()
    added: Counter[tuple[str, Rule]] = Counter()
    for job in problem.running:
        for replica in placed.staying(job):
            before[replica.node, Rule.CPU] += replica.cpu_milli
            before[replica.node, Rule.MEMORY] += replica.memory_mib
    for start in placed.arrivals:
        added[start.node.name, Rule.CPU] += start.shape.cpu_milli
        added[start.node.name, Rule.MEMORY] += start.shape.memory_mib
    for node in problem.nodes:
        for rule, gives, unit in (
            (Rule.CPU, node.cpu_milli, "milli-CPU"),
            (Rule.MEMORY, node.memory_mib, "MiB"),
        ):
            held, new = before[node.name, rule], added[node.name, rule]
            if gives is not None and new > 0 and held + new > gives:
                text = (
                    f'node "{node.name}": gives {gives} {unit}, running work holds {held},'
                    f" the plan adds {new}, {held + new - gives} too many"
                )
                yield Violation(rule, node.name, text)
