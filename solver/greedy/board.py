"""The cluster while a plan is being made: what every node has left, and how to take it back.

Nodes of one class (same GPUs, links, capacity, taints, labels that anybody asks for) in equal
states are interchangeable. So each distinct pair of class and state is a *situation* with a small
number, and all that is computed for a shape (does it fit, what does the policy say, which GPUs
does it get) is computed once per situation. Nodes in one situation share a bucket, so the best
node is found by looking at buckets, not nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from solver.cluster import GPU_MILLI, Node
from solver.fit import fit, hosts, share_milli_on, takes
from solver.greedy.ranking import Ranking
from solver.greedy.scoring import (
    Candidate,
    PlacementPolicy,
    Region,
    Score,
    highest,
    work_kind,
)
from solver.problem import Problem
from solver.slices import pick_instances
from solver.solution import PlacedInstance
from solver.state import NodeState, initial_states
from solver.workload import Shape
from topology.graph import NodeTopology


@dataclass(frozen=True, slots=True)
class Situation:
    """A class of nodes, seen through one of them, in one state."""

    class_: int
    node: Node
    state: NodeState
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Seat:
    """A place for one replica: the node's number, the GPUs, thousandths of each."""

    node: int
    gpus: tuple[int, ...]
    share_milli: int
    instances: tuple[PlacedInstance, ...] = ()


MOST_SITUATIONS = 200_000
"""Situations that are remembered; beyond that, `Board.settle` forgets those that are no more."""


MOST_MOVES = 100_000
"""Changes of nodes that are remembered, for those who have counted before them."""


_Move = tuple[int, int, bool]
"""A node's situation before a change and after it; whether it has less than before."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What undoes a change: the node's situation before it, and the kind of work that came."""

    node: int
    before: int
    kind: str | None
    count: int


@dataclass(slots=True)
class _Sheet:
    """All that is known about one shape, by situation."""

    hosts: dict[int, bool] = field(default_factory=dict)
    fits: dict[int, int] = field(default_factory=dict)
    scores: dict[int, Score | None] = field(default_factory=dict)
    picks: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    room: int | None = None
    """Replicas that all nodes together take, when `seen` moves of nodes had happened."""
    seen: int = 0
    ranking: Ranking | None = None
    """Situations by score, when `ranked` moves of nodes had happened."""
    ranked: int = 0

    def forget(self) -> None:
        """Moves are counted from 0 again."""
        self.room, self.seen, self.ranking, self.ranked = None, 0, None, 0

    def score_again(self) -> None:
        """The policy has changed its mind."""
        self.scores.clear()
        self.picks.clear()
        self.ranking, self.ranked = None, 0


@dataclass(frozen=True, slots=True)
class _Field:
    """A region, and what is known of it for one shape (see `solver.greedy.scoring.Field`)."""

    board: Board
    shape: Shape
    region: Region

    @property
    def nodes(self) -> Sequence[int]:
        """All of them, by number, whether they have room or not."""
        return self.board.all if self.region.nodes is None else self.region.nodes

    def takes(self, n: int) -> bool:
        """Whether a node has room for the replica."""
        return self.board.score(n, self.shape, self.region.gpus) is not None

    def best(self) -> int | None:
        """The node with the highest score, ties to the first one; None where none has room."""
        if self.region.nodes is None:
            return self.board.best(self.shape)
        return highest(self.candidates())

    def candidates(self) -> Iterable[Candidate]:
        """Every node that has room, with its score."""
        return self.board.candidates(self.shape, self.region)


