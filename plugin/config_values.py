"""Values of a config file, each read or refused with what was wanted (ValueError)."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from plugin.config import ListStrategy

Choice = TypeVar("Choice", bound=StrEnum)

MAX_REPLICAS = 10_000
"""More shares of a GPU than that are a slip of the keyboard."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def text(value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError("a text is wanted here")
    return str(value)


def flag(value: object) -> bool:
    """True or false, also as a text: variables of the environment are texts."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError("true or false is wanted here")


def whole(value: object) -> int:
    """A whole number, also as a text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is wanted here")
    try:
        return int(value)
    except ValueError:
        raise ValueError("a whole number is wanted here") from None


def replicas(value: object) -> int:
    """Shares of a device."""
    count = whole(value)
    if not 2 <= count <= MAX_REPLICAS:
        raise ValueError(f"replicas are between 2 and {MAX_REPLICAS}")
    return count


def choice(kind: type[Choice]) -> Callable[[object], Choice]:
    """Make the reader of one of the values of an enumeration."""

    def read(value: object) -> Choice:
        try:
            return kind(text(value))
        except ValueError:
            raise ValueError(f"one of {', '.join(kind)}") from None

    return read


def strategies(value: object) -> tuple[ListStrategy, ...]:
    """Device list strategies, as a list or with commas."""
    values = value if isinstance(value, list) else text(value).split(",")
    if not values:
        raise ValueError("at least one strategy is wanted here")
    return tuple(dict.fromkeys(choice(ListStrategy)(one) for one in values))


def channels(value: object) -> tuple[int, ...]:
    """IMEX channels: none, or the one channel 0."""
    ids = tuple(whole(one) for one in value) if isinstance(value, list) else (-1,)
    if ids not in ((), (0,)):
        raise ValueError("the list is empty or has the one channel 0")
    return ids


def seconds(value: object) -> float | None:
    """A duration as Go writes it; None for ``infinite``."""
    said = text(value)
    if said == "infinite":
        return None
    match = _DURATION.fullmatch(said)
    if not said or match is None:
        raise ValueError("a duration such as 60s or 5m, or infinite")
    hours, minutes, secs, millis = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + secs + millis / 1000
    if total <= 0:
        raise ValueError("more than no time is wanted here")
    return total
