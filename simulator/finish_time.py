"""Finish-time fairness: how much longer jobs took than on an n-th of the cluster of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.lives import Life, State


@dataclass(frozen=True, slots=True)
class FinishTimes:
    """Largest and mean rho of the jobs that ended; None where none did."""

    worst: float | None
    mean: float | None


def finish_times(
    lives: Sequence[Life], capacity_milli: int, gpu_milli: Sequence[int]
) -> FinishTimes:
    """Rho of every job that ran to its end: ``(end - arrival) / T_id``.

    ``T_id`` is what the job takes on an n-th of the cluster, n being the mean number of jobs that
    were in the system with it (itself included): its run time, times how often its GPUs are more
    than that part, ``duration * max(1, gpus * n / capacity)``. Above 1, the job would have been
    better off with a fixed part of the cluster.

    Parameters
    ----------
    gpu_milli
        What each job asks for with all its replicas.

    References
    ----------
    K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, section 3.1;
    n as a mean over the job's life as in P. Zheng et al., "Shockwave", NSDI 2023.
    """
    spans = [
        (life.arrival.arrival_ms, life.end_ms)
        for life in lives
        if life.state is not State.UNSCHEDULABLE
    ]
    present_ms = _Presence(spans)
    found = []
    for life, milli in zip(lives, gpu_milli, strict=True):
        done = life.state in (State.FINISHED, State.FAILED) and life.first_start_ms is not None
        if not done or life.end_ms is None or life.arrival.duration_ms is None:
            continue
        took_ms = life.end_ms - life.arrival.arrival_ms
        if not took_ms:
            continue
        jobs = present_ms(life.arrival.arrival_ms, life.end_ms) / took_ms
        squeeze = milli * jobs / capacity_milli if capacity_milli else 1.0
        found.append(took_ms / (life.arrival.duration_ms * max(1.0, squeeze)))
    if not found:
        return FinishTimes(None, None)
    return FinishTimes(max(found), sum(found) / len(found))


class _Presence:
    """How much time jobs spent in the system, summed over them; in whole milliseconds."""

    def __init__(self, spans: Sequence[tuple[int, int | None]]) -> None:
        changes: dict[int, int] = {0: 0}
        for arrival_ms, end_ms in spans:
            changes[arrival_ms] = changes.get(arrival_ms, 0) + 1
            if end_ms is not None:
                changes[end_ms] = changes.get(end_ms, 0) - 1
        self._sums: dict[int, int] = {}
        total = present = at_ms = 0
        for time_ms in sorted(changes):
            total += present * (time_ms - at_ms)
            present += changes[time_ms]
            at_ms = time_ms
            self._sums[time_ms] = total

    def __call__(self, from_ms: int, to_ms: int) -> int:
        """Between two moments at which a job arrives or ends."""
        return self._sums[to_ms] - self._sums[from_ms]
