"""Whether a plan may be carried out: every rule, written from its definition.

Whoever made the plan, it leaves the program only after `verify` has found nothing. So this module
knows the problem, the plan and the links of a node, and nothing of how plans are found: it adds
up what running work and the plan hold, and compares. `CHECKS` is the list of rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import networkx as nx

from solver.cluster import GPU_MILLI, Node
from solver.fair_share import entitlements
from solver.problem import Problem, RoleKey
from solver.solution import Move, Placement, Plan
from solver.workload import (
    RESOURCES,
    Job,
    LinkRule,
    Queue,
    ResourceName,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
)


class Rule(StrEnum):
    """What a plan can break."""

    IDENTITY = "identity"
    """A placement is of a pending job, a role of it and a replica of that role, and only once."""
    NODE = "node"
    """The node exists, is ready and is not cordoned."""
    TAINT = "taint"
    LABEL = "label"
    GPU = "gpu"
    """The GPUs are distinct, installed, healthy, not cut into MIG, as many as requested."""
    MODEL = "model"
    SHARE = "share"
    """A share is of one GPU with memory enough, and of the requested size."""
    HELD = "held"
    """What replicas hold of one GPU adds up to one GPU at most."""
    CPU = "cpu"
    MEMORY = "memory"
    LINK = "link"
    GANG = "gang"
    START_GROUP = "start-group"
    TOPOLOGY = "topology"
    SPREAD = "spread"
    QUEUE_LIMIT = "queue-limit"
    DISPLACED = "displaced"
    """What is evicted or moved runs, may be, and leaves no less than the job's minimum."""
    GIVING_WAY = "giving-way"
    """Running work is displaced for a reason that the problem lists."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the plan breaks.

    Parameters
    ----------
    subject
        The job, node, start group or queue whose rule it is.
    text
        One line with the objects and numbers.
    """

    rule: Rule
    subject: str
    text: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.text}"


def verify(problem: Problem, plan: Plan) -> list[Violation]:
    """Every rule that the plan breaks, in the order of `CHECKS`; empty for a plan that is right.

    Placements of unknown jobs, roles, replicas, nodes or GPUs are reported as such and then left
    out, so one mistake is not reported under every rule.
    """
    found = [*_check_identity(problem, plan), *_check_displaced(problem, plan)]
    placed = _Placed(problem, plan)
    for check in CHECKS:
        found.extend(check(problem, placed))
    return found


def explain_violations(violations: Iterable[Violation]) -> str:
    """All violations in one line, for a log or an error."""
    return "; ".join(map(str, violations)) or "no rule is broken"


@dataclass(frozen=True, slots=True)
class _Start:
    """A placement with the objects it names."""

    at: Placement
    job: Job
    role: Role
    node: Node

    @property
    def shape(self) -> Shape:
        return self.role.shape

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that exist."""
        return tuple(gpu for gpu in self.at.gpus if 0 <= gpu < self.node.n_gpus)

    def milli_of(self, gpu: int) -> int | None:
        """Thousandths of that GPU which the replica needs; None where its memory is too small.

        A share by memory is rounded up: ``ceil(1000 * wanted / memory)``.
        """
        if not self.shape.share_memory_mib:
            return self.shape.share_milli or GPU_MILLI
        memory = self.node.topology.gpu_memory_mib[gpu]
        if memory is None or self.shape.share_memory_mib > memory:
            return None
        whole, rest = divmod(GPU_MILLI * self.shape.share_memory_mib, memory)
        return whole + (rest > 0)

    def __str__(self) -> str:
        return _name(self.at, self.job)


class _Placed:
    """The placements that name things which exist, looked at in several ways."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        seen: set[tuple[str, str, int]] = set()
        starts: list[_Start] = []
        for at in plan.placements:
            identity = (at.job, at.role, at.replica)
            role = problem.role_by_key.get(RoleKey(at.job, at.role))
            node = problem.node_by_name.get(at.node)
            if role is None or node is None or identity in seen:
                continue
            if not 0 <= at.replica < role.replicas:
                continue
            seen.add(identity)
            starts.append(_Start(at, problem.job_by_name[at.job], role, node))
        self.starts = tuple(starts)
        self.plan = plan
        running = {job.name: job for job in problem.running}
        moved = [(running[m.job], m) for m in plan.moves if m.job in running]
        self.moved = tuple(
            _moved(job, move, problem.node_by_name[move.node])
            for job, move in moved
            if 0 <= move.replica < len(job.replicas) and move.node in problem.node_by_name
        )
        self.arrivals = (*self.starts, *self.moved)
        """All that comes to a node: new starts and running replicas that move there."""

    def staying(self, job: RunningJob) -> list[RunningReplica]:
        """Replicas of a running job that stay where they are."""
        displaced = self.plan.displaced.get(job.name, frozenset())
        return [r for number, r in enumerate(job.replicas) if number not in displaced]

    @cached_property
    def by_job(self) -> dict[str, list[_Start]]:
        table: dict[str, list[_Start]] = defaultdict(list)
        for start in self.starts:
            table[start.job.name].append(start)
        return dict(table)


