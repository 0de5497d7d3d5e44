"""What long work reports while it runs, and how it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The best value and bound so far of the step that is being searched.

    `value` and `bound` are in the step's unit; `message` is the whole line for people.
    """

    elapsed_s: float
    tier: str
    value: float
    bound: float
    message: str


ProgressListener = Callable[[Progress], None]
