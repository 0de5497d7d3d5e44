"""A plan with victims, job by job: a start for the search, and an answer where it cannot search.

For one waiting job after the other the cheapest victims are looked for, replica by replica: on
each node the work that frees a place for one more replica at the least cost per GPU. What turns
out not to be needed is put back. The plan goes on with a job only if it gets better by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from solver.cluster import Node
from solver.fit import fit, hosts, pick_gpus, share_milli_on
from solver.metrics import Usage, member_usage, usage
from solver.preemption.cost import cost_of
from solver.problem import Problem
from solver.queues import Member
from solver.solution import Eviction, Placement, Plan
from solver.state import NodeState, States, states_after
from solver.tiers import Ruler
from solver.verify import verify
from solver.workload import Job, RunningJob, RunningReplica, Shape


@dataclass(frozen=True, slots=True)
class Unit:
    """Replicas that can only go together: one of the surplus, or all that keeps a gang alive."""

    job: RunningJob
    replicas: tuple[int, ...]
    held: tuple[RunningReplica, ...]
    """What they hold, and where; GPUs that have failed are lost to everybody."""

    @property
    def cost_gpu_s(self) -> int:
        """What it costs to stop them."""
        return cost_of(self.job, self.replicas)


def make_way(
    problem: Problem, ruler: Ruler, plan: Plan, is_over: Callable[[], bool] = lambda: False
) -> Plan:
    """A plan at least as good as `plan`, in which running work may be evicted.

    Parameters
    ----------
    is_over
        Asked between jobs; True ends the attempt with what there is.
    """
    best, best_key = plan, ruler.key(plan)
    for job in _in_order(problem, plan):
        if is_over():
            break
        for allowed in _reasons(problem, best, job):
            tried = _with_victims(problem, best, job, allowed)
            if tried is None:
                continue
            key = ruler.key(tried)
            if key > best_key and not verify(problem, tried):
                best, best_key = tried, key
                break
    return best


def _in_order(problem: Problem, plan: Plan) -> list[Job]:
    """Gangs that wait: those with a guarantee to claim first, then by priority and age.

    Start groups and MIG slices are left to the search.
    """
    path = problem.queue_tree.path
    quota = {name for name, members in path.items() if any(member.quota for member in members)}
    waiting = [job for job in problem.pending if job.gang and job.name not in plan.by_job]
    waiting = [job for job in waiting if job.start_group is None]
    waiting = [job for job in waiting if not any(role.shape.slices for role in job.roles)]
    return sorted(waiting, key=lambda job: (job.queue not in quota, -job.priority))


Allowed = Callable[[RunningJob], bool]


def _reasons(problem: Problem, plan: Plan, job: Job) -> Iterator[Allowed]:
    """Whom the job may take from, by each of the listed reasons that holds for it."""
    if "guarantee" in problem.preempt_for:
        claims = [m for m in problem.queue_tree.path[job.queue] if m.quota]
        used = usage(problem, plan) if claims else {}
        for member in reversed(claims):  # The nearest lenders first.
            if _within(problem, used, job, member):
                yield partial(_borrows_from, problem, used, member)
    if "priority" in problem.preempt_for:
        yield lambda running: running.priority < job.priority


def _within(problem: Problem, used: Usage, job: Job, member: Member) -> bool:
    """Whether a member stays within its quota with the whole gang."""
    held = member_usage(member, used)
    return all(
        held[resource]
        + sum(problem.amount(role.shape, resource) * role.min_replicas for role in job.roles)
        <= most
        for resource, most in member.quota.items()
    )


def _borrows_from(problem: Problem, used: Usage, member: Member, running: RunningJob) -> bool:
    """Whether a running job is of a peer of the member that is beyond its own quota."""
    for other in problem.queue_tree.families[member.family]:
        if running.queue in other.queues and other is not member:
            return member_usage(other, used)["gpu_milli"] > other.quota.get("gpu_milli", 0)
    return False


def _with_victims(problem: Problem, plan: Plan, job: Job, allowed: Allowed) -> Plan | None:
    """The plan with the job in it and with what gives way to it; None where that is not enough."""
    units = [unit for unit in _units(problem, plan) if allowed(unit.job)]
    found: list[tuple[int, _Attempt]] = []
    for nodes in _regions(problem, job):
        attempt = _Attempt(problem, states_after(problem, plan), units)
        if attempt.seat(job, nodes):
            attempt.put_back(job)
            found.append((sum(unit.cost_gpu_s for unit in attempt.gone), attempt))
    if not found:
        return None
    _, cheapest = min(found, key=lambda entry: entry[0])
    return _joined(plan, cheapest)


def _regions(problem: Problem, job: Job) -> Iterator[tuple[Node, ...]]:
    """The sets of nodes in one of which the job has to be."""
    rule = job.topology
    if rule is None or not rule.required:
        yield problem.nodes
    else:
        level = "node" if rule.within == "island" else rule.within
        yield from problem.groups[level].values()


def _units(problem: Problem, plan: Plan) -> list[Unit]:
    """What could go, of what the plan leaves; the surplus of elastic jobs piece by piece."""
    units: list[Unit] = []
    for job in problem.running:
        if not job.preemption.allowed:
            continue
        gone = plan.displaced.get(job.name, frozenset())
        left = [n for n in range(len(job.replicas)) if n not in gone]
        surplus = left[max(1, job.floor) :]
        units += [_unit(problem, job, [n]) for n in surplus]
        if core := left[: max(1, job.floor)]:
            units.append(_unit(problem, job, core))
    return units


def _unit(problem: Problem, job: RunningJob, replicas: Sequence[int]) -> Unit:
    held = []
    for replica in (job.replicas[n] for n in replicas):
        usable = problem.node_by_name[replica.node].usable_gpus
        held.append(replace(replica, gpus=tuple(gpu for gpu in replica.gpus if gpu in usable)))
    return Unit(job, tuple(replicas), tuple(held))


class _Attempt:
    """Seats one job, replica by replica, and lets go who is in the way."""

    def __init__(self, problem: Problem, states: States, units: Sequence[Unit]) -> None:
        self.states = dict(states)
        self._problem = problem
        self._before = states
        self._nodes = problem.node_by_name
        self.gone: list[Unit] = []
        self.placements: list[Placement] = []
        self._by_job: dict[str, list[Unit]] = {}
        self._by_node: dict[str, list[Unit]] = {}
        for unit in units:
            self._by_job.setdefault(unit.job.name, []).append(unit)
            for name in {held.node for held in unit.held}:
                self._by_node.setdefault(name, []).append(unit)

    def seat(self, job: Job, nodes: Sequence[Node]) -> bool:
        """Find places for the job's minimum on these nodes."""
        for role in job.roles:
            homes = [node for node in nodes if hosts(node, role.shape)]
            offers = {node.name: self._offer(node, role.shape) for node in homes}
            for replica in range(role.min_replicas):
                open_ = [(offers[node.name], node) for node in homes if offers[node.name]]
                if not open_:
                    return False
                offer, home = min(open_, key=lambda entry: (entry[0] or _NONE).price)
                touched = self._let_go(offer.units if offer else ()) | {home.name}
                gpus = pick_gpus(home, role.shape, self.states[home.name])
                if gpus is None:
                    return False
                milli = share_milli_on(home, role.shape, gpus[0]) if gpus else 0
                place = Placement(job.name, role.name, replica, home.name, gpus, milli)
                self.placements.append(place)
                state = self.states[home.name]
                self.states[home.name] = state.place(role.shape, gpus, milli)
                for node in homes:
                    if node.name in touched:
                        offers[node.name] = self._offer(node, role.shape)
        return True

    def put_back(self, job: Job) -> None:
        """Whoever turns out not to be in the way stays, the dearest first."""
        for unit in sorted(self.gone, key=lambda unit: -unit.cost_gpu_s):
            others = [other for other in self.gone if other.job.name == unit.job.name]
            alone = len(unit.replicas) > 1 or len(others) == 1
            if alone and (self._stays(unit) or self._leaves_room(unit, job)):
                self.gone.remove(unit)

    def _stays(self, unit: Unit) -> bool:
        """Take its places again, if the job has left them free."""
        if not all(self._may_stay(held) for held in unit.held):
            return False
        for held in unit.held:
            self.states[held.node] = _taken(self.states[held.node], held)
        return True

    def _leaves_room(self, unit: Unit, job: Job) -> bool:
        """Seat the job again on the same nodes, on what the others that go have held."""
        again = _Attempt(self._problem, self._before, ())
        again._let_go(other for other in self.gone if other is not unit)
        homes = dict.fromkeys(place.node for place in self.placements)
        if not again.seat(job, [self._nodes[name] for name in homes]):
            return False
        self.states, self.placements = again.states, again.placements
        return True

    def _may_stay(self, held: RunningReplica) -> bool:
        return _has_room(self.states[held.node], held, self._nodes[held.node].compute_limit_milli)

    def _offer(self, node: Node, shape: Shape) -> _Offer | None:
        """The cheapest units, by cost per GPU freed there, that make room for one replica."""
        state = self.states[node.name]
        going: list[Unit] = []
        here = [unit for unit in self._by_node.get(node.name, []) if unit not in self.gone]
        here.sort(key=lambda unit: unit.cost_gpu_s / max(1, _milli_on(unit, node.name)))
        for unit in (None, *here):
            if unit is not None:
                if unit in going:
                    continue
                for member in self._together(unit, going):
                    going.append(member)
                    for held in member.held:
                        if held.node == node.name:
                            state = _given_back(state, held)
            if fit(node, shape, state):
                return _Offer(sum(unit.cost_gpu_s for unit in going), tuple(going), node.name)
        return None

    def _together(self, unit: Unit, going: Sequence[Unit]) -> list[Unit]:
        """The unit, and the surplus of its job where it is what keeps the job alive."""
        if unit is not self._by_job[unit.job.name][-1]:
            return [unit]
        return [u for u in self._by_job[unit.job.name] if u not in self.gone and u not in going]

    def _let_go(self, units: Iterable[Unit]) -> set[str]:
        touched: set[str] = set()
        for unit in units:
            self.gone.append(unit)
            for held in unit.held:
                self.states[held.node] = _given_back(self.states[held.node], held)
                touched.add(held.node)
        return touched


