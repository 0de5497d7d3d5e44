"""Curves over arrived demand, as published for openb: allocated and fragmented GPUs by level.

After every arrival: ``arrived = 100 * demand of all pods so far / capacity`` (dropped ones too),
``allocated`` likewise, rounded to two decimals, and ``fragmented``. The value at level L is the
mean over all arrivals whose `arrived` rounds (half to even) to L; where there are none, over those
whose rounded `arrived` is within 1 of L.

References
----------
Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Level:
    """Mean percentages of the cluster's GPUs at one level of arrived demand."""

    level: int
    allocated_pct: float
    fragmented_pct: float


def levels(outcome: Outcome, capacity_milli: int, wanted: Sequence[int]) -> dict[int, Level]:
    """The curve of an arrivals-only run, whose series has one row for every arrival.

    Parameters
    ----------
    wanted
        Levels, in percent of the cluster; those that no arrival is near are left out.
    """
    arrived = 0
    at: dict[int, list[tuple[float, float]]] = {}
    series = outcome.series
    rows = zip(outcome.jobs, series.held_milli, series.fragmented_milli, strict=True)
    for job, held, fragmented in rows:
        arrived += job.gpu_milli
        point = (round(100 * held / capacity_milli, 2), 100 * fragmented / capacity_milli)
        at.setdefault(round(100 * arrived / capacity_milli), []).append(point)
    found = {}
    for level in wanted:
        points = at.get(level) or [p for near in (-1, 0, 1) for p in at.get(level + near, ())]
        if points:
            allocated, fragments = zip(*points, strict=True)
            found[level] = Level(level, sum(allocated) / len(points), sum(fragments) / len(points))
    return found
