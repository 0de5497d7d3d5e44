"""In which order a plan is carried out, so that every target is free when somebody goes there.

Evictions come first and starts last: nothing is freer before the former or after the latter.
Between them are the moves. A move stops a replica and starts it elsewhere, so its own GPUs are free
for it. An order is searched depth first, with a limit (`PATIENCE`), since of CPU and memory a
move may take what another one needed first. Where no move can be made those that are left wait for
each other: one of them is *parked* in free space, or, where there is none for any of them,
*paused* at its checkpoint; both give up its place, so the others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import networkx as nx

from solver.cluster import GPU_MILLI
from solver.defrag.steps import Action, Cycle, Place, Schedule, StepKind
from solver.fit import fit, hosts, pick_gpus, share_milli_on
from solver.preemption.cost import cost_of, displacement_cost_gpu_s
from solver.problem import Problem
from solver.solution import Move, Plan
from solver.state import NodeState, empty_state
from solver.workload import Shape

PATIENCE = 5_000
"""Moves tried, at most, in search of an order without a detour; then it is first come, first go."""

Key = tuple[str, int]
"""Job and number of a running replica."""


def schedule(problem: Problem, plan: Plan) -> Schedule:
    """The steps of a valid plan in an order in which every state between them is feasible."""
    return _Scheduler(problem, plan).schedule()


@dataclass(frozen=True, slots=True)
class Seat:
    """A place with the CPU and memory held there."""

    place: Place
    cpu_milli: int
    memory_mib: int


class _Floor:
    """Who holds what right now."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._gpu: Counter[tuple[str, int]] = Counter()
        self._cpu: Counter[str] = Counter()
        self._memory: Counter[str] = Counter()
        self._cuts = {
            (node.name, gpu)
            for node in problem.nodes
            for gpu in range(node.n_gpus)
            if empty_state(node).gpu_left[gpu] == 0
        }
        self.at: dict[Key, Seat] = {}

    def put(self, key: Key, seat: Seat | None) -> Seat | None:
        """Have a replica hold this (None: nothing), and return what it held before."""
        before = self.at.pop(key, None)
        for held, sign in ((before, -1), (seat, 1)):
            if held is not None:
                place = held.place
                for gpu in place.gpus:
                    self._gpu[place.node, gpu] += sign * place.share_milli
                self._cpu[place.node] += sign * held.cpu_milli
                self._memory[place.node] += sign * held.memory_mib
        if seat is not None:
            self.at[key] = seat
        return before

    def takes(self, seat: Seat) -> bool:
        """Whether there is room for a replica at this very place."""
        place = seat.place
        node = self.problem.node_by_name[place.node]
        return (
            all(
                (place.node, gpu) not in self._cuts
                and self._gpu[place.node, gpu] + place.share_milli <= GPU_MILLI
                for gpu in place.gpus
            )
            and _within(self._cpu[node.name], seat.cpu_milli, node.cpu_milli)
            and _within(self._memory[node.name], seat.memory_mib, node.memory_mib)
        )

    def short(self, seat: Seat) -> tuple[bool, bool]:
        """Whether CPU, and whether memory, is what a place lacks."""
        name = seat.place.node
        node = self.problem.node_by_name[name]
        return (
            not _within(self._cpu[name], seat.cpu_milli, node.cpu_milli),
            not _within(self._memory[name], seat.memory_mib, node.memory_mib),
        )

    def shelter(self, shape: Shape) -> Place | None:
        """Free space for a replica, anywhere; on the node that has least to spare."""
        found: list[tuple[int, str, Place]] = []
        for node in self.problem.nodes:
            state = self._state(node.name)
            if not hosts(node, shape) or not fit(node, shape, state):
                continue
            gpus = pick_gpus(node, shape, state)
            if gpus is None:
                continue
            milli = share_milli_on(node, shape, gpus[0]) if gpus else 0
            place = Place(node=node.name, gpus=gpus, share_milli=milli or GPU_MILLI)
            found.append((state.free_milli, node.name, place))
        return min(found, key=lambda entry: entry[:2])[2] if found else None

    def _state(self, name: str) -> NodeState:
        node = self.problem.node_by_name[name]
        empty = empty_state(node)
        left = tuple(
            max(0, milli - self._gpu[name, gpu]) for gpu, milli in enumerate(empty.gpu_left)
        )
        cpu, memory = node.cpu_milli, node.memory_mib
        return replace(
            empty,
            gpu_left=left,
            cpu_left=None if cpu is None else max(0, cpu - self._cpu[name]),
            memory_left=None if memory is None else max(0, memory - self._memory[name]),
        )


