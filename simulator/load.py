"""When services look at their load: at the steps at which one of them wants another number.

Between those nothing can change, so the simulation goes from one to the next, however far apart
they are.
"""

from __future__ import annotations

from bisect import bisect_left
from math import gcd

from simulator.lives import Life
from simulator.scenario import DAY_MS, DailyLoad
from simulator.state import Cluster

MOST_TURNS = 1000
"""Half days that are searched at once; a step of which none is near is looked at in vain."""


def next_change_ms(load: DailyLoad, floor: int, ceiling: int, now_ms: int) -> int | None:
    """The first step after a moment at which another number is wanted than at that moment.

    None where there is none. From the highest to the lowest load and back the curve only falls or
    only rises, so within half a day the step is found by bisection.

    Examples
    --------
    >>> hour_ms = 3600 * 1000
    >>> next_change_ms(DailyLoad(), 0, 2, 2 * hour_ms) / hour_ms  # least at 02:00, none of two
    6.0
    >>> next_change_ms(DailyLoad(step_ms=DAY_MS), 0, 2, 0) is None
    True
    """
    step_ms = load.step_ms
    if step_ms < 1 or ceiling == floor:
        return None
    wanted = load.replicas(floor, ceiling, now_ms)
    half_ms = DAY_MS // 2
    phases = DAY_MS // gcd(DAY_MS, step_ms)

    def differs(n: int) -> bool:
        return load.replicas(floor, ceiling, n * step_ms) != wanted

    first = n = now_ms // step_ms + 1
    for _ in range(MOST_TURNS):
        turn_ms = load.peak_ms - (load.peak_ms - n * step_ms) // half_ms * half_ms
        last = max(n, turn_ms // step_ms)
        if differs(n):
            return n * step_ms
        if differs(last):
            return (n + bisect_left(range(n, last + 1), True, key=differs)) * step_ms
        n = last + 1
        if n - first >= phases:  # All times of day that there are.
            return None
    return n * step_ms


class Looks:
    """Knows the next moment at which services have to look.

    Parameters
    ----------
    cluster
        With the services that run.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        loads = [a.load for a in cluster.scenario.everyone if a.load is not None]
        self._step_ms = min((load.step_ms for load in loads if load.step_ms > 0), default=0)
        self._known: dict[str, tuple[int, int | None]] = {}

    def __bool__(self) -> bool:
        """Whether anybody has a load at all."""
        return self._step_ms > 0

    def first_ms(self) -> int:
        """The first step from now on: work that stands has not been looked at yet."""
        return self._after(self._cluster.now_ms)

    def next_ms(self, patience_ms: int, *, settled: bool) -> int | None:
        """The next moment at which a service wants another number than now.

        Parameters
        ----------
        patience_ms
            Until when those who wait may hope; the first step after it is looked at too.
        settled
            Whether who wants more than there was room for finds none while nothing happens.
        """
        cluster = self._cluster
        elastic = cluster.elastic.values()
        due = [self._change_ms(life) for life in elastic if life.arrival.load is not None]
        if cluster.waiting:
            due.append(self._after(patience_ms))
        if not settled and any(life.held < life.wanted(cluster.now_ms) for life in elastic):
            due.append(self._after(cluster.now_ms))
        return min((at for at in due if at is not None and at > cluster.now_ms), default=None)

    def _after(self, time_ms: int) -> int:
        return (time_ms // self._step_ms + 1) * self._step_ms

    def _change_ms(self, life: Life) -> int | None:
        load, job, now_ms = life.arrival.load, life.arrival.job, self._cluster.now_ms
        assert load is not None
        wanted, (known, at_ms) = life.wanted(now_ms), self._known.get(life.name, (-1, None))
        if known != wanted or (at_ms is not None and at_ms <= now_ms):
            at_ms = next_change_ms(load, job.min_replicas, job.replicas, now_ms)
            self._known[life.name] = (wanted, at_ms)
        return at_ms
