"""The part of a trace that is looked at."""

from __future__ import annotations

import re

from simulator.traces.cells import wall_ms
from simulator.traces.table import TraceError

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Window:
    """Submissions from `since` (inclusive) to `until` (exclusive), on the clock of the trace.

    Parameters
    ----------
    since, until
        ``YYYY-MM-DD`` or ``YYYY-MM-DD HH:MM:SS``; None: no bound.
    file
        The trace, for messages.

    Raises
    ------
    TraceError
        One of them is no such time, or nothing lies between them.
    """

    def __init__(self, since: str | None, until: str | None, file: str) -> None:
        self.since_ms = _edge_ms("since", since, file)
        self.until_ms = _edge_ms("until", until, file)
        begin, end = self.since_ms, self.until_ms
        if begin is not None and end is not None and begin >= end:
            raise TraceError(file, f"no time lies between since {since} and until {until}")

    def __contains__(self, at_ms: int) -> bool:
        after = self.since_ms is None or self.since_ms <= at_ms
        return after and (self.until_ms is None or at_ms < self.until_ms)


def _edge_ms(name: str, text: str | None, file: str) -> int | None:
    if text is None:
        return None
    at_ms = wall_ms(f"{text} 00:00:00" if _DATE.fullmatch(text) else text)
    if at_ms is None:
        hint = "Write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS"
        raise TraceError(file, f'{name} is a time, "{text}" is not', hint)
    return at_ms
