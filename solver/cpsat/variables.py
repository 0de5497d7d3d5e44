"""The decision variables and what each means.

``x[role, node]``
    Replicas of a role that start on a node (integer). Replicas are alike, so they are counted.
    A variable exists only where the node could take at least one in its present state. Where
    nodes are merged, the node stands for a class of interchangeable ones.
    Of a role that runs already, those that stay there.
``start[job]``
    The gang starts (Boolean); replicas then lie between each role's minimum and its size. Of work
    that runs already: something of it is left.

Which GPUs a replica gets is decided by variables of `constraints.gpu_sets` and
`constraints.shares`, and only on nodes where it matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property

from ortools.sat.python import cp_model

from solver import fit as fits
from solver.aggregate.classes import merged_nodes, never_binds, single_nodes
from solver.cluster import Node
from solver.cpsat.view import PlanView
from solver.linear import Expr
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.state import NodeState, initial_states
from solver.tiers import startable
from solver.workload import Job, ResourceName, Role

Valuation = Callable[[PlanView], int]


class BuildTimeoutError(Exception):
    """The model could not be built within its time; nothing is lost but the search."""


class Variables:
    """The model under construction with its variables, each with its value in any given plan.

    Parameters
    ----------
    check_time
        Called now and then while building; raises `BuildTimeoutError` when time is up.
    merge
        Count over classes of interchangeable nodes rather than over nodes.
    """

    def __init__(
        self,
        problem: Problem,
        check_time: Callable[[], None] = lambda: None,
        *,
        merge: bool = False,
    ) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.check_time = check_time
        self.merged = merge
        self.states = initial_states(problem)
        self.classes = merged_nodes(problem, self.states) if merge else single_nodes(problem)
        self.nodes = tuple(nodes.representative for nodes in self.classes)
        self._sizes = {nodes.representative.name: nodes.size for nodes in self.classes}
        self._stands_for = {
            node.name: nodes.representative.name for nodes in self.classes for node in nodes.nodes
        }
        self.x: dict[tuple[RoleKey, str], cp_model.IntVar] = {}
        self.start: dict[str, cp_model.IntVar] = {}
        self._valuations: list[tuple[cp_model.IntVar, Valuation]] = []
        self._most: dict[int, int] = {}
        self._by_role: dict[RoleKey, list[tuple[Node, cp_model.IntVar]]] = {}
        self._by_node: dict[str, list[tuple[Job, Role, cp_model.IntVar]]] = {}
        self._highs: dict[tuple[RoleKey, str], int] = {}
        self._high_by_index: dict[int, int] = {}
        self._add_counts()

    def integer(self, name: str, low: int, high: int, value: Valuation) -> cp_model.IntVar:
        """A new integer variable and how to read its value off a plan."""
        variable = self.model.new_int_var(low, high, name)
        self._valuations.append((variable, value))
        self._most[variable.index] = high
        return variable

    def boolean(self, name: str, value: Valuation) -> cp_model.IntVar:
        """A new Boolean and how to read its value off a plan."""
        variable = self.model.new_bool_var(name)
        self._valuations.append((variable, value))
        return variable

    def hint(self, plan: Plan) -> None:
        """Suggest a plan to the solver: a value for every single variable."""
        view = PlanView(self.problem, plan, self._stands_for)
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in self._valuations:
            self.model.add_hint(variable, int(value(view)))

    def require(self, expr: Expr, low: int | None, high: int | None) -> None:
        """Add ``low <= expr <= high``."""
        if isinstance(expr, int):  # nothing in it can be decided
            if not (low is None or low <= expr) or not (high is None or expr <= high):
                self.model.add_bool_or([])
            return
        bottom = cp_model.INT_MIN if low is None else low
        top = cp_model.INT_MAX if high is None else high
        self.model.add_linear_constraint(expr, bottom, top)

    def counts(self, job: Job, role: Role) -> list[tuple[Node, cp_model.IntVar]]:
        """The nodes that could take replicas of a role, with their count variables."""
        return self._by_role.get(RoleKey(job.name, role.name), [])

    def on_node(self, node: Node) -> list[tuple[Job, Role, cp_model.IntVar]]:
        """The roles that could start replicas on a node, with their count variables."""
        return self._by_node.get(node.name, [])

    def high(self, job: Job, role: Role, node: Node) -> int:
        """Most replicas of a role that the node takes in its present state."""
        return self._highs.get((RoleKey(job.name, role.name), node.name), 0)

    def high_of(self, x: cp_model.IntVar) -> int:
        """Most that a count can be."""
        return self._high_by_index[x.index]

    def most_of(self, variable: cp_model.IntVar) -> int:
        """Most that an integer variable can be."""
        return self._most[variable.index]

    @cached_property
    def busy_nodes(self) -> tuple[Node, ...]:
        """Nodes (each for its class) on which anything could start."""
        return tuple(node for node in self.nodes if node.name in self._by_node)

    def size(self, node: Node) -> int:
        """How many interchangeable nodes a node stands for."""
        return self._sizes[node.name]

    def state(self, node: Node) -> NodeState:
        """What a node has left before the plan."""
        return self.states[node.name]

    def left(self, node: Node, resource: ResourceName) -> int | None:
        """Milli-CPU or MiB left on a node before the plan; None where there is no limit."""
        state = self.state(node)
        return state.cpu_left if resource == "cpu_milli" else state.memory_left

    def overfull(self, node: Node, resource: ResourceName) -> int:
        """By how much work in question exceeds what is left for it, if nobody gives way."""
        left = self.left(node, resource)
        if left is None:
            return 0
        held = sum(
            self.problem.amount(role.shape, resource) * self.high(job, role, node)
            for job, role, _ in self.on_node(node)
            if role.held
        )
        return max(0, held - left)

    def _add_counts(self) -> None:
        rooms = startable(self.problem)
        for job, role in self.problem.roles():
            key = RoleKey(job.name, role.name)
            if not rooms.get(key):
                continue
            self.check_time()
            if role.held:
                self._add_held(job, role, key)
                continue
            for node in self.nodes:
                if fits.hosts(node, role.shape):
                    room = self.size(node) * fits.fit(node, role.shape, self.states[node.name])
                    high = min(role.replicas, room)
                    if high > 0:
                        self._add_count(job, role, key, node, high)
        self._add_starts()

    def _add_starts(self) -> None:
        for job in self.problem.jobs:
            if job.gang:
                self.start[job.name] = self.boolean(f"start[{job.name}]", _starts(job.name))

    def _add_held(self, job: Job, role: Role, key: RoleKey) -> None:
        """Replicas that run already are counted where they are, whatever the node is like now."""
        there = Counter(replica.node for replica in role.held)
        for node in self.nodes:
            if there[node.name]:
                self._add_count(job, role, key, node, there[node.name])

    def _add_count(
        self,
        job: Job,
        role: Role,
        key: RoleKey,
        node: Node,
        high: int,
        value: Valuation | None = None,
    ) -> None:
        place = (key, node.name)
        variable = self.integer(
            f"x[{key.job}/{key.role},{node.name}]",
            0,
            high,
            value or (lambda view: view.count.get(place, 0)),
        )
        self.x[place] = variable
        self._highs[place] = high
        self._high_by_index[variable.index] = high
        self._by_role.setdefault(key, []).append((node, variable))
        self._by_node.setdefault(node.name, []).append((job, role, variable))


def _starts(job: str) -> Valuation:
    return lambda view: int(view.starts(job))


def never_short(variables: Variables, node: Node, resource: ResourceName) -> bool:
    """Whether a resource cannot run out before the node's GPUs, for work and reference alike."""
    problem = variables.problem
    return never_binds(
        problem,
        node,
        variables.state(node),
        resource,
        [role.shape for _, role, _ in variables.on_node(node)],
        [shape for shape, _ in problem.reference if fits.hosts(node, fits.strictly_linked(shape))],
    )
