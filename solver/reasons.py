"""Why each waiting job waits: one reason, one line, and the numbers behind it.

The reason is the rule that the cheapest fix lifts: rules about *where* are tried one by one, first
against what the plan leaves, then against what was there when the job's turn came. If no single
one helps, it is a matter of amounts: ``gpu-short``, ``gpu-fragmented``, ``cpu-short``,
``mem-short``; ``impossible`` only where the plain amounts do not fit the empty cluster.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from solver import metrics
from solver.aftermath import settled
from solver.cluster import GPU_MILLI, Node
from solver.fair_share import member_entitlements
from solver.fit import capacity as fits_empty
from solver.fit import fit, hosts, idle_allowed, refusals
from solver.islands import parts_now
from solver.problem import Problem, RoleKey
from solver.queues import subtree
from solver.result import FactValue, Pending
from solver.result_text import counted
from solver.room import Lift, Room, lifted, plain, room_for
from solver.slices import free_slots
from solver.solution import Plan
from solver.state import NodeState, States, apply, initial_states
from solver.stock import Seat, Stock
from solver.workload import RESOURCES, Job, Queue, ResourceName, Shape
from topology.links import Link

WHERE = (
    Lift.TAINT,
    Lift.LABEL,
    Lift.LINK,
    Lift.TOPOLOGY,
    Lift.SPREAD,
    Lift.SHARE_GROUP,
    Lift.MODEL,
)
AMOUNTS = (Lift.CPU, Lift.MEMORY)


def pending(problem: Problem, plan: Plan) -> tuple[Pending, ...]:
    """Reasons of all jobs that do not start, and of independent replicas that are left over.

    What the plan evicts is gone, and what it moves is in its new place.
    """
    gave_way = tuple(sorted(plan.displaced))
    problem, plan = settled(problem, plan)
    waiting = [job for job in problem.jobs if _left_over(job, plan)]
    if not waiting:
        return ()
    desk = _Desk(problem, plan, gave_way)
    # In the order of their turns, so that what they find at theirs only ever gets less.
    answers = {job.name: desk.explain(job) for job in sorted(waiting, key=desk.rank)}
    return tuple(answers[job.name] for job in waiting)


def _left_over(job: Job, plan: Plan) -> bool:
    started = len(plan.by_job.get(job.name, ()))
    return started == 0 if job.gang else started < job.replicas


def waiting_part(job: Job, plan: Plan) -> Job:
    """The part of a job that waits.

    Of a gang that is its minimum; of independent replicas the first role that is short of some.
    """
    if job.gang:
        roles = tuple(role for role in job.roles if role.min_replicas)
        return replace(job, roles=roles or job.roles)
    short = (r for r in job.roles if plan.started.get(RoleKey(job.name, r.name), 0) < r.replicas)
    return replace(job, roles=(next(short),))


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: str
    text: str
    facts: dict[str, FactValue]


class _Desk:
    """Answers for one plan; keeps the states that all jobs are held against."""

    def __init__(self, problem: Problem, plan: Plan, gave_way: tuple[str, ...]) -> None:
        self._problem = problem
        self._plan = plan
        self._gave_way = gave_way
        self._before = initial_states(problem)
        self._number = {node.name: number for number, node in enumerate(problem.nodes)}
        self._tainted = any(taint.repels for node in problem.nodes for taint in node.taints)
        self._opened = Counter(_opened(node).kind for node in problem.nodes)
        self._after = apply(problem, self._before, plan.placements)
        self._stock = Stock(problem, self._after)
        self._turn = dict(self._before)
        self._turn_stock = Stock(problem, self._turn)
        ranked = ((self.rank(problem.job_by_name[p.job]), p) for p in plan.placements)
        self._coming = deque(sorted(ranked, key=lambda pair: pair[0]))

    def explain(self, job: Job) -> Pending:
        waiting = waiting_part(job, self._plan)
        verdict = self._verdict(waiting)
        started = len(self._plan.by_job.get(job.name, ()))
        text = verdict.text
        if started:
            text = f"{started} of {job.replicas} replicas start; the next one: {text}"
        facts = {**self._facts(waiting), **verdict.facts, "holds": self._holds(job)}
        return Pending(job=job.name, reason=verdict.reason, text=text, facts=facts)

    def _verdict(self, job: Job) -> _Verdict:
        return (
            self._impossible(job)
            or self._limited(job)
            or self._where(job, lambda: self._after)
            or self._partner(job)
            or self._beyond_claim(job)
            or self._where(job, lambda: self._at_turn(job))
            or self._nowhere(job)
            or self._fair_share(job)
            or self._amounts(job)
        )

    def _room(self, states: States, job: Job) -> Room:
        started = self._plan.by_job.get(job.name, ())
        return room_for(self._problem, states, job, started, self._stock_of(states))

    def _stock_of(self, states: States) -> Stock:
        return self._stock if states is self._after else self._turn_stock

    # -- impossible ---------------------------------------------------------------------------

    def _impossible(self, job: Job) -> _Verdict | None:
        """Plain amounts do not fit even if the whole cluster were empty and open."""
        for role in job.roles:
            shape = plain(role)
            needed = role.min_replicas if job.gang else 1
            capacity = sum(many * fits_empty(kind, shape) for kind, many in self._opened.items())
            if capacity >= needed:
                continue
            gpus = self._problem.gpu_milli(shape) / GPU_MILLI
            facts: dict[str, FactValue] = {
                "needs": _number(gpus * needed),
                "capacity_when_empty": _number(gpus * capacity),
                "short": _number(gpus * (needed - capacity)),
            }
            wish = _wish(shape)
            if capacity == 0:
                largest = max((len(kind.usable_gpus) for kind in self._opened), default=0)
                facts["largest_node_gpus"] = largest
                text = (
                    f"asks for {wish} on one node; the largest node has {counted(largest, 'GPU')}"
                )
                if shape.share_memory_mib:
                    memories = (m for n in self._opened for m in n.topology.gpu_memory_mib if m)
                    most = max(memories, default=0)
                    text = f"asks for {wish}, beyond the card: the largest GPU has {most:,} MiB"
                elif largest >= shape.gpus:
                    text = f"asks for {wish} on one node; no node has as much even when empty"
            else:
                text = f"asks for {needed} x {wish}; the empty cluster holds {capacity}"
            return _Verdict("impossible", text, facts)
        return None

    # -- queue limit --------------------------------------------------------------------------

    def _limited(self, job: Job) -> _Verdict | None:
        queues = _with_ancestors(self._problem, job.queue)
        if not any(queue.limit for queue in queues):
            return None
        if not self._room(self._after, job).fits:
            return None
        used = metrics.usage(self._problem, self._plan)
        need = {r: self._need(job, r) for r in RESOURCES}
        for queue in queues:
            members = subtree(self._problem.queues, queue.name)
            for resource, limit in queue.limit.items():
                held = sum(used[name][resource] for name in members)
                if need[resource] and held + need[resource] > limit:
                    amounts = [_amount(resource, v) for v in (limit, held, need[resource])]
                    text = f"queue {queue.name} is limited to {amounts[0]}, holds {amounts[1]}"
                    return _Verdict(
                        "queue-limit",
                        f"{text}; the job wants {amounts[2]}",
                        {"limit": limit, "held": held, "wanted": need[resource]},
                    )
        return None

    def _need(self, job: Job, resource: ResourceName) -> int:
        return sum(
            (role.min_replicas if job.gang else 1) * self._problem.amount(role.shape, resource)
            for role in job.roles
        )

    # -- one rule about where -----------------------------------------------------------------

    def _where(self, job: Job, found: Callable[[], States]) -> _Verdict | None:
        asked = [rule for rule in WHERE if _asks(job, rule)]
        if Lift.TAINT in asked and not self._tainted:
            asked.remove(Lift.TAINT)
        problem = self._problem
        shares_differ = problem.has_share_groups or problem.has_share_compute
        if Lift.SHARE_GROUP in asked and not shares_differ:
            asked.remove(Lift.SHARE_GROUP)
        if not asked:
            return None
        states = found()
        for rule in asked:
            if self._room(states, lifted(job, [rule])).fits:
                if self._room(states, job).fits:
                    return None
                return self._tell_where(job, rule, states)
        return None

    def _tell_where(self, job: Job, rule: Lift, states: States) -> _Verdict:
        shape = _main_shape(self._problem, job)
        free = _number(self._free(lifted_shape(job, rule, self._problem), states))
        facts: dict[str, FactValue] = {"free": free}
        match rule:
            case Lift.TAINT:
                taints = sorted(
                    {
                        f"{t.key}={t.value}:{t.effect}"
                        for node in self._problem.nodes
                        if "taint" in refusals(node, shape)
                        for t in node.taints
                        if t.repels and not any(s.tolerates(t) for s in shape.tolerations)
                    }
                )
                text = (
                    f"does not tolerate {', '.join(taints)}; {counted(free, 'GPU')} would be free"
                )
            case Lift.LABEL:
                wanted = ", ".join(f"{k}={v}" for k, v in shape.node_selector)
                gpus = counted(free, "GPU")
                text = f"asks for nodes with {wanted}; {gpus} would be free without that"
            case Lift.LINK:
                best = self._best_link(shape, states)
                facts["best_link_among_free"] = best
                text = (
                    f"wants {shape.gpus} GPUs joined by NVLink; "
                    f"{free} are free, but no {shape.gpus} on one node are joined"
                )
            case Lift.TOPOLOGY:
                return self._tell_topology(job, facts)
            case Lift.SPREAD:
                spread = job.spread
                assert spread is not None
                text = f"may have {spread.max_per} replica(s) per {spread.over}; too few have room"
                return _Verdict("gpu-fragmented", text, facts)
            case Lift.SHARE_GROUP:
                if not self._problem.has_share_groups:
                    text = (
                        f"wants {_wish(shape)}; on GPUs with as much memory free"
                        " the compute is given to other shares"
                    )
                    return _Verdict("gpu-fragmented", text, facts)
                own = f"shares of {shape.share_group}" if shape.share_group else "such without one"
                text = (
                    f"wants {_wish(shape)} beside {own} only; GPUs with as much room "
                    f"have shares of other groups on them"
                )
                if self._problem.has_share_compute:
                    text += ", or have given their compute away"
                return _Verdict("gpu-fragmented", text, facts)
            case _:
                mine, others = self._free_by_model(shape, states)
                facts |= {"free_of_model": _number(mine), "free_of_other_models": _number(others)}
                models = " or ".join(shape.gpu_models)
                text = (
                    f"wants {models}: {_number(mine)} free; "
                    f"{_number(others)} of other models are free"
                )
        return _Verdict(rule.value, text, facts)

    def _tell_topology(self, job: Job, facts: dict[str, FactValue]) -> _Verdict:
        assert job.topology is not None
        level = job.topology.within
        wanted = _amount("gpu_milli", self._need(job, "gpu_milli"))
        if level == "island":
            return self._tell_island(job, wanted, facts)
        groups = self._problem.groups[level].values()
        shape = _main_shape(self._problem, job)
        fewest = metrics.FewestGroups(self._problem)
        needed = max(fewest(r.shape, "node", r.min_replicas) for r in job.roles)
        largest = max((sum(hosts(n, shape) for n in nodes) for nodes in groups), default=0)
        best = max(
            (
                sum(self._after[n.name].free_milli for n in nodes if hosts(n, shape))
                for nodes in groups
            ),
            default=0,
        )
        facts |= {"needs_nodes": needed, "largest_domain_nodes": largest}
        facts["best_group_free"] = _number(best / GPU_MILLI)
        nodes = counted(needed, "node")
        text = f"wants {wanted} ({nodes}) within one {level}"
        if largest < needed:
            text += f"; the largest has {largest}"
        else:
            text += f"; the best one has {_number(best / GPU_MILLI)} free"
        return _Verdict(Lift.TOPOLOGY.value, text, facts)

    def _tell_island(self, job: Job, wanted: str, facts: dict[str, FactValue]) -> _Verdict:
        shape = _main_shape(self._problem, job)
        free = {
            (node.name, part): sum(self._after[node.name].gpu_left[gpu] for gpu in part)
            for node in self._problem.nodes
            if set(refusals(node, shape)) <= {"no-nvlink-set"}
            for part in parts_now(node, self._after[node.name])
        }
        best = max(free.values(), default=0) / GPU_MILLI
        facts["best_group_free"] = _number(best)
        text = f"wants {wanted} within one NVLink island; the best one has {_number(best)} free"
        return _Verdict(Lift.TOPOLOGY.value, text, facts)

    def _best_link(self, shape: Shape, states: States) -> str:
        links: list[Link] = []
        for node in self._problem.nodes:
            if set(refusals(node, shape)) <= {"no-nvlink-set"}:
                idle = idle_allowed(node, shape, states[node.name])
                pairs = ((a, b) for a in idle for b in idle if a < b)
                links += [node.topology.link(a, b) for a, b in pairs]
        return str(min(links, key=lambda link: link.rank)) if links else "none"

    def _free_by_model(self, shape: Shape, states: States) -> tuple[float, float]:
        mine = others = 0
        for node in self._problem.nodes:
            if set(refusals(node, shape)) <= {"model-mismatch", "impossible"}:
                for gpu, left in enumerate(states[node.name].gpu_left):
                    if node.topology.gpu_models[gpu] in shape.gpu_models:
                        mine += left
                    else:
                        others += left
        return mine / GPU_MILLI, others / GPU_MILLI

    # -- partners, several rules at once ------------------------------------------------------

    def _partner(self, job: Job) -> _Verdict | None:
        """The job fits, but not the jobs that it must start together with."""
        if job.start_group is None or not self._room(self._after, job).fits:
            return None
        group = self._problem.start_groups[job.start_group]
        others = [waiting_part(other, self._plan) for other in group if other.name != job.name]
        for other in others:
            if not self._room(self._after, other).fits:
                text = f"starts only together with {other.name}, which has no room"
                return _Verdict(f"waits-for-{other.name}", text, {})
        for other in others:
            if self._limited(other):
                text = f"starts only together with {other.name}, whose queue is at its limit"
                return _Verdict(f"waits-for-{other.name}", text, {})
        if not others:
            return None
        names = ", ".join(other.name for other in others)
        text = f"starts only together with {names}; not all of them can start at once"
        return _Verdict(f"waits-for-{others[0].name}", text, {})

    def _nowhere(self, job: Job) -> _Verdict | None:
        """No node would take a replica even when empty: the rules that stand in the way."""
        for role in job.roles:
            if any(hosts(node, role.shape) for node in self._problem.nodes):
                continue
            found = [refusals(node, role.shape) for node in self._problem.nodes]
            closest = min(found, key=len, default=())
            reason = next((r for r in closest if r in {lift.value for lift in WHERE}), None)
            if reason is None:
                continue
            names = ", ".join(sorted({r for rules in found for r in rules}))
            return _Verdict(reason, f"no node would take it, even empty ({names})", {})
        return None

    # -- amounts ------------------------------------------------------------------------------

    def _slices(self, job: Job) -> _Verdict:
        """Slices: how many GPUs have room for one, and what else there is."""
        shape = _main_shape(self._problem, job)
        wish = metrics.shape_label(shape)
        roomy = sum(fit(n, shape, self._after[n.name]) for n in self._problem.nodes)
        free = free_slots(self._problem, self._after, shape)
        short = roomy == 0 and free == 0
        limit = self._problem.most_recut_gpus
        text = f"wants {wish}; no GPU that may be cut has free slots"
        if not short:
            slots = "1 memory slot is" if free == 1 else f"{free} memory slots are"
            text = f"wants {wish}; {slots} free, but not where such slices begin"
        if roomy and limit is not None:
            gpus = counted(limit, "GPU")
            text = f"wants {wish}; a plan may change the geometry of {gpus}"
        elif roomy:
            text = f"wants {wish} in {job.min_replicas} replicas; room for {roomy}"
        facts: dict[str, FactValue] = {"free_slots": free, "room": roomy}
        return _Verdict("gpu-short" if short else "gpu-fragmented", text, facts)

    def _fair_share(self, job: Job) -> _Verdict | None:
        """What is missing is with other queues, and taking it would be more than a fair share."""
        problem = self._problem
        needs = self._need(job, "gpu_milli")
        if "fair_share" not in problem.preempt_for or not needs:
            return None
        used = metrics.usage(problem, self._plan)
        free = self._free(_main_shape(problem, job)) * GPU_MILLI
        found: _Verdict | None = None
        for member in problem.queue_tree.path[job.queue]:
            peers = problem.queue_tree.families[member.family]
            others = sum(
                metrics.member_usage(peer, used)["gpu_milli"]
                for peer in peers
                if peer is not member and peer.priority <= member.priority
            )
            if not free < needs <= free + others:
                continue
            entitled = self._entitled[member.name]["gpu_milli"]
            mine = metrics.member_usage(member, used)["gpu_milli"]
            if mine + needs <= entitled:
                return None
            has, share, wants = (_amount("gpu_milli", n) for n in (mine, entitled, needs))
            who = member.queues[0] if member.is_own else member.name
            text = (
                f"wants {wants}; {_number(free / GPU_MILLI)} free, and queue {who}, which has"
                f" {has}, may take from others only up to its share of {share}"
            )
            facts: dict[str, FactValue] = {"entitled": entitled, "held": mine, "wanted": needs}
            found = found or _Verdict("fair-share", text, facts)
        return found

    def _beyond_claim(self, job: Job) -> _Verdict | None:
        """There is room, which work has left for what is guaranteed; the job would take more."""
        if not self._gave_way or not self._room(self._after, job).fits:
            return None
        first, *more = self._gave_way
        others = f" and {len(more)} more" if more else ""
        text = (
            f"there is room, as {first}{others} gave way to what others are guaranteed or entitled"
            " to; with this job they would hold more than that"
        )
        return _Verdict("fair-share", text, {})

    @cached_property
    def _entitled(self) -> metrics.Entitlements:
        return member_entitlements(self._problem)

    def _amounts(self, job: Job) -> _Verdict:
        shape = _main_shape(self._problem, job)
        room = self._room(self._after, job)
        for rule in () if room.fits else AMOUNTS:
            if self._room(self._after, lifted(job, [rule])).fits:
                return self._tell_scarce(job, rule, shape)
        if shape.slices:
            return self._slices(job)
        if not shape.wants_gpu:
            cpu_fits = self._room(self._after, lifted(job, [Lift.CPU])).fits
            return self._tell_scarce(job, Lift.MEMORY if cpu_fits else Lift.CPU, shape)
        needs = self._need(job, "gpu_milli") / GPU_MILLI
        free = self._free(shape)
        if free < needs:
            each = "" if job.gang or job.replicas == 1 else " for each replica"
            text = f"wants {counted(_number(needs), 'GPU')}{each}; {_number(free)} free"
            return _Verdict("gpu-short", text, {"short": _number(needs - free)})
        placed = room.placed
        best = self._best_node(shape)
        per_replica = _wish(replace(plain(job.roles[0]), cpu_milli=0, memory_mib=0))
        if job.min_replicas == 1:
            text = f"wants {per_replica} on one node; {_number(free)} free, at most {best} on one"
        else:
            text = (
                f"wants {counted(_number(needs), 'GPU')} in {job.min_replicas} replicas; "
                f"{_number(free)} free, but only {counted(sum(placed.values()), 'replica')} fit"
            )
        return _Verdict("gpu-fragmented", text, {})

    def _tell_scarce(self, job: Job, rule: Lift, shape: Shape) -> _Verdict:
        resource: ResourceName = "cpu_milli" if rule is Lift.CPU else "memory_mib"
        without = _main_shape(self._problem, lifted(job, [rule]))
        able = np.flatnonzero(self._stock.most(without))
        lefts = (_left(self._stock.states[n], resource) for n in able)
        most = max((left for left in lefts if left is not None), default=0)
        asked = self._problem.amount(shape, resource)
        where = "where its GPUs are free" if shape.wants_gpu else "on any node"
        text = (
            f"wants {_amount(resource, asked)} per replica; "
            f"at most {_amount(resource, most)} left {where}"
        )
        return _Verdict(rule.value, text, {f"needs_{resource}": asked, f"best_{resource}": most})

    # -- facts --------------------------------------------------------------------------------

    def _facts(self, job: Job) -> dict[str, FactValue]:
        shape = _main_shape(self._problem, job)
        free = self._free(shape)
        facts: dict[str, FactValue] = {
            "needs": _number(self._need(job, "gpu_milli") / GPU_MILLI),
            "free": _number(free),
            "best_node_free": self._best_node(shape),
        }
        if shape.gpu_models:
            mine, others = self._free_by_model(shape, self._after)
            facts |= {"free_of_model": _number(mine), "free_of_other_models": _number(others)}
        return facts

    def _holds(self, job: Job) -> FactValue:
        held = sum(len(p.gpus) * p.share_milli for p in self._plan.by_job.get(job.name, ()))
        return _number(held / GPU_MILLI)

    def _free(self, shape: Shape, states: States | None = None) -> float:
        """GPUs left on nodes that would host the shape, after the plan or in other states."""
        stock = self._stock if states is None else self._stock_of(states)
        return int(stock.milli[stock.hosts(shape)].sum()) / GPU_MILLI

    def _best_node(self, shape: Shape) -> FactValue:
        free = self._stock.milli[self._stock.hosts(shape)]
        return _number(int(free.max(initial=0)) / GPU_MILLI)

    def _at_turn(self, job: Job) -> States:
        """What the job would find if only those that rank before it had started.

        Replicas of its own that start are independent of those that wait, and come first too.
        """
        rank = self.rank(job)
        while self._coming and self._coming[0][0] <= rank:
            _, p = self._coming.popleft()
            shape = self._problem.role_by_key[RoleKey(p.job, p.role)].shape
            number = self._number[p.node]
            self._turn_stock.put(shape, Seat(number, p.gpus, p.share_milli))
            self._turn[p.node] = self._turn_stock.states[number]
        return self._turn

    def rank(self, job: Job) -> tuple[int, int]:
        return rank(self._problem, job)


def rank(problem: Problem, job: Job) -> tuple[int, int]:
    """The turn of a job among all that wait: by priority, then age, its start group's best."""
    members = problem.start_groups.get(job.start_group or "", (job,))
    oldest = min(problem.position[member.name] for member in members)
    return (-max(member.priority for member in members), oldest)


