"""The arrivals of a window of time, and whether they are still what prices were made for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from solver.prices.market import plain
from solver.workload import Shape

Workload = tuple[tuple[Shape, int], ...]
"""Shapes and how often they come."""

DRIFT = 0.2
"""Part of the GPUs asked for that other shapes would have to ask for, for prices to be old."""

FEWEST = 500
"""Replicas in the window before it is believed: of fewer, chance alone makes such a part."""

LOOKS = 20
"""How often, while the window fills once, it is held against what was expected."""


class Observed:
    """What has come in the last `window_ms`, beside what prices were made for.

    Two workloads differ by the total variation ``1/2 Σ |p - q|`` of what each shape asks for, as a
    part of all: the part of the GPUs that would have to be asked for by others.

    Parameters
    ----------
    expected
        What the first prices are made for.
    worth
        What one replica of a shape counts for; its GPUs.
    """

    def __init__(
        self,
        window_ms: int,
        expected: Iterable[tuple[Shape, int]],
        worth: Callable[[Shape], float],
    ) -> None:
        self._window_ms, self._worth = window_ms, worth
        self._expected = self._parts(expected)
        self._coming: deque[tuple[int, Shape, int]] = deque()
        self._counts: Counter[Shape] = Counter()
        self._unseen = 0

    def hear(self, shape: Shape, replicas: int, at_ms: int) -> bool:
        """Count what comes; whether the window has drifted from what was expected."""
        self._coming.append((at_ms, shape, replicas))
        self._counts[shape] += replicas
        self._unseen += replicas
        while self._coming[0][0] <= at_ms - self._window_ms:
            _, old, many = self._coming.popleft()
            self._counts[old] -= many
            if not self._counts[old]:
                del self._counts[old]
        total = self._counts.total()
        if total < FEWEST or self._unseen * LOOKS < total:
            return False
        self._unseen = 0
        return self.drift > DRIFT

    @property
    def drift(self) -> float:
        """From 0, what was expected, to 1, nothing of it."""
        now = self._parts(self._counts.items())
        return (
            sum(
                abs(now.get(shape, 0.0) - self._expected.get(shape, 0.0))
                for shape in now.keys() | self._expected.keys()
            )
            / 2
        )

    def renew(self) -> Workload:
        """Expect from now on what is in the window; that workload."""
        self._expected = self._parts(self._counts.items())
        return tuple(self._counts.items())

    def _parts(self, workload: Iterable[tuple[Shape, int]]) -> dict[Shape, float]:
        """What shapes, as prices see them, ask for, as parts of all."""
        asked: dict[Shape, float] = {}
        for shape, count in workload:
            seen = plain(shape)
            asked[seen] = asked.get(seen, 0.0) + count * self._worth(shape)
        total = sum(asked.values()) or 1.0
        return {shape: amount / total for shape, amount in asked.items()}
