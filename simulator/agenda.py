"""What is due when: a heap ordered by (time, kind, sequence)."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class Kind(IntEnum):
    """Kinds of events, in the order in which those of one moment happen."""

    END = 0
    """A job has run for its time."""
    ARRIVAL = 1
    """A job is submitted."""
    LOAD = 2
    """The services look at how many replicas they want."""
    TIMER = 3
    """The scheduler asked to be called."""


class Event(NamedTuple):
    """Something that is due; a tuple, because the heap compares a dozen of them for each moment.

    `subject` is the name of a job, or what a scheduler wants to be reminded of; `version` tells
    an event that was overtaken (the job was stopped before its end) from one that still holds.
    """

    time_ms: int
    kind: Kind
    sequence: int
    subject: str = ""
    version: int = 0


class Agenda:
    """All that is due, the earliest first; what is due at one moment comes by kind, then in order.

    Examples
    --------
    >>> agenda = Agenda()
    >>> agenda.add(5, Kind.ARRIVAL, "b")
    >>> agenda.add(5, Kind.END, "a")
    >>> [event.subject for event in agenda.pop_moment()]
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._heap: list[Event] = []
        self._sequence = 0
        self._recurring = 0

    def add(self, time_ms: int, kind: Kind, subject: str = "", version: int = 0) -> None:
        """Note an event."""
        self._sequence += 1
        self._recurring += kind is Kind.LOAD
        heappush(self._heap, Event(time_ms, kind, self._sequence, subject, version))

    @property
    def is_over(self) -> bool:
        """Whether nothing is due but services looking at their load."""
        return len(self._heap) == self._recurring

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop_moment(self) -> list[Event]:
        """All events of the earliest moment, in their order."""
        moment: list[Event] = []
        while self._heap and (not moment or self._heap[0].time_ms == moment[0].time_ms):
            event = heappop(self._heap)
            self._recurring -= event.kind is Kind.LOAD
            moment.append(event)
        return moment
