"""Curves of a run for a picture: few enough points to draw, with the areas of the many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]

BINS = 120
"""Spans that a curve over time is thinned to: with more, several curves hide each other."""
POINTS = 1000
"""Points that a distribution is thinned to: more than its panel has pixels."""


def thinned(
    times: Sequence[int], values: Sequence[float], bins: int = BINS
) -> tuple[Floats, Floats]:
    """A step curve of few points.

    A curve that has more than `bins` points becomes its time-weighted means over that many equal
    spans, so that no area is lost.

    Parameters
    ----------
    times
        When each value begins, in order; it holds until the next one does.

    Returns
    -------
    tuple
        Times and values, in the same sense.

    Examples
    --------
    >>> times, values = thinned([0, 1, 4, 8], [2, 6, 1, 0], bins=2)
    >>> times.tolist(), values.tolist()
    ([0.0, 4.0, 8.0], [5.0, 1.0, 1.0])
    """
    at, held = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if len(at) <= bins or at[0] == at[-1]:
        return at, held
    areas = np.concatenate([[0.0], np.cumsum(held[:-1] * np.diff(at))])
    edges = np.linspace(at[0], at[-1], bins + 1)
    means = np.diff(np.interp(edges, at, areas)) / np.diff(edges)
    return edges, np.append(means, means[-1])


def area(times: Sequence[int], values: Sequence[float]) -> float:
    """What lies below a step curve.

    Examples
    --------
    >>> area([0, 1, 4, 8], [2, 6, 1, 0])
    24.0
    """
    return float(np.diff(np.asarray(times)) @ np.asarray(values, dtype=float)[:-1])


def cumulative(values: Sequence[float], points: int = POINTS) -> tuple[Floats, Floats]:
    """Which part of some values is at most this large: a step curve from 0 to 1.

    Examples
    --------
    >>> at, part = cumulative([3, 0, 5, 0])
    >>> at.tolist(), part.tolist()
    ([0.0, 0.0, 0.0, 3.0, 5.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    at = np.sort(np.asarray(values, dtype=float))
    part = np.arange(1, len(at) + 1) / max(1, len(at))
    if len(at) > points:
        kept = np.unique(np.linspace(0, len(at) - 1, points).round().astype(int))
        at, part = at[kept], part[kept]
    return np.concatenate([at[:1], at]), np.concatenate([[0.0] * min(1, len(at)), part])
