"""Where running work may give way, named nodes only for what runs; what starts is counted in pools.

A *pool* is the nodes that could host the same roles. Which of its nodes a replica gets does not
matter to who starts and who gives way, only that there is room: with ``free_n`` the GPUs of node n
that no staying work holds, and ``blocks[n, s]`` (integer) its free blocks of s GPUs::

    s * blocks[n, s] <= free_n
    for every size s:  sum over roles r of (gpus_r // s) * x[r, pool] <= sum_n blocks[n, s]

A replica of g GPUs on a node uses up ``g // s`` of its blocks, so every plan keeps this: bounds of
this model hold for the question itself. Where sizes form a chain in which each divides the next
and nothing but GPUs runs out, the converse holds too (`solver.aggregate.classes`). Elsewhere
`named` may find no places for what the model counts, and the model of named nodes decides.

Strengthening, for work that stays with g GPUs per replica, h of them on the node, f GPUs there::

    blocks[n, s] + sum(g // s) * x <= f // s
    h * blocks[n, s] + (f // s - (f - g) // s) * x <= h * (f // s)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from ortools.sat.python import cp_model

from solver.aggregate.classes import NodeClass
from solver.cluster import Node
from solver.cpsat.constraints.gang import add_gangs
from solver.cpsat.constraints.giving_way import add_giving_way
from solver.cpsat.constraints.keep import add_keep
from solver.cpsat.constraints.limits import add_queue_limits
from solver.cpsat.constraints.start_groups import add_start_groups
from solver.cpsat.devices import held_there, usable
from solver.cpsat.extract import ValueOf
from solver.cpsat.model import LOOKS_AT_NODES, StepExpressions
from solver.cpsat.variables import Valuation, Variables
from solver.cpsat.view import PlanView
from solver.fit import fit, hosts, pick_gpus, share_milli_on
from solver.linear import Expr, weighted
from solver.problem import Problem, RoleKey
from solver.solution import Placement, Plan
from solver.state import NodeState
from solver.tiers import Ruler, Step, startable
from solver.workload import Job, Role

RULES = (add_gangs, add_start_groups, add_queue_limits, add_keep, add_giving_way)


def applies(problem: Problem) -> bool:
    """Whether running work is in question and what starts only needs whole GPUs, anywhere.

    Pools do not count the GPUs that leave MIG mode, so a limit on those is left to named nodes.
    """
    if problem.most_recut_gpus is not None and problem.may_recut:
        return False
    return any(job.running is not None for job in problem.jobs) and all(
        not (role.shape.is_share or role.shape.slices)
        and job.spread is None
        and (job.topology is None or not job.topology.required)
        for job, role in problem.roles()
    )


def decides(step: Step) -> bool:
    """Whether the value of a step can be told without naming nodes."""
    return step.kind not in LOOKS_AT_NODES


class PooledVariables(Variables):
    """Counts of what stays by node, and of what starts by pool."""

    def _add_counts(self) -> None:
        rooms = startable(self.problem)
        roles = [
            (job, role)
            for job, role in self.problem.roles()
            if rooms.get(RoleKey(job.name, role.name))
        ]
        self.pools = _pools(self, [role for _, role in roles if not role.held])
        for job, role in roles:
            self.check_time()
            key = RoleKey(job.name, role.name)
            if role.held:
                self._add_held(job, role, key)
                continue
            for pool in self.pools:
                room = sum(self._room(node, role) for node in pool.nodes)
                if room:
                    self._add_pooled(job, role, key, pool, min(role.replicas, room))
        self._add_starts()

    def _room(self, node: Node, role: Role) -> int:
        shape = role.shape
        return fit(node, shape, self.states[node.name]) if hosts(node, shape) else 0

    def _add_pooled(self, job: Job, role: Role, key: RoleKey, pool: NodeClass, high: int) -> None:
        names = [node.name for node in pool.nodes]
        self._add_count(
            job,
            role,
            key,
            pool.representative,
            high,
            lambda view: sum(view.count.get((key, name), 0) for name in names),
        )


def _pools(variables: Variables, roles: list[Role]) -> tuple[NodeClass, ...]:
    """The nodes by the shapes that they have room for if all that may give way does."""
    shapes = list(dict.fromkeys(role.shape for role in roles))
    members: dict[Hashable, list[Node]] = {}
    for node in variables.nodes:
        state = variables.states[node.name]
        key = tuple(shape for shape in shapes if hosts(node, shape) and fit(node, shape, state))
        if key:
            members.setdefault(key, []).append(node)
    return tuple(NodeClass(tuple(nodes)) for nodes in members.values())


class PooledModel(StepExpressions):
    """The model of a question with running work in it, in which what starts has no node yet."""

    variables: PooledVariables

    def __init__(self, problem: Problem, ruler: Ruler) -> None:
        super().__init__(PooledVariables(problem), ruler)
        for rule in RULES:
            rule(self.variables)
        for pool in self.variables.pools:
            _add_blocks(self.variables, pool)

    def named(self, value_of: ValueOf) -> Plan | None:
        """The counts of a solution on nodes, largest first; None where they do not fit."""
        return _named(self.variables, value_of)


def _add_blocks(variables: PooledVariables, pool: NodeClass) -> None:
    new = [(x, r.shape.gpus) for _, r, x in variables.on_node(pool.representative) if not r.held]
    new = [(x, gpus) for x, gpus in new if gpus]
    for size in sorted({gpus for _, gpus in new}):
        blocks = [_blocks(variables, node, size) for node in pool.nodes]
        uses: list[tuple[Expr, int]] = [(x, gpus // size) for x, gpus in new if gpus >= size]
        variables.require(weighted([*uses, *((count, -1) for count in blocks)]), None, 0)
    if new:
        held = [(x, g) for n in pool.nodes for x, g, _ in _held(variables, n)]
        idle = sum(len(variables.state(node).idle_gpus) for node in pool.nodes)
        variables.require(weighted([*new, *held]), None, idle)


def _held(variables: Variables, node: Node) -> list[tuple[cp_model.IntVar, int, int]]:
    """What may stay on a node: its count, the GPUs of a replica, and how many there are."""
    return [
        (x, role.shape.gpus, variables.high_of(x))
        for _, role, x in variables.on_node(node)
        if role.held and role.shape.gpus
    ]


def _blocks(variables: PooledVariables, node: Node, size: int) -> Expr:
    """Free blocks of a size on a node, once it is known what stays."""
    idle = len(variables.state(node).idle_gpus)
    held = _held(variables, node)
    most = idle // size
    if not held or not most:
        return most
    count = variables.integer(
        f"blocks[{node.name},{size}]", 0, most, _free_blocks(node.name, idle, size)
    )
    variables.require(weighted([(count, size), *((x, gpus) for x, gpus, _ in held)]), None, idle)
    if size == 1:
        return count
    variables.require(weighted([(count, 1), *((x, g // size) for x, g, _ in held)]), None, most)
    for x, gpus, high in held:
        lost = most - (idle - gpus) // size
        if lost:
            variables.require(weighted([(count, high), (x, lost)]), None, high * most)
    return count


def _free_blocks(name: str, idle: int, size: int) -> Valuation:
    def value(view: PlanView) -> int:
        stays = sum(len(p.gpus) for p in view.on(name) if view.role(p).held)
        return (idle - stays) // size

    return value


def _named(variables: PooledVariables, value_of: ValueOf) -> Plan | None:
    states = dict(variables.states)
    numbers: Counter[RoleKey] = Counter()
    placements: list[Placement] = []

    def place(job: Job, role: Role, node: Node, gpus: tuple[int, ...], milli: int) -> None:
        key = RoleKey(job.name, role.name)
        placements.append(Placement(job.name, role.name, numbers[key], node.name, gpus, milli))
        numbers[key] += 1

    wanted: list[tuple[Job, Role, NodeClass]] = []
    for pool in variables.pools:
        for job, role, x in variables.on_node(pool.representative):
            if not role.held:
                wanted += [(job, role, pool)] * value_of(x)
    for node in variables.nodes:
        for job, role, x in variables.on_node(node):
            if role.held:
                for replica in held_there(role, node)[: value_of(x)]:
                    gpus = usable(node, replica)
                    milli = replica.share_milli if gpus else 0
                    states[node.name] = states[node.name].take(
                        gpus, milli, replica.cpu_milli, replica.memory_mib
                    )
                    place(job, role, node, gpus, milli)
    for job, role, pool in sorted(wanted, key=lambda entry: -entry[1].shape.gpus):
        found = _tightest(role, pool, states)
        if found is None:
            return None
        gpus_of = pick_gpus(found, role.shape, states[found.name])
        assert gpus_of is not None
        milli = share_milli_on(found, role.shape, gpus_of[0]) if gpus_of else 0
        states[found.name] = states[found.name].place(role.shape, gpus_of, milli)
        place(job, role, found, gpus_of, milli)
    return Plan.of(placements)


def _tightest(role: Role, pool: NodeClass, states: dict[str, NodeState]) -> Node | None:
    """The node of the pool with least free that takes the replica."""
    homes = (
        node
        for node in sorted(pool.nodes, key=lambda node: states[node.name].free_milli)
        if fit(node, role.shape, states[node.name])
    )
    return next(homes, None)
