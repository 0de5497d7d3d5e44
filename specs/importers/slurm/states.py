"""Words of the state of a Slurm node, and whether a node with them takes work."""

from __future__ import annotations

DOWN = frozenset(
    (
        *("DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "NOT_RESPONDING", "NO_RESPOND"),
        *("INVAL", "INVALID", "INVALID_REG", "POWERING_DOWN", "REBOOT_ISSUED"),
    )
)
"""Nothing runs there: gone, not registered as it is configured, or on the way down."""
CLOSED = frozenset(
    (
        *("DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE", "RESERVED", "BLOCKED", "REBOOT"),
        *("POWER_DOWN", "POWER_DRAIN"),
    )
)
"""What runs goes on, nothing new starts."""
OPEN = frozenset(
    (
        *("IDLE", "ALLOCATED", "MIXED", "COMPLETING", "CLOUD", "PLANNED", "POWERED_DOWN"),
        *("POWERING_UP", "POWER_UP", "RESUME", "UNDRAIN", "DYNAMIC_NORM", "DYNAMIC_FUTURE"),
        *("EXTERNAL", "PERFCTRS", "REBOOT_REQUESTED", "REBOOT_CANCELED"),
    )
)
"""Takes work; a node that is powered down is powered up for it."""
MARKS = {
    "*": "NOT_RESPONDING",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINTENANCE",
    "^": "REBOOT_ISSUED",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "-": "PLANNED",
    "@": "REBOOT_REQUESTED",
}
"""What sinfo writes after a state."""


def states(text: str) -> set[str]:
    """Words of a state, marks included.

    Examples
    --------
    >>> sorted(states("IDLE*+DRAIN"))
    ['DRAIN', 'IDLE', 'NOT_RESPONDING']
    """
    words: set[str] = set()
    for part in text.split("+"):
        word = part.rstrip("".join(MARKS))
        words |= {word} | {MARKS[mark] for mark in part[len(word) :]}
    return words - {""}
