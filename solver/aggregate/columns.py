"""Whole-node patterns: which replicas of which jobs share one node, priced by dynamic programming.

A *column* is a pattern for one kind of node: how many replicas of each role it holds. Nodes are of
one kind if they have equally many idle GPUs, would host the same roles and count for the same
reference shapes. Only whole GPUs are looked at: CPU, memory, links, shares and required topology
are left out, so every plan is a choice of patterns but not the other way round. That makes what
follows a relaxation: its bounds hold for the problem, its plans have to be checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from solver.cluster import Node
from solver.fit import fit, hosts, strictly_linked
from solver.metrics import counts_for_spread, spread_counts
from solver.problem import Problem, RoleKey
from solver.state import States

Worths = Mapping[RoleKey, Sequence[float]]
"""What 0, 1, 2, … replicas of a role on one node are worth."""

Counts = tuple[tuple[RoleKey, int], ...]
"""Replicas by role, roles in the order of the problem."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one node holds, the jobs that span it for it, and what is stranded in GPUs x weight."""

    counts: Counts
    spans: int
    stranded: int


@dataclass(frozen=True)
class NodeKind:
    """Nodes that take the same patterns."""

    nodes: tuple[Node, ...]
    idle: int
    roles: frozenset[RoleKey]
    reference: tuple[tuple[int, int], ...]

    def stranded(self, left: int) -> int:
        """Weighted GPUs stranded when `left` idle GPUs stay free: remainders of each size."""
        return sum(weight * (left % gpus) for gpus, weight in self.reference)


