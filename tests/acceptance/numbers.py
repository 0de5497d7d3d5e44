"""What the named numbers of a case mean. Each is found by its name, never by the case.

A name is a pattern: NODE, JOB and LEVEL in it stand for those of the case. A name that is not here
is an error, so that no number passes unread.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from solver.cluster import GPU_MILLI
from tests.acceptance.neutral import only_nodes, running_on
from tests.brute_force import Enumeration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from solver.cluster import Node
    from solver.solution import Placement
    from tests.acceptance.answers import Answer

_MEANINGS: list[tuple[str, Callable[..., Any]]] = []


class UnknownNumberError(LookupError):
    """The case names a number whose meaning is not coded."""


def means(pattern: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a name stands for."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _MEANINGS.append((pattern, function))
        return function

    return register


def number(name: str, answer: Answer) -> object:
    """The value that the answer gives to a named number.

    Raises
    ------
    UnknownNumberError
        Nobody has said what the name means.
    """
    words = {
        "NODE": list(answer.problem.node_by_name),
        "JOB": list(answer.members),
        "LEVEL": [*answer.problem.levels, "domain"],
        "INDEX": [r"\d+"],
    }
    for pattern, function in _MEANINGS:
        regex = pattern
        for word, values in words.items():
            choices = values if word == "INDEX" else [re.escape(value) for value in values]
            longest_first = sorted(choices, key=len, reverse=True) or ["(?!)"]
            regex = regex.replace(word, f"({'|'.join(longest_first)})")
        if match := re.fullmatch(regex, name):
            return function(answer, *(part for part in match.groups() if part is not None))
    raise UnknownNumberError(f'nobody has said what the number "{name}" means')


# GPUs that are free, used, stranded


@means("stranded_gpus")
def _stranded(answer: Answer) -> object:
    return answer.result.metrics.stranded_gpus


@means("gpus_used|gpus_in_use")
def _used(answer: Answer) -> object:
    return Fraction(sum(answer.held_after.values()), GPU_MILLI)


@means("free_after|idle_after|idle")
def _free_after(answer: Answer) -> object:
    return sum(answer.free_gpus(answer.held_after, node) for node in _open_nodes(answer))


@means("free_total|free_schedulable")
def _free_before(answer: Answer) -> object:
    return sum(answer.free_gpus(answer.held_before, node) for node in _open_nodes(answer))


@means("largest_free_on_one_node")
def _largest_free(answer: Answer) -> object:
    return max(answer.free_gpus(answer.held_before, node) for node in _open_nodes(answer))


@means("free_by_naive_sum")
def _naive(answer: Answer) -> object:
    installed = sum(node.n_gpus for node in answer.problem.nodes)
    return installed - Fraction(sum(answer.held_before.values()), GPU_MILLI)


@means("free_on_NODE|idle_on_NODE")
def _free_on(answer: Answer, node: str) -> object:
    return answer.free_gpus(answer.held_after, answer.problem.node_by_name[node])


@means("overcommitted_on_NODE")
def _overcommitted(answer: Answer, node: str) -> object:
    """GPUs held beyond those that are healthy."""
    held = sum(milli for (name, _), milli in answer.held_after.items() if name == node)
    healthy = len(answer.problem.node_by_name[node].usable_gpus)
    return max(Fraction(0), Fraction(held, GPU_MILLI) - healthy)


def _open_nodes(answer: Answer) -> Iterator[Node]:
    return (node for node in answer.problem.nodes if node.schedulable)


@means("pods_left_pending")
def _left_pending(answer: Answer) -> object:
    """Pods that wait and do not start, and evicted ones that go on nowhere."""
    evicted = sum(len(eviction.replicas) for eviction in answer.result.plan.evictions)
    return answer.pods_wanted - answer.pods_placed + evicted


# Loads of single GPUs


@means("max_gpu_load")
def _max_load(answer: Answer) -> object:
    return max(_loads(answer))


@means("min_gpu_load")
def _min_load(answer: Answer) -> object:
    return min(_loads(answer))


@means("gpuINDEX_load")
def _load_of(answer: Answer, index: str) -> object:
    """For a case with one node."""
    (node,) = answer.problem.nodes
    return Fraction(answer.held_after[node.name, int(index)], GPU_MILLI)


@means("tenths_per_gpu")
def _tenths(answer: Answer) -> object:
    """Said of every GPU, so it is a number only where all agree."""
    tenths = {load * 10 for load in _loads(answer)}
    return tenths.pop() if len(tenths) == 1 else f"not the same for all: {sorted(tenths)}"


@means("max_pods_per_gpu")
def _max_pods(answer: Answer) -> object:
    return max(_pods_per_gpu(answer))


@means("min_pods_per_gpu")
def _min_pods(answer: Answer) -> object:
    return min(_pods_per_gpu(answer))


def _loads(answer: Answer) -> list[Fraction]:
    return [Fraction(answer.held_after[gpu], GPU_MILLI) for gpu in _all_gpus(answer)]


def _pods_per_gpu(answer: Answer) -> list[int]:
    pods = Counter((at.node, gpu) for at in answer.result.plan.placements for gpu in at.gpus)
    pods.update((r.node, gpu) for j in answer.problem.running for r in j.replicas for gpu in r.gpus)
    return [pods[gpu] for gpu in _all_gpus(answer)]


def _all_gpus(answer: Answer) -> list[tuple[str, int]]:
    return [(node.name, gpu) for node in answer.problem.nodes for gpu in range(node.n_gpus)]


# Pods and CPUs on nodes


@means("pods_left_pending")
def _left(answer: Answer) -> object:
    return answer.pods_wanted - answer.pods_placed


@means("pods_on_NODE")
def _pods_on(answer: Answer, node: str) -> object:
    return len(answer.result.plan.by_node.get(node, ()))


@means("cpu_only_pods_on_NODE")
def _cpu_only_pods_on(answer: Answer, node: str) -> object:
    return sum(not at.gpus for at in answer.result.plan.by_node.get(node, ()))


@means("cpu_free_on_NODE")
def _cpu_free_on(answer: Answer, node: str) -> object:
    return _cpu_free(answer, node, answer.result.plan.placements)


@means("cpu_free_on_NODE_after_JOB")
def _cpu_free_after(answer: Answer, node: str, job: str) -> object:
    return _cpu_free(answer, node, answer.placements(job))


def _cpu_free(answer: Answer, node: str, placements: tuple[Placement, ...]) -> Fraction:
    roles = {(job.name, role.name): role for job, role in answer.problem.roles()}
    limit = answer.problem.node_by_name[node].cpu_milli
    assert limit is not None, f"node {node} has no limit of CPUs"
    running = [r for job in answer.problem.running for r in job.replicas if r.node == node]
    new = [roles[at.job, at.role].shape.cpu_milli for at in placements if at.node == node]
    return Fraction(limit - sum(r.cpu_milli for r in running) - sum(new), 1000)


@means("nodes_used")
def _nodes_used(answer: Answer) -> object:
    return len(answer.result.plan.by_node)


@means("LEVELs_used")
def _groups_used(answer: Answer, level: str) -> object:
    problem = answer.problem
    nodes = (problem.node_by_name[name] for name in answer.result.plan.by_node)
    return len({node.group(level, problem.levels) for node in nodes})


# What would be if


@means("placed_if_JOB_on_NODE")
def _placed_if(answer: Answer, job: str, node: str) -> object:
    """Pods that run once the job has started there, its own included."""
    otherwise = answer.ask_again(lambda case: running_on(case, job, node))
    return answer.members[job].pods + otherwise.pods_placed


@means("LEVELs_that_fit")
def _groups_that_fit(answer: Answer, level: str) -> object:
    """Groups that could take every pod by themselves."""
    found = 0
    for nodes in answer.problem.groups[level].values():
        names = {node.name for node in nodes}
        alone = answer.ask_again(partial(only_nodes, names=names))
        found += alone.pods_placed == answer.pods_wanted
    return found


@means("solutions")
def _solutions(answer: Answer) -> object:
    """Ways to place every pod, told apart by how many pods of each kind a node gets.

    Like nodes are counted once for each way to name them, so cases that ask have none.
    """
    ways = {
        tuple(sorted(Counter((at.job, at.role, at.node) for at in plan.placements).items()))
        for plan in Enumeration(answer.problem)
        if len(plan.placements) == answer.pods_wanted
    }
    return len(ways)