@dataclass(frozen=True, slots=True)
class _Offer:
    """What has to go for one more replica on a node."""

    cost_gpu_s: int
    units: tuple[Unit, ...]
    node: str

    @property
    def price(self) -> tuple[int, int, str]:
        """Offers compare by cost, then by how many go."""
        return (self.cost_gpu_s, len(self.units), self.node)


_NONE = _Offer(0, (), "")


def _milli_on(unit: Unit, node: str) -> int:
    return sum(held.gpu_milli for held in unit.held if held.node == node)


def _given_back(state: NodeState, held: RunningReplica) -> NodeState:
    return state.free(
        held.gpus, held.share_milli, held.cpu_milli, held.memory_mib, held.compute_milli
    )


def _taken(state: NodeState, held: RunningReplica) -> NodeState:
    return state.take(
        held.gpus,
        held.share_milli,
        held.cpu_milli,
        held.memory_mib,
        held.share_group,
        held.compute_milli,
    )


def _has_room(state: NodeState, held: RunningReplica, compute_limit_milli: int) -> bool:
    return (
        all(
            state.gpu_left[gpu] >= held.share_milli
            and state.joins(gpu, held.share_group)
            and state.compute_left(gpu, compute_limit_milli)
            >= (held.compute_milli or held.share_milli)
            for gpu in held.gpus
        )
        and (state.cpu_left is None or state.cpu_left >= held.cpu_milli)
        and (state.memory_left is None or state.memory_left >= held.memory_mib)
    )


def _joined(plan: Plan, attempt: _Attempt) -> Plan:
    gone: dict[str, set[int]] = {e.job: set(e.replicas) for e in plan.evictions}
    for unit in attempt.gone:
        gone.setdefault(unit.job.name, set()).update(unit.replicas)
    evictions = [Eviction(job, tuple(sorted(numbers))) for job, numbers in gone.items()]
    return Plan.of([*plan.placements, *attempt.placements], evictions, plan.moves)
