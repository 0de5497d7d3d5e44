"""How a device can be filled with shares: the maximal multisets of sizes that it holds.

Counting thousandths forgets that a share lives on *one* device: of a device with a share of 810,
the other 190 are lost to all that is larger. Patterns know it.
"""

from __future__ import annotations

from collections.abc import Sequence

Pattern = tuple[int, ...]
"""By size, how many of it share a device."""


def maximal_patterns(capacity: int, sizes: Sequence[int], most: int) -> tuple[Pattern, ...] | None:
    """The multisets of `sizes` (distinct, positive) within `capacity` that nothing can be added to.

    Returns
    -------
    tuple of Pattern or None
        By place in `sizes`, how many; None where there are more than `most`.

    Examples
    --------
    >>> maximal_patterns(1000, (810, 500, 300), 10)
    ((1, 0, 0), (0, 2, 0), (0, 1, 1), (0, 0, 3))
    >>> maximal_patterns(200, (810, 500, 300), 10)
    ()
    """
    order = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    falling = [sizes[place] for place in order]
    if not falling or falling[-1] > capacity:
        return ()
    found: list[Pattern] = []
    # Depth first, the larger sizes decided before the smaller; the smallest fills what is left.
    stack: list[tuple[tuple[int, ...], int]] = [((), capacity)]
    while stack:
        chosen, left = stack.pop()
        at = len(chosen)
        if at == len(falling) - 1:
            counts = (*chosen, left // falling[at])
            by_place = dict(zip(order, counts, strict=True))
            found.append(tuple(by_place[place] for place in range(len(sizes))))
            if len(found) > most:
                return None
            continue
        for count in range(left // falling[at] + 1):
            stack.append(((*chosen, count), left - count * falling[at]))
    return tuple(found)