def _within(used: int, more: int, capacity: int | None) -> bool:
    return not more or capacity is None or used + more <= capacity


class _Scheduler:
    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._plan = plan
        self._problem = problem
        self._running = {job.name: job for job in problem.running}
        self._floor = _Floor(problem)
        for job in problem.running:
            for number, held in enumerate(job.replicas):
                place = Place(node=held.node, gpus=held.gpus, share_milli=held.share_milli)
                self._floor.put((job.name, number), Seat(place, held.cpu_milli, held.memory_mib))
        self._actions: list[Action] = []
        self._cycles: list[Cycle] = []
        self._targets = {(move.job, move.replica): self._seat(move) for move in plan.moves}
        self._parked: set[Key] = set()
        self._paused: set[Key] = set()
        self._patience = PATIENCE

    def schedule(self) -> Schedule:
        self._evict()
        left = list(self._targets)
        while left:
            for key in self._order(left):
                self._go(key)
                left.remove(key)
            # The search for an order may have lost its patience: then whoever can goes.
            while free := next((key for key in left if self._is_free(key)), None):
                self._go(free)
                left.remove(free)
            if left:
                self._break_cycle(left)
        self._start()
        return Schedule(actions=tuple(self._actions), cycles=tuple(self._cycles))

    def _evict(self) -> None:
        for eviction in self._plan.evictions:
            for number in eviction.replicas:
                self._floor.put((eviction.job, number), None)
            cost = cost_of(self._running[eviction.job], eviction.replicas)
            self._actions.append(
                Action(
                    kind=StepKind.EVICT,
                    jobs=(eviction.job,),
                    replicas=eviction.replicas,
                    cost_gpu_s=cost,
                )
            )

    def _start(self) -> None:
        groups: dict[str, list[str]] = {}
        for name in self._plan.by_job:
            group = self._problem.job_by_name[name].start_group
            groups.setdefault(f"group {group}" if group else f"job {name}", []).append(name)
        for names in groups.values():
            self._actions.append(Action(kind=StepKind.START, jobs=tuple(sorted(names))))

    def _seat(self, move: Move) -> Seat:
        shape = self._running[move.job].shapes[move.replica]
        place = Place(node=move.node, gpus=move.gpus, share_milli=move.share_milli)
        return Seat(place, shape.cpu_milli, shape.memory_mib)

    def _order(self, left: Sequence[Key]) -> list[Key]:
        """An order of all of these moves, or else of as many as can be made."""
        made: list[Key] = []
        longest: list[Key] = []
        seen: set[frozenset[Key]] = set()

        def extend() -> bool:
            if len(made) > len(longest):
                longest[:] = made
            done = frozenset(made)
            if len(done) == len(left):
                return True
            if done in seen:
                return False
            seen.add(done)
            for key in left:
                if key in done or self._patience <= 0:
                    continue
                before = self._make(key)
                if before is _NO_ROOM:
                    continue
                self._patience -= 1
                made.append(key)
                over = extend()
                made.pop()
                self._floor.put(key, before)
                if over:
                    return True
            return False

        extend()
        return longest

    def _is_free(self, key: Key) -> bool:
        """Whether a replica can move to its target now."""
        before = self._floor.put(key, None)
        found = self._floor.takes(self._targets[key])
        self._floor.put(key, before)
        return found

    def _make(self, key: Key) -> Seat | None:
        """Move a replica if its target is free; where it was before (`_NO_ROOM`: it stays)."""
        before = self._floor.put(key, None)
        if not self._floor.takes(self._targets[key]):
            self._floor.put(key, before)
            return _NO_ROOM
        self._floor.put(key, self._targets[key])
        return before

    def _go(self, key: Key) -> None:
        before = self._make(key)
        cost = self._cost(key)
        # What such a replica loses by leaving its place was counted there.
        if key in self._parked:
            cost = self._again(key)
        elif key in self._paused:
            cost = 0
        self._actions.append(
            Action(
                kind=StepKind.RESUME if key in self._paused else StepKind.MOVE,
                jobs=(key[0],),
                replicas=(key[1],),
                origin=None if before is None else before.place,
                target=self._targets[key].place,
                cost_gpu_s=cost,
            )
        )

    def _break_cycle(self, left: Sequence[Key]) -> None:
        """Have one replica of a circle give up its place, the cheapest that finds free space."""
        circle = self._circle(left)
        fresh = [key for key in circle if key not in self._parked]
        shelters = {key: self._shelter(key, left) for key in fresh}
        with_shelter = [key for key in fresh if shelters[key] is not None]
        if with_shelter:
            key = min(with_shelter, key=lambda key: (self._again(key), key))
        else:
            key = min(fresh or circle, key=lambda key: (self._cost(key), key))
        shelter = shelters.get(key)
        before = self._floor.put(key, shelter)
        kind = StepKind.PAUSE if shelter is None else StepKind.PARK
        self._actions.append(
            Action(
                kind=kind,
                jobs=(key[0],),
                replicas=(key[1],),
                origin=None if before is None else before.place,
                target=None if shelter is None else shelter.place,
                cost_gpu_s=0 if key in self._parked else self._cost(key),
            )
        )
        (self._paused if shelter is None else self._parked).add(key)
        self._cycles.append(
            Cycle(
                jobs=tuple(sorted({job for job, _ in circle})),
                job=key[0],
                replica=key[1],
                broken_by=kind,
                cost_gpu_s=0 if shelter is None else self._again(key),
            )
        )

    def _circle(self, left: Sequence[Key]) -> list[Key]:
        """Replicas that wait for each other; there are such wherever nobody can move."""
        waits: nx.DiGraph[Key] = nx.DiGraph()
        waits.add_nodes_from(left)
        for key in left:
            target = self._targets[key].place
            here = [k for k in left if k in self._floor.at and k != key]
            there = [k for k in here if self._floor.at[k].place.node == target.node]
            waits.add_edges_from((key, k) for k in there if self._in_the_way(k, key))
        circles = [sorted(c) for c in nx.strongly_connected_components(waits) if len(c) > 1]
        return min(circles, key=lambda circle: (len(circle), circle))

    def _in_the_way(self, other: Key, key: Key) -> bool:
        """Whether a replica on the node holds any of what another one lacks there."""
        held, wanted = self._floor.at[other], self._targets[key]
        if set(held.place.gpus) & set(wanted.place.gpus):
            return True
        short_cpu, short_memory = self._floor.short(wanted)
        return bool(short_cpu and held.cpu_milli) or bool(short_memory and held.memory_mib)

    def _shelter(self, key: Key, left: Sequence[Key]) -> Seat | None:
        """Free space for a replica, if possible where nobody is to go."""
        shape = self._running[key[0]].shapes[key[1]]
        reserved: list[Key] = [("", number) for number, _ in enumerate(left)]
        for name, mover in zip(reserved, left, strict=True):
            self._floor.put(name, self._targets[mover])
        place = self._floor.shelter(shape)
        for name in reserved:
            self._floor.put(name, None)
        place = place or self._floor.shelter(shape)
        return None if place is None else Seat(place, shape.cpu_milli, shape.memory_mib)

    def _again(self, key: Key) -> int:
        """Price of restarting once more, from the checkpoint that the first move went back to."""
        job = self._running[key[0]]
        stop = replace(job.preemption, checkpoint_age_s=0)
        return displacement_cost_gpu_s(replace(job, preemption=stop), key[1])

    def _cost(self, key: Key) -> int:
        return displacement_cost_gpu_s(self._running[key[0]], key[1])


_NO_ROOM = Seat(Place(node="", gpus=(), share_milli=0), 0, 0)
