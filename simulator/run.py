"""simulate(scenario, policy, seed): one run from the first arrival to the last end."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from simulator.engine import Engine, Observer
from simulator.finish_time import finish_times
from simulator.lives import Life, State
from simulator.metrics import Meter, percentile
from simulator.outcome import MOST_NAMED, JobOutcome, Left, Outcome, Summary
from simulator.policies import SimulationOptions, parse_simulation_policy
from simulator.scenario import MS, Scenario
from simulator.state import Cluster
from solver.cluster import GPU_MILLI

HOUR_MS = 3600 * MS

Listener = Callable[[int, int], None]
"""Told how many events have happened, and how many jobs have gone."""

EVERY = 512
"""Moments between two calls of a listener."""

ALLOCATIONS = 200_000
"""Objects that are made, less those that are gone, between two looks of the garbage collector."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector look seldom.

    A run makes millions of small objects that last and hardly any cycle; looking through them
    again and again takes a fifth of its time.
    """
    before = gc.get_threshold()
    gc.set_threshold(ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@rare_collections()
def simulate(
    scenario: Scenario,
    policy: str,
    seed: int = 1,
    options: SimulationOptions | None = None,
    *,
    observers: Sequence[Observer] = (),
    listener: Listener | None = None,
    series: bool = True,
) -> Outcome:
    """Replay a scenario under a policy.

    Parameters
    ----------
    policy
        ``ORDER+PLACEMENT``, or one of the two (see `simulator.policies`).
    seed
        For policies that draw; the same scenario, policy, options and seed give the same run.
    series
        Whether to keep the values over time.

    Raises
    ------
    solver.greedy.UnknownPolicyError
        There is no such policy.
    solver.problem.ProblemError
        The scenario contradicts itself.
    """
    began = time.monotonic()
    options = options or SimulationOptions()
    chosen = parse_simulation_policy(policy)
    cluster = chosen.cluster(scenario, seed, options)
    scheduler = chosen.scheduler(cluster, options)
    meter = Meter(scenario, series=series)
    engine = Engine(cluster, scheduler, [meter, *observers])
    moments = 0
    while engine.step():
        moments += 1
        if listener is not None and moments % EVERY == 0:
            listener(engine.events, len(cluster.lives) - len(cluster.waiting))
    for life in cluster.running.values():  # What runs on has done so up to the end of the run.
        life.advance(max(life.updated_ms, cluster.last_change_ms))
    summary = _summary(
        policy, seed, cluster, meter, scheduler.deadlocks, engine.events, time.monotonic() - began
    )
    return Outcome(
        summary=summary,
        jobs=tuple(_outcome(cluster, life) for life in cluster.lives),
        series=meter.series,
        log=tuple(cluster.log),
    )


def _outcome(cluster: Cluster, life: Life) -> JobOutcome:
    job = life.arrival.job
    ended = life.state in (State.FINISHED, State.FAILED, State.UNSCHEDULABLE)
    return JobOutcome(
        job=life.name,
        queue=job.queue,
        kind=job.kind,
        gpu_milli=_full_milli(cluster, life),
        arrival_ms=life.arrival.arrival_ms,
        start_ms=life.first_start_ms,
        end_ms=life.end_ms if ended else None,
        state=life.state,
        reason=life.reason,
        preemptions=life.preemptions,
        lost_gpu_ms=life.lost_gpu_ms // GPU_MILLI,
    )


def _full_milli(cluster: Cluster, life: Life) -> int:
    """GPU-milli of a job with all its replicas."""
    roles = life.arrival.job.roles
    return sum(cluster.problem.gpu_milli(role.shape) * role.replicas for role in roles)


def _summary(
    policy: str,
    seed: int,
    cluster: Cluster,
    meter: Meter,
    deadlocks: int,
    events: int,
    run_s: float,
) -> Summary:
    lives = cluster.lives
    count = {state: sum(life.state is state for life in lives) for state in State}
    waits = sorted(
        life.first_start_ms - life.arrival.arrival_ms
        for life in lives
        if life.first_start_ms is not None
    )
    done = [
        life
        for life in lives
        if life.end_ms is not None
        and life.first_start_ms is not None
        and life.state in (State.FINISHED, State.FAILED)
    ]
    # What does not end runs on: then the run lasts as long as anything changes.
    last_ms = cluster.last_change_ms if cluster.running else cluster.last_end_ms
    span_ms = (meter.first_ms if last_ms is None else last_ms) - meter.first_ms
    capacity = cluster.problem.capacity["gpu_milli"] or 0
    stranded, fragmented, busy = meter.means(span_ms, to_last_end=not cluster.running)
    lost_gpu_ms = sum(life.lost_gpu_ms for life in lives)
    utilization = busy * GPU_MILLI / capacity if capacity else 0.0
    lost = lost_gpu_ms / (capacity * span_ms) if capacity and span_ms else 0.0
    left = [life for life in lives if life.state in (State.UNSCHEDULABLE, State.WAITING)]
    jct = [(life.end_ms or 0) - life.arrival.arrival_ms for life in done]
    rho = finish_times(lives, capacity, [_full_milli(cluster, life) for life in lives])
    return Summary(
        policy=policy,
        seed=seed,
        finished=count[State.FINISHED],
        failed=count[State.FAILED],
        unschedulable=count[State.UNSCHEDULABLE],
        waiting=count[State.WAITING],
        running=count[State.RUNNING],
        left=tuple(
            Left(job=life.name, state=life.state, reason=life.reason) for life in left[:MOST_NAMED]
        ),
        utilization_ratio=utilization,
        goodput_ratio=max(0.0, utilization - lost),
        wait_mean_s=_mean_s(waits),
        wait_p50_s=_percentile_s(waits, 50),
        wait_p90_s=_percentile_s(waits, 90),
        wait_p99_s=_percentile_s(waits, 99),
        wait_max_s=_percentile_s(waits, 100),
        jct_mean_s=_mean_s(jct),
        stranded_gpus_mean=stranded,
        fragmentation_gpus_mean=fragmented,
        deadlocks=deadlocks,
        preemptions=sum(life.preemptions for life in lives),
        lost_gpu_h=lost_gpu_ms / GPU_MILLI / HOUR_MS,
        allocated_milli=sum(cluster.held_milli.values()),
        fragmentation_milli=meter.fragmented_milli,
        jain=meter.jain,
        share_gap_mean=meter.gap[0],
        share_gap_max=meter.gap[1],
        finish_rho_max=rho.worst,
        finish_rho_mean=rho.mean,
        makespan_s=span_ms / MS,
        events=events,
        run_s=run_s,
    )


def _mean_s(times_ms: Sequence[int]) -> float | None:
    return sum(times_ms) / len(times_ms) / MS if times_ms else None


def _percentile_s(sorted_ms: Sequence[int], percent: float) -> float | None:
    return percentile(sorted_ms, percent) / MS if sorted_ms else None
