"""Critical errors of the driver (XIDs): what each says, and what the plugin does about it.

Numbers and names follow NVIDIA's catalogue of XID errors; the list of application errors is that of
NVIDIA's device plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class XidAction(StrEnum):
    """What is done when an XID arrives."""

    IGNORE = "ignore"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class Xid:
    """One row: action and reason."""

    action: XidAction
    reason: str


XIDS: Mapping[int, Xid] = {
    13: Xid(XidAction.IGNORE, "graphics engine exception, caused by the application"),
    31: Xid(XidAction.IGNORE, "memory page fault, caused by the application"),
    43: Xid(XidAction.IGNORE, "a program was stopped; the GPU works on"),
    45: Xid(XidAction.IGNORE, "clean-up after a program that ended early"),
    68: Xid(XidAction.IGNORE, "video processor exception, caused by the application"),
    109: Xid(XidAction.IGNORE, "context switch timed out, caused by the application"),
    48: Xid(XidAction.UNHEALTHY, "double-bit memory error"),
    63: Xid(XidAction.UNHEALTHY, "memory row is to be remapped at the next reset"),
    64: Xid(XidAction.UNHEALTHY, "memory row could not be remapped"),
    74: Xid(XidAction.UNHEALTHY, "NVLink error"),
    79: Xid(XidAction.UNHEALTHY, "the GPU has fallen off the bus"),
    94: Xid(XidAction.UNHEALTHY, "contained memory error"),
    95: Xid(XidAction.UNHEALTHY, "uncontained memory error"),
    119: Xid(XidAction.UNHEALTHY, "the GPU's system processor does not answer"),
    120: Xid(XidAction.UNHEALTHY, "error of the GPU's system processor"),
    140: Xid(XidAction.UNHEALTHY, "unrecovered memory error"),
}
"""Known XIDs; all others make the device unhealthy, as in NVIDIA's plugin."""

DISABLE, ENABLE = "DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS"
EVERYTHING = frozenset({"all", "xids"})


@dataclass(frozen=True, slots=True, kw_only=True)
class XidPolicy:
    """What is done about each XID.

    Parameters
    ----------
    off
        Whether no event is looked at.
    ignored, watched
        XIDs that differ from the table; `watched` wins.
    watch_all
        Whether also application errors make a device unhealthy.
    """

    off: bool = False
    ignored: frozenset[int] = frozenset()
    watched: frozenset[int] = frozenset()
    watch_all: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> XidPolicy:
        """Read NVIDIA's two variables; entries that are no number are skipped.

        Examples
        --------
        >>> policy = XidPolicy.from_environment({"DP_DISABLE_HEALTHCHECKS": "69,x"})
        >>> policy.action(69).value, policy.action(79).value
        ('ignore', 'unhealthy')
        """
        disabled, enabled = _words(environ.get(DISABLE, "")), _words(environ.get(ENABLE, ""))
        return cls(
            off=bool(disabled & EVERYTHING) and not enabled,
            ignored=_numbers(disabled),
            watched=_numbers(enabled),
            watch_all="all" in enabled,
        )

    def action(self, xid: int) -> XidAction:
        """What to do about an XID."""
        if self.watch_all or xid in self.watched:
            return XidAction.UNHEALTHY
        if self.off or xid in self.ignored:
            return XidAction.IGNORE
        known = XIDS.get(xid)
        return known.action if known else XidAction.UNHEALTHY


def reason(xid: int) -> str:
    """What an XID says, in words."""
    known = XIDS.get(xid)
    return f"XID {xid}: {known.reason}" if known else f"XID {xid}"


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in text.split(",") if word.strip())


def _numbers(words: frozenset[str]) -> frozenset[int]:
    return frozenset(int(word) for word in words if word.isdecimal())