def _moved(job: RunningJob, move: Move, node: Node) -> _Start:
    """A running replica in its new place, held to what it asked for when it started."""
    role = Role(name="", shape=job.shapes[move.replica])
    member = Job(name=job.name, roles=(role,), queue=job.queue, priority=job.priority)
    at = Placement(job.name, "", move.replica, move.node, move.gpus, move.share_milli)
    return _Start(at, member, role, node)


def _name(at: Placement, job: Job | None) -> str:
    only_role = job is None or [role.name for role in job.roles] == [at.role]
    return f'replica {at.replica} of job "{at.job if only_role else _path(at.job, at.role)}"'


def _path(job: str, role: str) -> str:
    return f"{job}/{role}"


def _check_identity(problem: Problem, plan: Plan) -> Iterator[Violation]:
    for at in plan.placements:
        job = problem.job_by_name.get(at.job)
        role = problem.role_by_key.get(RoleKey(at.job, at.role))
        name = _name(at, job)
        if job is None:
            yield Violation(Rule.IDENTITY, at.job, f"{name}: no such job is pending")
        elif role is None:
            yield Violation(Rule.IDENTITY, at.job, f"{name}: the job has no such role")
        elif not 0 <= at.replica < role.replicas:
            text = f"{name}: the role has replicas 0 to {role.replicas - 1}"
            yield Violation(Rule.IDENTITY, at.job, text)
        if at.node not in problem.node_by_name:
            yield Violation(Rule.NODE, at.node, f'{name}: no node "{at.node}"')
    times = Counter((at.job, at.role, at.replica) for at in plan.placements)
    for at in {(at.job, at.role, at.replica): at for at in plan.placements}.values():
        count = times[at.job, at.role, at.replica]
        if count > 1:
            name = _name(at, problem.job_by_name.get(at.job))
            yield Violation(Rule.IDENTITY, at.job, f"{name}: placed {count} times")


def _check_displaced(problem: Problem, plan: Plan) -> Iterator[Violation]:
    running = {job.name: job for job in problem.running}
    named: Counter[tuple[str, int]] = Counter()
    for eviction in plan.evictions:
        named.update((eviction.job, number) for number in eviction.replicas)
    named.update((move.job, move.replica) for move in plan.moves)
    for (name, number), times in sorted(named.items()):
        job = running.get(name)
        if job is None or not 0 <= number < len(job.replicas):
            text = f'replica {number} of job "{name}": no such replica runs'
            yield Violation(Rule.DISPLACED, name, text)
        elif times > 1:
            text = f'replica {number} of job "{name}": is evicted or moved {times} times'
            yield Violation(Rule.DISPLACED, name, text)
    for move in plan.moves:
        if move.job in running and not running[move.job].preemption.movable:
            text = f'job "{move.job}": may not move and is moved to node "{move.node}"'
            yield Violation(Rule.DISPLACED, move.job, text)
        if move.node not in problem.node_by_name:
            text = f'replica {move.replica} of job "{move.job}": no node "{move.node}"'
            yield Violation(Rule.NODE, move.node, text)
    for eviction in plan.evictions:
        job = running.get(eviction.job)
        if job is None:
            continue
        if not job.preemption.allowed:
            text = f'job "{job.name}": may not be stopped and is evicted'
            yield Violation(Rule.DISPLACED, job.name, text)
        least = len(job.replicas) if job.min_replicas is None else job.min_replicas
        left = len(job.replicas) - len(set(eviction.replicas))
        if 0 < left < least:
            text = f'job "{job.name}": is left {left} replicas, less than its minimum of {least}'
            yield Violation(Rule.DISPLACED, job.name, text)


