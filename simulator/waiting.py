"""The waiting line: units in order, those alike in a lane of their own.

Units of a lane ask for exactly the same. If one finds no room, none does until room is made, so
a lane is *closed* then. Looking for the next unit takes as long as there are lanes, not jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from simulator.state import Unit

Key = tuple[float, ...]
"""Place in the line; lower is earlier."""


class WaitingLine:
    """Units that wait.

    Parameters
    ----------
    key
        The place of a unit in the line, once and for all; the last part tells any two apart.
    """

    def __init__(self, key: Callable[[Unit], Key]) -> None:
        self._key = key
        self._lanes: dict[int, list[tuple[Key, int, Unit]]] = {}
        self._closed: set[int] = set()
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, unit: Unit) -> None:
        """A unit joins."""
        self._added += 1
        lane = self._lanes.setdefault(unit.lane, [])
        heappush(lane, (self._key(unit), self._added, unit))

    def remove_head(self, unit: Unit) -> None:
        """The head of a lane leaves."""
        lane = self._lanes[unit.lane]
        assert lane[0][2] is unit
        heappop(lane)
        if not lane:
            del self._lanes[unit.lane]
            self._closed.discard(unit.lane)

    def close(self, unit: Unit) -> None:
        """Nobody in the lane of this unit finds room."""
        self._closed.add(unit.lane)

    def open_all(self) -> None:
        """Room was made that may be of use to everybody."""
        self._closed.clear()

    def open_where(self, useful: Callable[[Unit], bool]) -> set[int]:
        """Room was made that may be of use to some; the lanes that are open again."""
        opened = {n for n in self._closed if useful(self._lanes[n][0][2])}
        self._closed -= opened
        return opened

    def is_closed(self, unit: Unit) -> bool:
        """Whether it is known that the unit finds no room."""
        return unit.lane in self._closed

    def heads(self) -> Iterator[tuple[Key, Unit]]:
        """The first unit of every lane."""
        for lane in self._lanes.values():
            yield lane[0][0], lane[0][2]

    def open_heads(self) -> Iterator[tuple[Key, Unit]]:
        """The first unit of every lane that is not closed."""
        for number, lane in self._lanes.items():
            if number not in self._closed:
                yield lane[0][0], lane[0][2]

    def head_of(self, lane: int) -> tuple[Key, Unit] | None:
        """The first unit of a lane."""
        found = self._lanes.get(lane)
        return (found[0][0], found[0][2]) if found else None

    def in_order(self) -> list[Unit]:
        """All units, in order."""
        entries = sorted(entry[:2] for lane in self._lanes.values() for entry in lane)
        units = {entry[1]: entry[2] for lane in self._lanes.values() for entry in lane}
        return [units[added] for _, added in entries]

    def remove(self, units: Sequence[Unit]) -> None:
        """These leave, wherever they stand."""
        gone = set(units)
        for lane in {unit.lane for unit in units}:
            left = [entry for entry in self._lanes[lane] if entry[2] not in gone]
            heapify(left)
            self._lanes[lane] = left
            if not left:
                del self._lanes[lane]
                self._closed.discard(lane)