class Board:
    """What every node has left, with the running work on it.

    Nodes are known by their number: their place in the order in which ties are broken, which
    is that of the problem.
    """

    def __init__(self, problem: Problem, policy: PlacementPolicy) -> None:
        self.problem = problem
        self.nodes = problem.nodes
        self.all = range(len(problem.nodes))
        self.number: Mapping[str, int] = {node.name: n for n, node in enumerate(problem.nodes)}
        self._policy = policy
        self._edition = policy.edition
        self._situations: list[Situation] = []
        self._ids: dict[tuple[int, NodeState, frozenset[str]], int] = {}
        self._masked: dict[tuple[int, frozenset[int]], int] = {}
        self._sheets: dict[Shape, _Sheet] = {}
        self._journal: list[_Change] = []
        self._kind_counts: dict[int, Counter[str]] = {}
        self._moves: list[_Move] = []
        self._of_node: list[int] = []
        self._buckets: dict[int, list[int]] = {}
        self._seat_all()

    def _seat_all(self) -> None:
        states = initial_states(self.problem)
        if self._policy.watches_kinds:
            for job in self.problem.running:
                for replica, shape in zip(job.replicas, job.shapes, strict=False):
                    if kind := work_kind(shape):
                        self._count(self.number[replica.node], kind, 1)
        classes = node_classes(self.problem)
        for n, node in enumerate(self.nodes):
            there = frozenset(self._kind_counts.get(n, ()))
            sid = self._intern(Situation(classes[n], node, states[node.name], there))
            self._of_node.append(sid)
            self._buckets.setdefault(sid, []).append(n)

    def _intern(self, situation: Situation) -> int:
        key = (situation.class_, situation.state, situation.kinds)
        sid = self._ids.get(key)
        if sid is None:
            sid = self._ids[key] = len(self._situations)
            self._situations.append(situation)
        return sid

    def situation(self, n: int, gpus: frozenset[int] | None = None) -> int:
        """The number of a node's situation, as if only `gpus` were installed where given."""
        sid = self._of_node[n]
        if gpus is None:
            return sid
        if (sid, gpus) not in self._masked:
            whole = self._situations[sid]
            left = tuple(x if g in gpus else 0 for g, x in enumerate(whole.state.gpu_left))
            state = replace(whole.state, gpu_left=left)
            part = Situation(whole.class_, whole.node, state, whole.kinds)
            self._masked[sid, gpus] = self._intern(part)
        return self._masked[sid, gpus]

    def free_milli(self, n: int, gpus: frozenset[int] | None = None) -> int:
        """Thousandths of GPUs left on a node, or of some of its GPUs."""
        return self._situations[self.situation(n, gpus)].state.free_milli

    def fit(self, n: int, shape: Shape, gpus: frozenset[int] | None = None) -> int:
        """Most replicas of a shape that a node takes at once, labels and taints included."""
        return self._fit(self._sheet(shape), shape, self.situation(n, gpus))

    def room(self, shape: Shape, region: Region, enough: int) -> int:
        """Replicas of a shape that the region takes; at least `enough` is as good as more."""
        sheet, total = self._sheet(shape), 0
        if region.nodes is None:
            return self._room_anywhere(sheet, shape)
        for n in region.nodes:
            sid = self._of_node[n] if region.gpus is None else self.situation(n, region.gpus)
            total += self._fit(sheet, shape, sid)
            if total >= enough:
                break
        return total

    def _room_anywhere(self, sheet: _Sheet, shape: Shape) -> int:
        """Replicas that all nodes take: counted once, then kept up with what has moved since."""
        moves = self._moves[sheet.seen :]
        if sheet.room is None or len(moves) > len(self._buckets):
            sheet.room = sum(
                len(members) * self._fit(sheet, shape, sid)
                for sid, members in self._buckets.items()
            )
        else:
            for before, after, _ in moves:
                sheet.room += self._fit(sheet, shape, after) - self._fit(sheet, shape, before)
        sheet.seen = len(self._moves)
        return sheet.room

    def count_nodes(self, shape: Shape) -> int:
        """Nodes that take at least one replica."""
        sheet = self._sheet(shape)
        return sum(
            len(nodes) for sid, nodes in self._buckets.items() if self._fit(sheet, shape, sid)
        )

    def _sheet(self, shape: Shape) -> _Sheet:
        if self._policy.edition != self._edition:
            self._edition = self._policy.edition
            for known in self._sheets.values():
                known.score_again()
        sheet = self._sheets.get(shape)
        if sheet is None:
            sheet = self._sheets[shape] = _Sheet()
        return sheet

    def _fit(self, sheet: _Sheet, shape: Shape, sid: int) -> int:
        count = sheet.fits.get(sid)
        if count is None:
            at = self._situations[sid]
            welcome = sheet.hosts.get(at.class_)
            if welcome is None:
                welcome = sheet.hosts[at.class_] = hosts(at.node, shape)
            count = sheet.fits[sid] = fit(at.node, shape, at.state) if welcome else 0
        return count

    def _score(self, sheet: _Sheet, shape: Shape, sid: int) -> Score | None:
        at = self._situations[sid]
        node, state = at.node, at.state
        welcome = sheet.hosts.get(at.class_)
        if welcome is None:
            welcome = sheet.hosts[at.class_] = hosts(node, shape)
        score: Score | None = None
        if welcome and takes(node, shape, state):
            score = self._policy.score(node, state, shape, at.kinds)
        sheet.scores[sid] = score
        return score

    def score(self, n: int, shape: Shape, gpus: frozenset[int] | None = None) -> Score | None:
        """What the policy says of a node; None where it does not take a replica."""
        sheet, sid = self._sheet(shape), self.situation(n, gpus)
        return sheet.scores[sid] if sid in sheet.scores else self._score(sheet, shape, sid)

    def best(self, shape: Shape) -> int | None:
        """The node (by number) with the highest score of all, ties to the first one."""
        return self._ranking(shape).best(self._buckets)

    def candidates(self, shape: Shape, region: Region) -> Iterable[Candidate]:
        """Every node of the region that takes a replica, with its score."""
        if region.nodes is not None:
            return self._candidates_in(shape, region)
        buckets = self._buckets
        there = self._ranking(shape).there(buckets)
        return [(score, buckets[sid][0], buckets[sid]) for score, sid in there]

    def _ranking(self, shape: Shape) -> Ranking:
        """All situations that take a replica, by score: those that are new are looked at."""
        sheet = self._sheet(shape)
        scores, buckets = sheet.scores, self._buckets
        ranking = sheet.ranking
        if ranking is None or len(self._moves) - sheet.ranked > len(buckets):
            ranking = sheet.ranking = Ranking()
            fresh: Iterable[int] = buckets
        else:
            fresh = self._fresh(sheet)
        for sid in fresh:
            score = scores[sid] if sid in scores else self._score(sheet, shape, sid)
            if score is not None:
                ranking.add(score, sid)
        sheet.ranked = len(self._moves)
        return ranking

    def _fresh(self, sheet: _Sheet) -> set[int]:
        """Situations that came since a shape was ranked, but for those that take no replica.

        A node that takes none takes none when it has less.
        """
        scores, buckets = sheet.scores, self._buckets
        fresh = set()
        for before, after, less in self._moves[sheet.ranked :]:
            if less and scores.get(before, ()) is None:
                scores[after] = None
            elif after in buckets:
                fresh.add(after)
        return fresh

    def _candidates_in(self, shape: Shape, region: Region) -> Iterator[Candidate]:
        sheet = self._sheet(shape)
        scores = sheet.scores
        for n in region.nodes or ():
            sid = self._of_node[n] if region.gpus is None else self.situation(n, region.gpus)
            score = scores[sid] if sid in scores else self._score(sheet, shape, sid)
            if score is not None:
                yield score, n, (n,)
                if region.in_order:
                    return

    def find(self, shape: Shape, region: Region) -> Seat | None:
        """The place that the policy gives to one replica in a region, if there is one."""
        n = self._policy.choose(_Field(self, shape, region))
        if n is None:
            return None
        if shape.slices:
            made = pick_instances(self.nodes[n], shape, self.state(n))
            return None if made is None else Seat(n, (), 0, made)
        sid = self.situation(n, region.gpus)
        picks = self._sheet(shape).picks
        if sid not in picks or not self._policy.repeatable:
            at = self._situations[sid]
            picks[sid] = self._policy.pick(at.node, at.state, shape)
        gpus = picks[sid]
        if gpus is None:
            return None
        milli = share_milli_on(self.nodes[n], shape, gpus[0]) if shape.is_share else GPU_MILLI
        return Seat(n, gpus, milli)

    def take(self, shape: Shape, seat: Seat) -> None:
        """Let one replica have its seat."""
        state = self.state(seat.node).place(shape, seat.gpus, seat.share_milli)
        self._change(seat.node, state.cut(seat.instances), shape, +1)

    def give_back(self, shape: Shape, seat: Seat) -> None:
        """Let one replica leave the seat that it took; a GPU that is out of use stays so."""
        out = self.nodes[seat.node].unhealthy_gpus | self.nodes[seat.node].mig_gpus
        gpus = tuple(gpu for gpu in seat.gpus if gpu not in out) if out else seat.gpus
        state = self.state(seat.node).give_back(shape, gpus, seat.share_milli)
        state = state.join(seat.instances, self.nodes[seat.node])
        self._change(seat.node, state, shape, -1)

    def show(self, n: int, state: NodeState) -> None:
        """Let a node look as if it had this left."""
        sid = self._of_node[n]
        at = self._situations[sid]
        self._journal.append(_Change(n, sid, None, 0))
        self._move(n, self._intern(Situation(at.class_, at.node, state, at.kinds)))

    def state(self, n: int) -> NodeState:
        """What a node has left."""
        return self._situations[self._of_node[n]].state

    def _change(self, n: int, state: NodeState, shape: Shape, count: int) -> None:
        sid = self._of_node[n]
        at = self._situations[sid]
        kind = work_kind(shape) if self._policy.watches_kinds else None
        kinds = at.kinds
        if kind is not None:
            kinds = self._count(n, kind, count)
        self._journal.append(_Change(n, sid, kind, count))
        self._move(n, self._intern(Situation(at.class_, at.node, state, kinds)), less=count > 0)

    def _count(self, n: int, kind: str, count: int) -> frozenset[str]:
        """Book work of a kind on a node; the kinds that are there now."""
        counts = self._kind_counts.setdefault(n, Counter())
        counts[kind] += count
        if not counts[kind]:
            del counts[kind]
        return frozenset(counts)

    def mark(self) -> int:
        """A moment to come back to, until the next `settle`."""
        return len(self._journal)

    def roll_back(self, mark: int) -> None:
        """Undo every change since the mark."""
        while len(self._journal) > mark:
            change = self._journal.pop()
            if change.kind is not None:
                self._count(change.node, change.kind, -change.count)
            self._move(change.node, change.before)

    def settle(self) -> None:
        """What was done so far stays done, and need not be remembered any more."""
        self._journal.clear()
        if len(self._moves) > MOST_MOVES:
            self._moves.clear()
            for sheet in self._sheets.values():
                sheet.forget()
        if len(self._situations) > MOST_SITUATIONS:
            self._moves.clear()
            now = [self._situations[sid] for sid in self._of_node]
            self._situations, self._ids, self._masked, self._sheets = [], {}, {}, {}
            self._buckets = {}
            self._of_node = [self._intern(situation) for situation in now]
            for n, sid in enumerate(self._of_node):
                self._buckets.setdefault(sid, []).append(n)

    def _move(self, n: int, sid: int, *, less: bool = False) -> None:
        before = self._of_node[n]
        self._moves.append((before, sid, less))
        old = self._buckets[before]
        if len(old) == 1:
            del self._buckets[before]
        else:
            del old[bisect_left(old, n)]
        self._of_node[n] = sid
        insort(self._buckets.setdefault(sid, []), n)


def node_classes(problem: Problem) -> list[int]:
    """The class of every node: equal numbers for nodes that differ in nothing but their name."""
    shapes = {role.shape for _, role in problem.roles()} | {s for s, _ in problem.reference}
    asked = sorted({key for shape in shapes for key, _ in shape.node_selector})
    signatures: dict[NodeTopology, Hashable] = {}
    classes: dict[Hashable, int] = {}
    numbers = []
    for node in problem.nodes:
        if node.topology not in signatures:
            signatures[node.topology] = _signature(node.topology)
        key = (
            signatures[node.topology],
            node.usable_gpus,
            node.cpu_milli,
            node.memory_mib,
            node.taints,
            node.schedulable,
            tuple(node.all_labels.get(label) for label in asked),
            (node.mig_mode, node.cuttable_gpus, node.instances),
        )
        numbers.append(classes.setdefault(key, len(classes)))
    return numbers


def _signature(topology: NodeTopology) -> Hashable:
    """What makes two machines the same kind, whichever file or preset they come from."""
    links = tuple(
        (topology.link(a, b), topology.gb_s(a, b))
        for a, b in combinations(range(topology.n_gpus), 2)
    )
    return (topology.gpu_models, topology.gpu_memory_mib, links)
