"""Who gets what, where some things serve several wishes: the most pairs (Kuhn's algorithm)."""

from __future__ import annotations

from collections.abc import Callable


def matched(wishes: int, given: int, serves: Callable[[int, int], bool]) -> dict[int, int]:
    """Each thing that is used, to the wish that it serves; as many wishes as can be.

    A wish whose things are all taken asks those who have them to take others.

    Parameters
    ----------
    serves
        Whether a wish (first argument) is served by a thing.

    Examples
    --------
    The first wish would take anything, the second only the first thing.

    >>> matched(2, 2, lambda wish, thing: wish == 0 or thing == 0)
    {0: 1, 1: 0}
    """
    serving: dict[int, int] = {}

    def seat(wish: int, asked: set[int]) -> bool:
        for thing in range(given):
            if thing in asked or not serves(wish, thing):
                continue
            asked.add(thing)
            if thing not in serving or seat(serving[thing], asked):
                serving[thing] = wish
                return True
        return False

    for wish in range(wishes):
        seat(wish, set())
    return serving
