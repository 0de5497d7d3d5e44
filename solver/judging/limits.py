"""Queues use no more than their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from solver.judging.faults import Rule, Violation
from solver.judging.placed import Placed, ancestry, left_of
from solver.problem import Problem
from solver.workload import (
    RESOURCES,
    ResourceName,
)


def check_queue_limits(problem: Problem, placed: Placed) -> Iterator[Violation]:
    """A queue to which something is added stays within its limits, with all queues below it."""
    running: Counter[tuple[str, ResourceName]] = Counter()
    new: Counter[tuple[str, ResourceName]] = Counter()
    for job in problem.running:
        for queue in ancestry(problem, job.queue):
            for resource, amount in left_of(problem, job, placed).items():
                running[queue, resource] += amount
    for start in placed.starts:
        for queue in ancestry(problem, start.job.queue):
            for resource in RESOURCES:
                new[queue, resource] += problem.amount(start.shape, resource)
    for owner in problem.queues:
        for resource, limit in owner.limit.items():
            before, added = running[owner.name, resource], new[owner.name, resource]
            if added > 0 and before + added > limit:
                text = (
                    f'queue "{owner.name}": may use {limit} {_UNITS[resource]}, runs {before},'
                    f" the plan adds {added}, {before + added - limit} too many"
                )
                yield Violation(Rule.QUEUE_LIMIT, owner.name, text)


_UNITS: dict[ResourceName, str] = {
    "gpu_milli": "thousandths of GPUs",
    "cpu_milli": "milli-CPU",
    "memory_mib": "MiB",
}