class PatternSpace:
    """The kinds of nodes of a problem, and the best pattern of each for given prices."""

    def __init__(self, problem: Problem, states: States) -> None:
        self.problem = problem
        self.states = states
        self.roles: dict[RoleKey, int] = {}  # whole GPUs per replica
        self.jobs: dict[str, list[RoleKey]] = {}
        for job, role in problem.roles():
            if role.shape.gpus:
                key = RoleKey(job.name, role.name)
                self.roles[key] = role.shape.gpus
                self.jobs.setdefault(job.name, []).append(key)

    @cached_property
    def kinds(self) -> tuple[NodeKind, ...]:
        """Kinds of nodes, in the order of their first node."""
        members: dict[object, list[Node]] = {}
        for node in self.problem.nodes:
            if node.schedulable:
                idle = len(self.states[node.name].idle_gpus)
                members.setdefault((idle, self._roles(node), self._sizes(node)), []).append(node)
        return tuple(
            NodeKind(tuple(nodes), *key)  # type: ignore[misc]
            for key, nodes in members.items()
        )

    def most_on_a_node(self, key: RoleKey) -> int:
        """Most replicas of a role that any node could hold by its idle GPUs."""
        idle = max((kind.idle for kind in self.kinds if key in kind.roles), default=0)
        return min(self.problem.role_by_key[key].replicas, idle // self.roles[key])

    def _roles(self, node: Node) -> frozenset[RoleKey]:
        shape = {key: self.problem.role_by_key[key].shape for key in self.roles}
        state = self.states[node.name]
        return frozenset(k for k, s in shape.items() if hosts(node, s) and fit(node, s, state))

    def _sizes(self, node: Node) -> tuple[tuple[int, int], ...]:
        weights: dict[int, int] = {}
        for shape, weight in self.problem.reference:
            if shape.gpus and hosts(node, strictly_linked(shape)):
                weights[shape.gpus] = weights.get(shape.gpus, 0) + weight
        return tuple(sorted(weights.items()))

    def spans(self, counts: Mapping[RoleKey, int]) -> int:
        """Jobs whose topology cost counts a node with these replicas."""
        return len({key.job for key, count in counts.items() if count and self._spans(key)})

    def _spans(self, key: RoleKey) -> bool:
        job = self.problem.job_by_name[key.job]
        return spread_counts(job) and counts_for_spread(job, self.problem.role_by_key[key].shape)

    def pattern(self, kind: NodeKind, counts: Mapping[RoleKey, int]) -> Pattern:
        """The pattern with these replicas on a node of a kind."""
        used = sum(self.roles[key] * count for key, count in counts.items())
        ordered = tuple((key, counts[key]) for key in self.roles if counts.get(key))
        return Pattern(ordered, self.spans(counts), kind.stranded(kind.idle - used))

    def best(
        self, worths: Worths, span_price: float, stranded_price: float
    ) -> list[list[tuple[float, Pattern]]]:
        """For every kind the patterns of least cost minus the worth of their replicas, best first.

        There is one for each number of GPUs that the replicas can use up.

        Parameters
        ----------
        worths
            What 0, 1, 2, … replicas of a role on one node are worth.
        span_price, stranded_price
            Cost of a job's spanning one more node, and of one weighted stranded GPU.
        """
        tables: dict[frozenset[RoleKey], list[tuple[float, dict[RoleKey, int]]]] = {}
        found = []
        for kind in self.kinds:
            if kind.roles not in tables:
                most = max(k.idle for k in self.kinds if k.roles == kind.roles)
                prices = (span_price, stranded_price)
                tables[kind.roles] = self._fill(kind.roles, most, worths, prices)
            table = tables[kind.roles]
            patterns = [
                (
                    stranded_price * kind.stranded(kind.idle - used) - table[used][0],
                    self.pattern(kind, table[used][1]),
                )
                for used in range(kind.idle + 1)
                if table[used][0] > float("-inf")
            ]
            found.append(sorted(patterns, key=lambda entry: entry[0]))
        return found

    def _fill(
        self,
        roles: frozenset[RoleKey],
        most: int,
        worths: Worths,
        prices: tuple[float, float],
    ) -> list[tuple[float, dict[RoleKey, int]]]:
        """For each number of GPUs up to `most`: the best worth of replicas that use so many."""
        none = float("-inf")
        table: list[tuple[float, dict[RoleKey, int]]] = [(none, {}) for _ in range(most + 1)]
        table[0] = (0.0, {})
        for keys in self.jobs.values():
            mine = [key for key in keys if key in roles]
            options = self._job_options(mine, most, worths, prices[0])
            if not prices[1]:  # GPUs that are left cost nothing, so only what pays is worth using
                options = [way for way in options if way[1] > 0]
            if not options:
                continue
            updated = list(table)
            for used in range(most + 1):
                for gpus, worth, counts in options:
                    if gpus > used or table[used - gpus][0] == none:
                        continue
                    total = table[used - gpus][0] + worth
                    if total > updated[used][0] + 1e-12:
                        updated[used] = (total, {**table[used - gpus][1], **counts})
            table = updated
        return table

    def _job_options(
        self,
        keys: Sequence[RoleKey],
        most: int,
        worths: Worths,
        span_price: float,
    ) -> list[tuple[int, float, dict[RoleKey, int]]]:
        """The best way for one job to use each number of GPUs: (GPUs, worth, replicas)."""
        ways: dict[int, tuple[float, dict[RoleKey, int]]] = {0: (0.0, {})}
        for key in keys:
            gpus = self.roles[key]
            for used, (worth, counts) in sorted(ways.items()):
                for count in range(1, min(len(worths[key]) - 1, (most - used) // gpus) + 1):
                    total = worth + worths[key][count]
                    place = used + count * gpus
                    if place not in ways or total > ways[place][0]:
                        ways[place] = (total, {**counts, key: count})
        span = span_price if any(self._spans(key) for key in keys) else 0.0
        return [(used, worth - span, counts) for used, (worth, counts) in ways.items() if used]

    def enumerate(
        self, kind: NodeKind, worths: Worths, prices: tuple[float, float], below: float, most: int
    ) -> list[Pattern] | None:
        """All patterns of a kind whose cost minus worth is at most `below`.

        Depth first over the jobs; a branch is cut where even the best of what is left (by dynamic
        programming from the last job backwards) stays above.

        Parameters
        ----------
        prices
            Of a span and of a weighted stranded GPU.
        most
            Give up (None) beyond so many.
        """
        options = [
            self._all_options([k for k in keys if k in kind.roles], kind.idle, worths, prices[0])
            for keys in self.jobs.values()
        ]
        options = [ways for ways in options if ways]
        best = [[prices[1] * kind.stranded(left) for left in range(kind.idle + 1)]]
        for ways in reversed(options):
            after = best[-1]
            best.append(
                [
                    min(
                        [after[left]] + [cost + after[left - g] for g, cost, _ in ways if g <= left]
                    )
                    for left in range(kind.idle + 1)
                ]
            )
        best.reverse()
        found: list[Pattern] = []
        stack: list[tuple[int, int, float, dict[RoleKey, int]]] = [(0, kind.idle, 0.0, {})]
        while stack:
            place, left, cost, counts = stack.pop()
            if cost + best[place][left] > below:
                continue
            if place == len(options):
                found.append(self.pattern(kind, counts))
                if len(found) > most:
                    return None
                continue
            stack.append((place + 1, left, cost, counts))
            stack += [
                (place + 1, left - g, cost + extra, {**counts, **chosen})
                for g, extra, chosen in options[place]
                if g <= left
            ]
        return found

    def _all_options(
        self, keys: Sequence[RoleKey], idle: int, worths: Worths, span_price: float
    ) -> list[tuple[int, float, dict[RoleKey, int]]]:
        """Every way in which one job can use a node: (GPUs, cost minus worth, replicas)."""
        ways: list[tuple[int, float, dict[RoleKey, int]]] = [(0, 0.0, {})]
        for key in keys:
            gpus = self.roles[key]
            ways += [
                (used + count * gpus, cost - worths[key][count], {**counts, key: count})
                for used, cost, counts in ways
                for count in range(1, min(len(worths[key]) - 1, (idle - used) // gpus) + 1)
            ]
        span = span_price if any(self._spans(key) for key in keys) else 0.0
        return [(used, cost + span, counts) for used, cost, counts in ways if used]
