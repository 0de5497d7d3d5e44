"""The rules that can keep a job from starting, and the question without one of them.

``job`` (so many replicas start together) and ``capacity`` (what nodes have) can never be lifted.
``held`` says that what runs, and what the plan starts, keeps its place; without it all nodes are
empty. Nodes that are not ready or cordoned and GPUs that failed are rules too: somebody can mend
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from solver.cluster import Node
from solver.fair_share import held_by_queue
from solver.problem import Problem
from solver.queues import subtree
from solver.room import Lift, lifted
from solver.slices import unused
from solver.workload import Job, LinkRule

Change = Callable[[Problem], Problem]


def without(
    question: Problem, name: str, rules: Iterable[str], empty: Sequence[Node] | None = None
) -> Problem:
    """The question about a job with these rules lifted.

    Parameters
    ----------
    empty
        The nodes before the plan cut any GPU of them, for those to whom nothing is held.
    """
    lifted_rules = list(rules)
    if "held" in lifted_rules and empty is not None:
        question = replace(question, nodes=tuple(empty))
    for rule in lifted_rules:
        question = _alone(question, name) if rule == "start-group" else RULES[rule](question)
    return question


def without_for(question: Problem, name: str, rule: Lift) -> Problem:
    """The question with a rule lifted for one job only."""
    jobs = (lifted(job, [rule]) if job.name == name else job for job in question.jobs)
    return replace(question, jobs=tuple(jobs))


def asked(question: Problem, job: Job) -> list[str]:
    """The rules that say anything here, in the order in which they are tried to be done without.

    What lifts only with effort is tried first, so that a core that a policy explains names the
    policy.
    """
    nodes, shapes = question.nodes, [role.shape for role in job.roles]
    says = {
        "held": bool(question.running) or any(node.instances for node in nodes),
        "not-ready": any(not node.ready for node in nodes),
        "unhealthy": any(node.unhealthy_gpus for node in nodes),
        "cordoned": any(node.cordoned for node in nodes),
        "cpu": any(shape.cpu_milli for shape in shapes),
        "memory": any(shape.memory_mib for shape in shapes),
        "spread": job.spread is not None,
        "share-group": question.has_share_groups and any(shape.is_share for shape in shapes),
        "topology": job.topology is not None and job.topology.required,
        "link": any(shape.link is LinkRule.REQUIRED for shape in shapes),
        "model": any(shape.gpu_models for shape in shapes),
        "label": any(shape.node_selector for shape in shapes),
        "taint": any(taint.repels for node in nodes for taint in node.taints),
        "start-group": len(question.jobs) > 1,
        "mig-limit": question.most_recut_gpus is not None,
        "queue-limit": any(queue.limit for queue in question.queues),
    }
    return [rule for rule, speaks in says.items() if speaks]


def _of_jobs(rule: Lift) -> Change:
    return lambda question: replace(question, jobs=tuple(lifted(j, [rule]) for j in question.jobs))


def _of_nodes(mend: Callable[[Node], Node]) -> Change:
    return lambda question: replace(question, nodes=tuple(mend(n) for n in question.nodes))


def emptied(question: Problem) -> Problem:
    """The question with nothing running; what queues hold still counts on their limits."""
    used = held_by_queue(question, question.running)
    queues = [
        replace(
            queue,
            limit={
                resource: max(0, most - sum(used[n][resource] for n in members))
                for resource, most in queue.limit.items()
            },
        )
        for queue in question.queues
        for members in [subtree(question.queues, queue.name)]
    ]
    return replace(
        question,
        running=(),
        queues=tuple(queues),
        nodes=tuple(map(unused, question.nodes)),
    )


def _unlimited(question: Problem) -> Problem:
    return replace(question, queues=tuple(replace(queue, limit={}) for queue in question.queues))


def _alone(question: Problem, name: str) -> Problem:
    return replace(question, jobs=(replace(question.job_by_name[name], start_group=None),))


RULES: dict[str, Change] = {
    "held": emptied,
    "not-ready": _of_nodes(lambda node: replace(node, ready=True)),
    "unhealthy": _of_nodes(lambda node: replace(node, unhealthy_gpus=frozenset())),
    "cordoned": _of_nodes(lambda node: replace(node, cordoned=False)),
    "cpu": _of_jobs(Lift.CPU),
    "memory": _of_jobs(Lift.MEMORY),
    "spread": _of_jobs(Lift.SPREAD),
    "share-group": _of_jobs(Lift.SHARE_GROUP),
    "topology": _of_jobs(Lift.TOPOLOGY),
    "link": _of_jobs(Lift.LINK),
    "model": _of_jobs(Lift.MODEL),
    "label": _of_jobs(Lift.LABEL),
    "taint": _of_jobs(Lift.TAINT),
    "mig-limit": lambda question: replace(question, most_recut_gpus=None),
    "queue-limit": _unlimited,
}
"""The question without a rule, by the rule's name; ``start-group`` also asks for the job."""
