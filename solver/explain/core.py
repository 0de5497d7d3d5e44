"""A minimal set of rules that cannot hold together, found with assumptions and proved by solving.

1. A small model of one job has an enforcement literal for each rule. Solved with all of them as
   assumptions (no presolve, no objective: with either CP-SAT names too many), it returns a set of
   them that is enough to exclude the job. It counts over nodes that are alike, so it may be too
   lenient where roles compete for very definite GPUs.
2. The placement model itself, with only the rules of that set, has the last word: if the job could
   start after all, all rules are taken instead.
3. Rule after rule is left out for good where the job still cannot start without it.

Of a job that is impossible only rules that stay are asked: what is held now, or out of order, may
be enough to keep it waiting too, but is not what has to change.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import chain, combinations

from ortools.sat.python import cp_model

from solver.cluster import Node
from solver.explain.question import SEARCH_S, Case, places_for
from solver.explain.rules import asked, without
from solver.fair_share import held_by_queue
from solver.fit import UNLIMITED, fit
from solver.problem import Problem
from solver.queues import subtree
from solver.room import Lift, lifted
from solver.search import decide
from solver.state import NodeState, empty_state, initial_states
from solver.workload import Job, Role, Shape

REFUSALS = ("not-ready", "cordoned", "taint", "label")
"""Rules by which a node takes nothing at all of a shape."""

AMOUNTS = ("held", "unhealthy", "cpu", "memory", "model", "link", "share-group")
"""Rules that say, together, how many replicas a node takes."""

PASSING = ("held", "not-ready", "cordoned", "unhealthy", "mig-limit", "queue-limit")
"""Rules that no job is impossible by."""

LIFTS = {
    "cpu": Lift.CPU,
    "memory": Lift.MEMORY,
    "model": Lift.MODEL,
    "link": Lift.LINK,
    "share-group": Lift.SHARE_GROUP,
}


@dataclass(frozen=True, slots=True)
class Core:
    """The rules, in the order of `rules.RULES`; whether they were proved to be minimal."""

    rules: tuple[str, ...]
    proved: bool


def core_of(case: Case, *, impossible: bool = False) -> Core:
    """The core of a job that does not fit into what the plan leaves.

    `impossible` says that it would not fit without the rules of PASSING either.
    """
    question, job = case.question, case.part
    every = asked(question, job)
    rules = [rule for rule in every if rule not in PASSING]
    if not impossible or not _excluded(case, every, rules):
        suspects = _suspects(question, job, every)
        rules = [rule for rule in every if rule in suspects]
        if len(rules) < len(every) and not _excluded(case, every, rules):
            rules = every
    proved = True
    for rule in tuple(rules):
        if case.left_s <= 0:
            proved = False
            break
        rest = [other for other in rules if other != rule]
        if _excluded(case, every, rest):
            rules = rest
    return Core(tuple(rules), proved)


def _excluded(case: Case, every: list[str], rules: list[str]) -> bool:
    """Whether the job cannot start with only these rules."""
    lifted_rules = [rule for rule in every if rule not in rules]
    rest = without(case.question, case.job.name, lifted_rules, case.problem.nodes)
    return places_for(rest) is None


# The model with assumptions


def _suspects(question: Problem, job: Job, every: list[str]) -> set[str]:
    """Rules that CP-SAT finds enough to exclude the job; all where it finds it possible."""
    model = cp_model.CpModel()
    literal = {rule: model.new_bool_var(rule) for rule in every}
    _Model(question, job, model, literal).build()
    model.add_assumptions(list(literal.values()))
    answer = decide(model, SEARCH_S, presolve=False)
    if not answer.excluded:
        return set(every)
    names = {variable.index: rule for rule, variable in literal.items()}
    return {names[index] for index in answer.core}


class _Model:
    """Counts of one job's replicas over nodes that are alike, each rule behind its literal."""

    def __init__(
        self,
        question: Problem,
        job: Job,
        model: cp_model.CpModel,
        literal: dict[str, cp_model.IntVar],
    ) -> None:
        self._question, self._job, self._model, self._literal = question, job, model, literal
        self._states = initial_states(question)
        self._classes: dict[Hashable, list[Node]] = {}
        for node in question.nodes:
            key = (node.kind, self._states[node.name], *self._groups(node), self._named(node))
            self._classes.setdefault(key, []).append(node)
        self._x = {
            (role.name, number): model.new_int_var(0, role.replicas, f"x[{role.name},{number}]")
            for role in job.roles
            for number in range(len(self._classes))
        }

    def build(self) -> None:
        """All rules."""
        for role in self._job.roles:
            counts = [self._x[role.name, n] for n in range(len(self._classes))]
            self._model.add(sum(counts) >= (role.min_replicas if self._job.gang else 1))
            for number, nodes in enumerate(self._classes.values()):
                self._refuse(role, number, nodes[0])
                self._limit(role, number, nodes)
        self._share()
        self._stay_together()
        self._spread_out()
        self._limit_queues()

    def _groups(self, node: Node) -> list[Hashable]:
        levels = []
        if "topology" in self._literal and self._job.topology is not None:
            within = self._job.topology.within
            levels.append("node" if within == "island" else within)
        if self._job.spread is not None:
            levels.append(self._job.spread.over)
        return [node.group(level, self._question.levels) for level in levels]

    def _named(self, node: Node) -> str:
        """Its name, where the job asks for nodes by name."""
        selectors = {key for role in self._job.roles for key, _ in role.shape.node_selector}
        return node.name if "kubernetes.io/hostname" in selectors else ""

    def _refuse(self, role: Role, number: int, node: Node) -> None:
        for rule in REFUSALS:
            if rule in self._literal and _refuses(node, role.shape, rule):
                self._only_if([rule], self._x[role.name, number] == 0)

    def _limit(self, role: Role, number: int, nodes: list[Node]) -> None:
        """By every set of rules about amounts: so many replicas at most."""
        rules = [rule for rule in AMOUNTS if rule in self._literal]
        most: dict[frozenset[str], int] = {}
        for chosen in chain.from_iterable(combinations(rules, n) for n in range(len(rules) + 1)):
            kept = frozenset(chosen)
            room = _room(nodes[0], role.shape, self._states[nodes[0].name], kept)
            parts = [most[kept - {rule}] for rule in kept]
            most[kept] = min([room, *parts])
            if most[kept] < min([UNLIMITED, *parts]):
                self._only_if(chosen, self._x[role.name, number] <= len(nodes) * most[kept])

    def _share(self) -> None:
        """What roles that differ take together, where there are several."""
        if len(self._job.roles) < 2:
            return
        for number, nodes in enumerate(self._classes.values()):
            node, size = nodes[0], len(nodes)
            for kept, state in (((), empty_state(node)), (("held",), self._states[node.name])):
                if kept and "held" not in self._literal:
                    continue
                mine = [(self._x[r.name, number], r.shape) for r in self._job.roles]
                gpus = sum(x * self._question.gpu_milli(s) for x, s in mine)
                broken = ["unhealthy"] if node.unhealthy_gpus else []
                self._only_if([*kept, *broken], gpus <= size * state.free_milli)
                if state.cpu_left is not None and "cpu" in self._literal:
                    cpu = sum(x * s.cpu_milli for x, s in mine)
                    self._only_if([*kept, "cpu"], cpu <= size * state.cpu_left)
                if state.memory_left is not None and "memory" in self._literal:
                    memory = sum(x * s.memory_mib for x, s in mine)
                    self._only_if([*kept, "memory"], memory <= size * state.memory_left)

    def _stay_together(self) -> None:
        if "topology" not in self._literal:
            return
        inside: dict[Hashable, cp_model.IntVar] = {}
        for number, nodes in enumerate(self._classes.values()):
            group = self._groups(nodes[0])[0]
            chosen = inside.setdefault(group, self._model.new_bool_var(f"inside[{group}]"))
            for role in self._job.roles:
                x = self._x[role.name, number]
                self._only_if(["topology"], x <= role.replicas * chosen)
        self._only_if(["topology"], sum(inside.values()) == 1)

    def _spread_out(self) -> None:
        if "spread" not in self._literal or self._job.spread is None:
            return
        groups: dict[Hashable, list[cp_model.IntVar]] = {}
        for number, nodes in enumerate(self._classes.values()):
            group = self._groups(nodes[0])[-1]
            groups.setdefault(group, []).extend(
                self._x[role.name, number] for role in self._job.roles
            )
        for counts in groups.values():
            self._only_if(["spread"], sum(counts) <= self._job.spread.max_per)

    def _limit_queues(self) -> None:
        used = held_by_queue(self._question, self._question.running)
        for queue in self._question.queues:
            members = subtree(self._question.queues, queue.name)
            if self._job.queue not in members:
                continue
            for resource, limit in queue.limit.items():
                held = sum(used[name][resource] for name in members)
                terms = [
                    self._x[role.name, n] * self._question.amount(role.shape, resource)
                    for role in self._job.roles
                    for n in range(len(self._classes))
                ]
                self._only_if(["queue-limit"], sum(terms) <= max(0, limit - held))

    def _only_if(self, rules: tuple[str, ...] | list[str], holds: object) -> None:
        if isinstance(holds, bool):  # nothing in it can be decided
            if not holds:
                self._model.add_bool_or([self._literal[rule].negated() for rule in rules])
            return
        constraint = self._model.add(holds)  # type: ignore[arg-type]
        known = [self._literal[rule] for rule in rules if rule in self._literal]
        if known:
            constraint.only_enforce_if(known)


