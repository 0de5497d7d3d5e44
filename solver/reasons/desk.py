"""What a waiting job is held against: the states that a plan leaves, and that of the job's turn."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from functools import cached_property

from solver import metrics
from solver.cluster import GPU_MILLI, Node
from solver.fair_share import member_entitlements
from solver.fit import refusals
from solver.problem import Problem, RoleKey
from solver.reasons.turn import rank
from solver.reasons.verdict import number
from solver.result import FactValue
from solver.room import Room, room_for
from solver.slices import unused
from solver.solution import Plan
from solver.state import States, apply, empty_state, initial_states
from solver.stock import Seat, Stock
from solver.workload import Job, ResourceName, Shape


class Desk:
    """One plan, and what is left under it; jobs are to be asked for in the order of their turns.

    Attributes
    ----------
    gave_way
        Names of running jobs that the plan stops or moves.
    opened
        Kinds of nodes, as if they were empty, ready and without taints, with how many there are.
    tainted
        Whether any node keeps jobs out.
    after, stock
        What the plan leaves, by node and as a table.
    """

    def __init__(self, problem: Problem, plan: Plan, gave_way: tuple[str, ...]) -> None:
        self.problem = problem
        self.plan = plan
        self.gave_way = gave_way
        before = initial_states(problem)
        self._number = {node.name: at for at, node in enumerate(problem.nodes)}
        self.tainted = any(taint.repels for node in problem.nodes for taint in node.taints)
        self.opened = Counter(_opened(node).kind for node in problem.nodes)
        self.after = apply(problem, before, plan.placements)
        self.stock = Stock(problem, self.after)
        self._turn = dict(before)
        self._turn_stock = Stock(problem, self._turn)
        ranked = ((rank(problem, problem.job_by_name[p.job]), p) for p in plan.placements)
        self._without: dict[tuple[str, int], States] = {}
        self._coming = deque(sorted(ranked, key=lambda pair: pair[0]))

    @cached_property
    def empty(self) -> States:
        """The nodes as they are, with nothing in use on them."""
        return {node.name: empty_state(unused(node)) for node in self.problem.nodes}

    @cached_property
    def _empty_stock(self) -> Stock:
        return Stock(self.problem, self.empty)

    @cached_property
    def entitled(self) -> metrics.Entitlements:
        """What each member of the tree of queues is entitled to."""
        return member_entitlements(self.problem)

    @cached_property
    def used(self) -> metrics.Usage:
        """What each queue holds under the plan."""
        return metrics.usage(self.problem, self.plan)

    def at_turn(self, job: Job) -> States:
        """What the job would find if only those that rank before it had started.

        Replicas of its own that start are independent of those that wait, and come first too.
        """
        turn = rank(self.problem, job)
        while self._coming and self._coming[0][0] <= turn:
            _, p = self._coming.popleft()
            shape = self.problem.role_by_key[RoleKey(p.job, p.role)].shape
            at = self._number[p.node]
            self._turn_stock.put(shape, Seat(at, p.gpus, p.share_milli))
            self._turn[p.node] = self._turn_stock.states[at]
        return self._turn

    def before_others(self, job: Job) -> States:
        """What there would be if nothing of other queues had started that is no more urgent."""
        key = (job.queue, job.priority)
        if key not in self._without:
            jobs = self.problem.job_by_name
            kept = (
                p
                for p in self.plan.placements
                if jobs[p.job].queue == job.queue or jobs[p.job].priority > job.priority
            )
            self._without[key] = apply(self.problem, initial_states(self.problem), kept)
        return self._without[key]

    def room(self, states: States, job: Job) -> Room:
        """How much of a job finds room in the states of the plan or of a turn."""
        started = self.plan.by_job.get(job.name, ())
        return room_for(self.problem, states, job, started, self._stock_of(states))

    def need(self, job: Job, resource: ResourceName) -> int:
        """What starts only whole: the minimum of a gang, one replica of each role of others."""
        return sum(
            (role.min_replicas if job.gang else 1) * self.problem.amount(role.shape, resource)
            for role in job.roles
        )

    def free(self, shape: Shape, states: States | None = None) -> float:
        """GPUs left on nodes that would host the shape, after the plan or in other states."""
        stock = self.stock if states is None else self._stock_of(states)
        return int(stock.milli[stock.hosts(shape)].sum()) / GPU_MILLI

    @cached_property
    def free_anywhere(self) -> float:
        """GPUs that the plan leaves on nodes that take anything new."""
        after = self.after
        left = (after[node.name].free_milli for node in self.problem.nodes if node.schedulable)
        return sum(left) / GPU_MILLI

    def free_by_model(self, shape: Shape, states: States) -> tuple[float, float]:
        """GPUs left of the models that a shape wants, and of others on nodes that would host it."""
        mine = others = 0
        for node in self.problem.nodes:
            if set(refusals(node, shape)) <= {"model-mismatch", "impossible"}:
                for gpu, left in enumerate(states[node.name].gpu_left):
                    if node.topology.gpu_models[gpu] in shape.gpu_models:
                        mine += left
                    else:
                        others += left
        return mine / GPU_MILLI, others / GPU_MILLI

    def best_node(self, shape: Shape) -> FactValue:
        """GPUs left on the node that has most, of those that would host the shape."""
        free = self.stock.milli[self.stock.hosts(shape)]
        return number(int(free.max(initial=0)) / GPU_MILLI)

    def _stock_of(self, states: States) -> Stock:
        if states is self.after:
            return self.stock
        # Nodes that have no room when empty are passed over in all other states too.
        return self._turn_stock if states is self._turn else self._empty_stock


def _opened(node: Node) -> Node:
    """The node as if it were ready, uncordoned, without taints and failures, and not in use."""
    return replace(unused(node), ready=True, cordoned=False, taints=(), unhealthy_gpus=frozenset())
