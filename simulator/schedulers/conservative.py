"""Conservative backfill: every unit has a reservation from the moment it arrives.

A unit gets the earliest start at which it fits beside everything that runs and everything that was
reserved before it. Run times are known exactly, so a reservation once made is kept to the
millisecond, and nobody who comes later can delay anybody.

References
----------
A. Mu'alem and D. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from simulator.agenda import Kind
from simulator.orders import OrderKey
from simulator.schedulers.base import Scheduler
from simulator.schedulers.promises import Claim, hold_limits
from simulator.schedulers.reservations import (
    by_end,
    latest_end_ms,
    least,
    longest_ms,
    places_of,
    running_claims,
)
from simulator.schedulers.surplus import drop_surplus, hand_out_surplus, make_way, shed_load
from simulator.state import Cluster, Unit
from solver.greedy.board import Seat
from solver.problem import RoleKey
from solver.solution import Placement
from solver.state import NodeState, empty_state
from solver.workload import Shape


@dataclass(frozen=True, slots=True)
class Planned:
    """A unit with the time and the places that it has reserved; `end_ms` is when they are free."""

    unit: Unit
    start_ms: int
    end_ms: float
    places: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class _Stay:
    """A seat on a node, from when until when it is taken."""

    start_ms: float
    end_ms: float
    shape: Shape
    seat: Seat


class ConservativeScheduler(Scheduler):
    """A plan for everybody, in order of arrival."""

    def __init__(self, cluster: Cluster, key: OrderKey) -> None:
        super().__init__(cluster)
        self._key = key
        self._fresh: list[Unit] = []
        self._never: list[Unit] = []
        self.planned: dict[str, Planned] = {}
        """Reservations by the name of the unit's oldest job."""

    def arrive(self, unit: Unit) -> None:
        """Be planned at the end of the moment."""
        self._fresh.append(unit)

    def remind(self, subject: str) -> None:
        """A reservation begins."""
        planned = self.planned.pop(subject)
        make_way(self.cluster, planned.places)
        self.cluster.start_at(planned.unit, planned.places)

    def round(self) -> None:
        """Plan who has arrived; who can start now does."""
        if self.cluster.elastic:
            shed_load(self.cluster)
        if self.cluster.gained or self._fresh:
            units = sorted([*self._never, *self._fresh], key=self._key)
            self._fresh.clear()
            self._never = [unit for unit in units if not self._plan(unit)]
        self.cluster.gained.clear()
        if self.cluster.elastic:
            hand_out_surplus(self.cluster, self.hold_reserved)

    def _plan(self, unit: Unit) -> bool:
        """Find the earliest start; False where there is none, as far as is known now.

        What others hold above their minimums is as good as free.
        """
        cluster, draft = self.cluster, self.cluster.draft
        runs_ms = longest_ms(cluster, unit)
        stays = self._stays()
        mark = draft.mark()
        ends = dict(by_end(cluster))
        moments = {cluster.now_ms, *ends}
        moments |= {int(p.end_ms) for p in self.planned.values() if p.end_ms < inf}
        found = None
        drop_surplus(cluster)
        for at_ms in sorted(moments):
            for life in ends.get(at_ms, ()):
                draft.release(life.arrival.job)
            before = draft.mark()
            self._hold(stays, at_ms, inf if runs_ms is None else at_ms + runs_ms)
            if draft.start(unit.jobs):
                places = places_of(cluster, unit)
                found = Planned(unit, at_ms, self._end_ms(unit, places, at_ms), places)
                break
            draft.roll_back(before)
        draft.roll_back(mark)
        if found is None:
            return False
        if found.start_ms == cluster.now_ms:
            make_way(cluster, found.places)
            cluster.start_at(unit, found.places)
        else:
            self.planned[unit.life.name] = found
            cluster.agenda.add(found.start_ms, Kind.TIMER, unit.life.name)
        return True

    def _end_ms(self, unit: Unit, places: Sequence[Placement], start_ms: int) -> float:
        """When a unit that starts in these places with its minimums has left them."""
        ends: list[float] = []
        for life in unit.lives:
            job = life.arrival.job
            own = [place for place in places if place.job == job.name]
            stretch = self.cluster.stretch.milli(job, own)
            needs_ms = life.needs_ms(job.min_replicas, stretch)
            ends.append(inf if needs_ms is None else start_ms + needs_ms)
        return max(ends)

    def _stays(self) -> dict[int, list[_Stay]]:
        """Seats on nodes where something is reserved: those of minimums now, and the reserved."""
        cluster = self.cluster
        number = cluster.draft.board.number
        table: dict[int, list[_Stay]] = {}
        for planned in self.planned.values():
            for place in planned.places:
                role = cluster.problem.role_by_key[RoleKey(place.job, place.role)]
                seat = Seat(number[place.node], place.gpus, place.share_milli, place.instances)
                stay = _Stay(planned.start_ms, planned.end_ms, role.shape, seat)
                table.setdefault(seat.node, []).append(stay)
        if table:
            for life in cluster.running.values():
                latest_ms = latest_end_ms(cluster, life)
                end_ms = inf if latest_ms is None else latest_ms
                for role, seat in cluster.draft.seats(life.name)[: life.arrival.job.min_replicas]:
                    if seat.node in table:
                        table[seat.node].append(_Stay(-inf, end_ms, role.shape, seat))
        return table

    def _hold(self, stays: dict[int, list[_Stay]], start_ms: float, end_ms: float) -> None:
        """Let nodes and limits show the least that is left at any time from start to end."""
        claims = running_claims(self.cluster)
        claims += [
            Claim(life, planned.start_ms, planned.end_ms)
            for planned in self.planned.values()
            for life in planned.unit.lives
        ]
        hold_limits(self.cluster, claims, start_ms, end_ms)
        board = self.cluster.draft.board
        for n, on_node in stays.items():
            # What is left only falls when a reservation begins, so those times are enough.
            begins = {s.start_ms for s in on_node if start_ms < s.start_ms < end_ms}
            # The board also knows surplus, which `stays` leaves out: what is held is not free.
            state = board.state(n)
            for at_ms in (start_ms, *begins):
                state = least(state, self._left(n, on_node, at_ms))
            if state != board.state(n):
                self.cluster.draft.hold(n, state)

    def _left(self, n: int, stays: Iterable[_Stay], at_ms: float) -> NodeState:
        state = empty_state(self.cluster.problem.nodes[n])
        for stay in stays:
            if stay.start_ms <= at_ms < stay.end_ms:
                state = state.place(stay.shape, stay.seat.gpus, stay.seat.share_milli)
                state = state.cut(stay.seat.instances)
        return state

    @property
    def is_settled(self) -> bool:
        """What is reserved is kept from surplus by the ends of others, and those come nearer."""
        return not self.planned

    def hold_reserved(self) -> None:
        """Keep free what is reserved, whenever that is."""
        self._hold(self._stays(), self.cluster.now_ms, inf)
