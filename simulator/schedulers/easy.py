"""EASY backfill: the first unit that finds no room has a reservation, others may overtake it.

A unit may start before it only if the reserved start is not delayed: it takes nothing that was
reserved, or it has ended by then. Run times are known exactly, and at equal times ends come first.

References
----------
A. Mu'alem and D. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
Scheduling the IBM SP2 with Backfilling", IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from bisect import insort

from simulator.orders import OrderKey
from simulator.schedulers.base import Scheduler
from simulator.schedulers.reservations import (
    Reservation,
    hold,
    longest_ms,
    reserve,
    try_places,
)
from simulator.schedulers.surplus import (
    drop_surplus,
    hand_out_surplus,
    make_way,
    shed_load,
    start_in_surplus,
)
from simulator.state import Cluster, Unit
from simulator.waiting import Key


class EasyScheduler(Scheduler):
    """First come, first served, with one reservation for each waiting line."""

    def __init__(self, cluster: Cluster, key: OrderKey) -> None:
        super().__init__(cluster)
        self._key = key
        self._queue: list[tuple[Key, Unit]] = []
        self._fresh: list[tuple[Key, Unit]] = []
        self._own_lines = cluster.scenario.lines == "queue"
        self.reserved: dict[str, Reservation | None] = {}
        """By line, what its first unit has reserved; None where it never fits."""

    def arrive(self, unit: Unit) -> None:
        """Join the line."""
        entry = (self._key(unit), unit)
        insort(self._queue, entry, key=lambda e: e[0])
        self._fresh.append(entry)

    def round(self) -> None:
        """Start who is first, then who may overtake, then hand out the surplus."""
        if self.cluster.elastic:
            shed_load(self.cluster)
        self.serve()
        if self.cluster.elastic:
            hand_out_surplus(self.cluster, self.hold_reserved)

    def serve(self) -> None:
        """Start who is first, then who may overtake."""
        if self._queue and (self.cluster.gained or self._fresh):
            again = bool(self.cluster.gained) or not self.reserved
            before = dict(self.reserved)
            self._serve_heads()
            if again or before != self.reserved:
                self._backfill(self._queue)
            else:  # For all others nothing has changed.
                fresh = {unit for _, unit in self._fresh}
                self._backfill([entry for entry in self._queue if entry[1] in fresh])
        self._fresh.clear()
        self.cluster.gained.clear()

    @property
    def is_settled(self) -> bool:
        """What is reserved is kept from surplus by the ends of others, and those come nearer."""
        return not any(self.reserved.values())

    def hold_reserved(self) -> None:
        """Keep free what is reserved, until the draft is rolled back."""
        hold(self.cluster, [r for r in self.reserved.values() if r is not None])

    def _line_of(self, unit: Unit) -> str:
        return unit.queue if self._own_lines else ""

    def _serve_heads(self) -> None:
        """Each line until its first unit finds no room; that one reserves.

        It keeps what it had reserved, unless somebody who came before it has started.
        """
        blocked: dict[str, Unit] = {}
        overtaken = set()
        left = []
        for entry in self._queue:
            unit = entry[1]
            line = self._line_of(unit)
            if line in blocked:
                left.append(entry)
            elif self._start_head(unit, None if line in overtaken else self.reserved.get(line)):
                overtaken.add(line)
            else:
                blocked[line] = unit
                left.append(entry)
        self._queue = left
        kept = {}
        for line, unit in blocked.items():
            known = None if line in overtaken else self.reserved.get(line)
            kept[line] = known if known and known.unit is unit else reserve(self.cluster, unit)
        self.reserved = kept

    def _start_head(self, unit: Unit, known: Reservation | None) -> bool:
        if self.cluster.start(unit) or start_in_surplus(self.cluster, unit):
            return True
        if known and known.unit is unit and known.at_ms <= self.cluster.now_ms:
            make_way(self.cluster, known.places)
            self.cluster.start_at(unit, known.places)
            return True
        return False

    def _backfill(self, candidates: list[tuple[Key, Unit]]) -> None:
        """Let units overtake the reserved ones, in order."""
        reserved = {r.unit for r in self.reserved.values() if r is not None}
        blocked = {line for line, r in self.reserved.items() if r is None}
        hopeless: set[tuple[int, bool]] = set()
        started = set()
        for _, unit in list(candidates):
            if unit in reserved or self._line_of(unit) not in self.reserved:
                continue
            if unit is self._first_of(self._line_of(unit)) and self._line_of(unit) in blocked:
                continue
            short = self._ends_in_time(unit)
            if (unit.lane, short) in hopeless or (unit.lane, True) in hopeless:
                continue
            if self._overtake(unit, short=short):
                started.add(unit)
            else:
                hopeless.add((unit.lane, short))
        if started:
            self._queue = [entry for entry in self._queue if entry[1] not in started]

    def _first_of(self, line: str) -> Unit | None:
        return next((unit for _, unit in self._queue if self._line_of(unit) == line), None)

    def _ends_in_time(self, unit: Unit) -> bool:
        """Whether a unit that starts now has ended when its line's reservation begins."""
        reservation = self.reserved.get(self._line_of(unit))
        runs_ms = longest_ms(self.cluster, unit)
        if reservation is None:
            return True  # Nothing to wait for: whoever is first never fits.
        return runs_ms is not None and self.cluster.now_ms + runs_ms <= reservation.at_ms

    def _overtake(self, unit: Unit, *, short: bool) -> bool:
        """Start a unit in what is not reserved or, if it ends in time, anywhere."""
        tries: list[tuple[bool, bool]] = [(True, False), (True, True)]
        if short:
            tries = [(True, False), (False, False), (True, True), (False, True)]
        draft = self.cluster.draft
        for held, surplus in tries:
            if surplus and not self.cluster.elastic:
                continue
            mark = draft.mark()
            if surplus:
                drop_surplus(self.cluster)
            if held:
                self.hold_reserved()
            places = try_places(self.cluster, unit)
            draft.roll_back(mark)
            if places is not None:
                make_way(self.cluster, places)
                self.cluster.start_at(unit, places)
                return True
        return False
