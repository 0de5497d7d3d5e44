"""Lists of host names as Slurm writes them: ``n[001-016,20],login1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HOSTS = 100_000
_PART = re.compile(r"([^\[\],\s]*)\[([0-9,-]+)\]|([^\[\],\s]+)", re.ASCII)


class HostlistError(ValueError):
    """A text that is no list of hosts."""


def hosts(text: str) -> tuple[str, ...]:
    """Names of a list, in its order.

    Raises
    ------
    HostlistError
        The text is no such list, or stands for more than 100,000 hosts.

    Examples
    --------
    >>> hosts("n[08-10,12],login")
    ('n08', 'n09', 'n10', 'n12', 'login')
    >>> hosts("rack[1-2]n[1-2]")
    ('rack1n1', 'rack1n2', 'rack2n1', 'rack2n2')
    """
    found: list[str] = []
    for entry in _entries(text):
        names = [""]
        at = 0
        while at < len(entry):
            match = _PART.match(entry, at)
            if match is None:
                raise HostlistError(f'"{entry}" is no list of hosts')
            parts = [match[3]] if match[3] else [match[1] + n for n in _numbers(match[2], entry)]
            if len(names) * len(parts) > MAX_HOSTS:
                raise HostlistError(f"more than {MAX_HOSTS} hosts")
            names = [name + part for name in names for part in parts]
            at = match.end()
        found += names
        if len(found) > MAX_HOSTS:
            raise HostlistError(f"more than {MAX_HOSTS} hosts")
    return tuple(found)


def _entries(text: str) -> Iterator[str]:
    """Parts between commas that are outside of brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise HostlistError(f'"{text[:60]}": brackets do not match')
        if character == "," and depth == 0:
            if text[start:at].strip():
                yield text[start:at].strip()
            start = at + 1
    if depth:
        raise HostlistError(f'"{text[:60]}": brackets do not match')
    if text[start:].strip():
        yield text[start:].strip()


def _numbers(text: str, entry: str) -> Iterator[str]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first or (dash and not last) or len(part) > 40 or "-" in last:
            raise HostlistError(f'"{entry}" is no list of hosts')
        low, high = int(first), int(last or first)
        if high < low or high - low >= MAX_HOSTS:
            raise HostlistError(f'"{part}" is no range of up to {MAX_HOSTS} hosts')
        yield from (str(number).zfill(len(first)) for number in range(low, high + 1))