def _check_giving_way(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    """Something that starts must be worth it, by one of the listed reasons."""
    displaced = [job for job in problem.running if placed.plan.displaced.get(job.name)]
    if not displaced:
        return
    used = _use_of_queues(problem, placed)
    for job in displaced:
        if not any(_REASONS[reason](problem, placed, used, job) for reason in problem.preempt_for):
            listed = " or ".join(problem.preempt_for) or "nothing"
            text = f'job "{job.name}": gives way, and nothing starts that it may give way to'
            yield Violation(Rule.GIVING_WAY, job.name, f"{text} (for {listed})")


_Use = dict[str, Counter[ResourceName]]


def _use_of_queues(problem: Problem, placed: _Placed) -> _Use:
    used: _Use = {queue.name: Counter() for queue in problem.queues}
    for job in problem.running:
        used[job.queue].update(_left_of(job, placed))
    for start in placed.starts:
        for resource in RESOURCES:
            used[start.job.queue][resource] += problem.amount(start.shape, resource)
    return used


def _for_priority(_: Problem, placed: _Placed, __: _Use, job: RunningJob) -> bool:
    return any(start.job.priority > job.priority for start in placed.starts)


def _for_guarantee(problem: Problem, placed: _Placed, used: _Use, job: RunningJob) -> bool:
    """Another queue starts something and stays within its quota of what it has one of."""
    return any(
        queue.quota and all(used[name][r] <= most for r, most in queue.quota.items())
        for name in {start.job.queue for start in placed.starts} - {job.queue}
        for queue in [problem.queue_by_name[name]]
    )


def _for_fair_share(problem: Problem, placed: _Placed, used: _Use, job: RunningJob) -> bool:
    """Another queue starts something and has, by weight, no more of the surplus than is left."""
    other = problem.queue_by_name[job.queue]
    for name in {start.job.queue for start in placed.starts} - {job.queue}:
        queue = problem.queue_by_name[name]
        if queue.priority > other.priority or (queue.weight and not other.weight):
            share = entitlements(problem)[name]
            if all(used[name][resource] <= share[resource] for resource in RESOURCES):
                return True
        elif queue.priority == other.priority and (queue.weight or not other.weight):
            mine = _surplus_millionths(problem, queue, used[name])
            if mine <= _surplus_millionths(problem, other, used[other.name]):
                return True
    return False


def _surplus_millionths(problem: Problem, queue: Queue, used: Counter[ResourceName]) -> int:
    """The largest share of a resource beyond the quota, over the weight; in whole millionths."""
    shares = [
        1_000_000 * max(0, used[r] - queue.quota.get(r, 0)) // (capacity * max(1, queue.weight))
        for r in RESOURCES
        if (capacity := problem.capacity[r])
    ]
    return max(shares, default=0)


_REASONS: dict[str, Callable[[Problem, _Placed, _Use, RunningJob], bool]] = {
    "priority": _for_priority,
    "guarantee": _for_guarantee,
    "fair_share": _for_fair_share,
}


def _check_nodes(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
    for start in placed.arrivals:
        node = start.node
        if not node.ready:
            yield Violation(Rule.NODE, node.name, f'{start}: node "{node.name}" is not ready')
        if node.cordoned:
            yield Violation(Rule.NODE, node.name, f'{start}: node "{node.name}" is cordoned')


def _check_taints(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
    for start in placed.arrivals:
        for taint in start.node.taints:
            hard = taint.effect in ("NoSchedule", "NoExecute")
            if hard and not any(t.tolerates(taint) for t in start.shape.tolerations):
                text = (
                    f"{start}: does not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
                    f' of node "{start.node.name}"'
                )
                yield Violation(Rule.TAINT, start.job.name, text)


def _check_labels(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
    for start in placed.arrivals:
        labels = {"kubernetes.io/hostname": start.node.name, **start.node.labels}
        for key, wanted in start.shape.node_selector:
            if labels.get(key) != wanted:
                has = f"has {labels[key]!r}" if key in labels else "has no such label"
                text = f'{start}: wants label {key}={wanted!r}, node "{start.node.name}" {has}'
                yield Violation(Rule.LABEL, start.job.name, text)


def _check_gpus(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_models(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_shares(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_held(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    running: Counter[tuple[str, int]] = Counter()
    new: Counter[tuple[str, int]] = Counter()
    for job in problem.running:
        for replica in placed.staying(job):
            for gpu in replica.gpus:
                running[replica.node, gpu] += replica.share_milli
    for start in placed.arrivals:
        for gpu in start.gpus:
            # What it needs, whatever the placement says: `_check_shares` compares the two.
            new[start.node.name, gpu] += start.milli_of(gpu) or GPU_MILLI
    for (node, gpu), added in sorted(new.items()):
        before = running[node, gpu]
        if before + added > GPU_MILLI:
            text = (
                f'GPU {gpu} of node "{node}": running work holds {before} thousandths,'
                f" the plan adds {added}, {before + added - GPU_MILLI} too many"
            )
            yield Violation(Rule.HELD, node, text)


def _check_amounts(problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_links(_problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_gangs(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    for name, starts in placed.by_job.items():
        job = problem.job_by_name[name]
        count = Counter(start.role.name for start in starts)
        for role in job.roles:
            if job.gang and count[role.name] < role.min_replicas:
                which = name if len(job.roles) == 1 else _path(name, role.name)
                text = (
                    f'job "{which}": starts with {count[role.name]} replicas,'
                    f" its gang needs {role.min_replicas}"
                )
                yield Violation(Rule.GANG, name, text)


def _check_start_groups(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    members: dict[str, list[Job]] = defaultdict(list)
    for job in problem.jobs:
        if job.start_group is not None:
            members[job.start_group].append(job)
    for group, jobs in members.items():
        started = [job.name for job in jobs if job.name in placed.by_job]
        # A job that needs no replica to start holds nobody back.
        missing = [job.name for job in jobs if job.name not in placed.by_job and job.min_replicas]
        if started and missing:
            text = f'start group "{group}": {_names(started)} starts without {_names(missing)}'
            yield Violation(Rule.START_GROUP, group, text)


def _check_topology(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    for name, starts in placed.by_job.items():
        job = problem.job_by_name[name]
        if job.topology is None or not job.topology.required:
            continue
        within = job.topology.within
        # Independent replicas are no gang: each is held to the rule by itself.
        for members in [starts] if job.gang else [[start] for start in starts]:
            groups = _groups_of(problem, within, members)
            if len(groups) > 1:
                shown = _names([" / ".join(map(str, group[1:])) for group in sorted(groups)])
                text = f'job "{name}": wants one {within} and is spread over {len(groups)}: {shown}'
                yield Violation(Rule.TOPOLOGY, name, text)


def _groups_of(problem: Problem, level: str, starts: Sequence[_Start]) -> set[tuple[str, ...]]:
    """Name the groups of a level that replicas are in.

    An island is inside a node, so replicas without GPUs count as in an island of their node,
    whichever it is; on a node where nobody has a GPU they make up one.
    """
    if level != "island":
        return {start.node.group(level, problem.levels) for start in starts}
    islands = {
        ("island", start.node.name, f"GPUs {sorted(part)}")
        for start in starts
        for part in nx.connected_components(start.node.topology.nvlink_graph)
        if not part.isdisjoint(start.gpus)
    }
    with_gpus = {node for _, node, _ in islands}
    return islands | {
        ("island", start.node.name, "no GPU")
        for start in starts
        if start.node.name not in with_gpus
    }


def _check_spread(problem: Problem, placed: _Placed) -> Iterator[Violation]:
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


def _check_queue_limits(problem: Problem, placed: _Placed) -> Iterator[Violation]:
    running: Counter[tuple[str, ResourceName]] = Counter()
    new: Counter[tuple[str, ResourceName]] = Counter()
    for job in problem.running:
        for queue in _ancestry(problem, job.queue):
            for resource, amount in _left_of(job, placed).items():
                running[queue, resource] += amount
    for start in placed.starts:
        for queue in _ancestry(problem, start.job.queue):
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


def _left_of(job: RunningJob, placed: _Placed) -> Counter[ResourceName]:
    """What a running job holds once the plan has evicted and moved."""
    gone = {n for e in placed.plan.evictions if e.job == job.name for n in e.replicas}
    left: Counter[ResourceName] = Counter()
    for number, replica in enumerate(job.replicas):
        if number not in gone:
            left["gpu_milli"] += replica.share_milli * len(replica.gpus)
            left["cpu_milli"] += replica.cpu_milli
            left["memory_mib"] += replica.memory_mib
    return left


_UNITS: dict[ResourceName, str] = {
    "gpu_milli": "thousandths of GPUs",
    "cpu_milli": "milli-CPU",
    "memory_mib": "MiB",
}


def _ancestry(problem: Problem, queue: str) -> Iterator[str]:
    """Yield a queue and those above it."""
    above: str | None = queue
    seen: set[str] = set()
    while above is not None and above not in seen:
        seen.add(above)
        yield above
        above = problem.queue_by_name[above].parent


def _names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


Check = Callable[[Problem, _Placed], Iterator[Violation]]

CHECKS: tuple[Check, ...] = (
    _check_nodes,
    _check_taints,
    _check_labels,
    _check_gpus,
    _check_models,
    _check_shares,
    _check_held,
    _check_amounts,
    _check_links,
    _check_gangs,
    _check_start_groups,
    _check_topology,
    _check_spread,
    _check_queue_limits,
    _check_giving_way,
)
"""One function per rule, in the order in which violations are reported."""
