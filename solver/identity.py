"""Results that are kept for the very same objects, where looking at all they hold is the cost."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """A value that equals nothing but itself: the key of a cache over large frozen data.

    Problems that are derived from one another mostly share their nodes and their running work.
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