def _refuses(node: Node, shape: Shape, rule: str) -> bool:
    match rule:
        case "not-ready":
            return not node.ready
        case "cordoned":
            return node.cordoned
        case "taint":
            tolerated = shape.tolerations
            return any(t.repels and not any(s.tolerates(t) for s in tolerated) for t in node.taints)
        case _:
            labels = node.all_labels
            return any(labels.get(key) != value for key, value in shape.node_selector)


def _room(node: Node, shape: Shape, state: NodeState, kept: frozenset[str]) -> int:
    """Replicas that the node takes with only these rules about amounts."""
    job = Job(name="", roles=(Role(name="", shape=shape),))
    lifts = [lift for rule, lift in LIFTS.items() if rule not in kept]
    bare = lifted(job, lifts).roles[0].shape
    if "unhealthy" not in kept and node.unhealthy_gpus:
        mended = replace(node, unhealthy_gpus=frozenset())
        node, broken = mended, node.unhealthy_gpus
        if "held" in kept:
            whole = empty_state(mended).gpu_left
            left = tuple(
                whole[gpu] if gpu in broken else milli for gpu, milli in enumerate(state.gpu_left)
            )
            state = replace(state, gpu_left=left)
    if "held" not in kept:
        state = empty_state(node)
    return fit(node, bare, state)