def _opened(node: Node) -> Node:
    """The node as if it were ready, uncordoned and without taints."""
    return replace(node, ready=True, cordoned=False, taints=(), unhealthy_gpus=frozenset())


def _asks(job: Job, rule: Lift) -> bool:
    """Whether the job has that rule at all; every job can be kept out by a taint."""
    shapes = [role.shape for role in job.roles]
    match rule:
        case Lift.LABEL:
            return any(shape.node_selector for shape in shapes)
        case Lift.LINK:
            return any(shape.link == "required" for shape in shapes)
        case Lift.TOPOLOGY:
            return job.topology is not None and job.topology.required
        case Lift.SPREAD:
            return job.spread is not None
        case Lift.SHARE_GROUP:
            return any(shape.is_share for shape in shapes)
        case Lift.MODEL:
            return any(shape.gpu_models for shape in shapes)
        case _:
            return True


def _main_shape(problem: Problem, job: Job) -> Shape:
    """The shape of the role that asks for most GPUs."""
    return max(job.roles, key=lambda role: problem.gpu_milli(role.shape)).shape


def lifted_shape(job: Job, rule: Lift, problem: Problem) -> Shape:
    """The main shape of the job without a rule."""
    return _main_shape(problem, lifted(job, [rule]))


def _wish(shape: Shape) -> str:
    """What a replica asks for, in a sentence."""
    label = metrics.shape_label(shape)
    return label.replace(" GPU", " GPUs", 1) if shape.gpus > 1 else label


def _with_ancestors(problem: Problem, name: str) -> list[Queue]:
    found: list[Queue] = []
    above: str | None = name
    while above is not None and above not in {queue.name for queue in found}:
        queue = problem.queue_by_name[above]
        found.append(queue)
        above = queue.parent
    return found


def _left(state: NodeState, resource: ResourceName) -> int | None:
    return state.cpu_left if resource == "cpu_milli" else state.memory_left


def _amount(resource: ResourceName, amount: int) -> str:
    if resource == "gpu_milli":
        return f"{amount / GPU_MILLI:g} {'GPU' if amount == GPU_MILLI else 'GPUs'}"
    return f"{amount / 1000:g} CPU" if resource == "cpu_milli" else f"{amount / 1024:g} GiB"


def _number(value: float) -> int | float:
    """Whole numbers as integers, so that they are printed and compared as such."""
    return int(value) if value == int(value) else round(value, 3)
