"""What cells of traces say: times and run times in whole milliseconds, whole numbers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isfinite

from simulator.scenario import MS

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII)
_ZONED = re.compile(_TIME.pattern + r"(?:[+-]\d\d:?\d\d|Z)", re.ASCII)

_EPOCH = datetime(1970, 1, 1)
_TICK = timedelta(milliseconds=1)

MAX_SECONDS = 10**11
"""Longest run time (3000 years): anything longer is a broken number."""

MAX_GPUS = 1_000_000
"""Largest gang; the published ones have up to 2048 GPUs, more than this is a broken number."""


NO_MOST = 10**19
"""More than `whole_number` reads: what is above a limit is told from what is no number."""


def wall_ms(text: str) -> int | None:
    """A time without zone, in ms of its own clock since 1970; None where it is none.

    Examples
    --------
    >>> wall_ms("1970-01-01 00:00:01"), wall_ms("None"), wall_ms("2017-13-01 00:00:00")
    (1000, None, None)
    """
    return _since_epoch(text) if _TIME.fullmatch(text) else None


def wall_text(at_ms: int) -> str:
    """The time as people write it, to the second: the way back of `wall_ms`."""
    return f"{datetime(1970, 1, 1) + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S}"


def zoned_ms(text: str) -> int | None:
    """A time with its distance to UTC, in ms since 1970; None where it is none.

    Examples
    --------
    >>> zoned_ms("1970-01-01 08:00:01+08:00"), zoned_ms("1970-01-01 08:00:01")
    (1000, None)
    """
    return _since_epoch(text) if _ZONED.fullmatch(text) else None


def _since_epoch(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        naive = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return (naive - _EPOCH) // _TICK


def seconds_ms(text: str) -> int | None:
    """A run time in seconds, in whole ms, at least 1; None where it is no positive number.

    Examples
    --------
    >>> seconds_ms("66.0"), seconds_ms("0.0001"), seconds_ms("-1"), seconds_ms("nan")
    (66000, 1, None, None)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    if not isfinite(seconds) or not 0 < seconds <= MAX_SECONDS or "_" in text:
        return None
    return max(1, round(seconds * MS))


def whole_number(text: str, least: int, most: int = MAX_GPUS) -> int | None:
    """A whole number from `least` to `most`, maybe written ``8.0``; None where it is none.

    Examples
    --------
    >>> whole_number("8", 1), whole_number("8.0", 1), whole_number("0", 1), whole_number("1.5", 1)
    (8, 8, None, None)
    """
    digits, _, fraction = text.partition(".")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or fraction.strip("0"):
        return None
    number = int(digits)
    return number if least <= number <= most else None
