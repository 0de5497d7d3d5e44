"""A spec to the scenario that the simulator replays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from simulator.scenario import MS, Arrival, DailyLoad, Scenario, Standing
from solver.solution import Placement
from solver.workload import Job, Role, Shape

if TYPE_CHECKING:
    from collections.abc import Collection

    from solver.workload import RunningJob
    from specs.compile import CompiledSpec
    from specs.loaded import LoadedSpec
    from specs.models.workload import JobSpec, RunningSpec, WorkSpec


def scenario_of(loaded: LoadedSpec, compiled: CompiledSpec) -> Scenario:
    """What happens over time to the work of a sound spec.

    Jobs without an arrival come at time 0, those without a duration do not end. Independent
    replicas (``gang: false``) become jobs of their own, ``NAME/0`` and so on. Running work ends
    as ``ends_in`` says.
    """
    problem, spec = compiled.problem, loaded.spec
    taken = {*(job.name for job in problem.jobs), *(job.name for job in problem.running)}
    arrivals = [
        arrival
        for entry, job in zip(spec.jobs, problem.jobs, strict=True)
        for arrival in _arrivals(entry, job, taken)
    ]
    standing = [
        _standing(entry, job) for entry, job in zip(spec.running, problem.running, strict=True)
    ]
    return Scenario(
        name=problem.name,
        levels=problem.levels,
        nodes=problem.nodes,
        queues=problem.queues,
        half_life_ms=_maybe_ms(spec.fair_share.half_life),
        arrivals=tuple(sorted(arrivals, key=lambda arrival: arrival.arrival_ms)),
        standing=tuple(standing),
        reference_shapes=problem.reference,
        notes=(*compiled.notes, *_notes(spec.jobs)),
    )


def _arrivals(entry: JobSpec, job: Job, taken: Collection[str]) -> list[Arrival]:
    arrival = Arrival(
        job=job,
        arrival_ms=_ms(entry.arrival or Fraction(0)),
        duration_ms=_maybe_ms(entry.duration),
        preemptible=entry.preemption.allowed,
        checkpoint_ms=_maybe_ms(entry.preemption.checkpoint),
        restart_ms=60 * MS if entry.preemption.restart is None else _ms(entry.preemption.restart),
        load=_load(entry),
    )
    if job.gang or job.replicas == 1:
        return [arrival]
    ones = [
        replace(role, replicas=1, min_replicas=1)
        for role in job.roles
        for _ in range(role.replicas)
    ]
    mark = "/"
    while any(f"{job.name}{mark}{n}" in taken for n in range(len(ones))):
        mark += "/"  # Another job bears such a name.
    names = [f"{job.name}{mark}{n}" for n in range(len(ones))]
    return [
        replace(arrival, job=replace(job, name=name, roles=(role,), gang=True))
        for name, role in zip(names, ones, strict=True)
    ]


def _load(entry: WorkSpec) -> DailyLoad | None:
    if entry.load is None:
        return None
    return DailyLoad(peak_ms=_ms(entry.load.peak), step_ms=_ms(entry.load.step))


def _standing(entry: RunningSpec, job: RunningJob) -> Standing:
    shapes = list(dict.fromkeys(job.shapes))
    names = {shape: f"replica-{n}" for n, shape in enumerate(shapes)}
    roles = _roles(job, names)
    left_ms = None
    if job.ends_in_s is not None:  # at the size that it has now, which may grow
        full = sum(role.replicas for role in roles)
        left_ms = max(1, ceil(job.ends_in_s * MS * len(job.replicas) / full))
    number: Counter[Shape] = Counter()
    placements = []
    for replica, shape in zip(job.replicas, job.shapes, strict=True):
        placements.append(
            Placement(
                job=job.name,
                role=names[shape],
                replica=number[shape],
                node=replica.node,
                gpus=replica.gpus,
                share_milli=replica.share_milli,
            )
        )
        number[shape] += 1
    arrival = Arrival(
        job=Job(
            name=job.name, roles=roles, queue=job.queue, priority=job.priority, kind=entry.kind
        ),
        arrival_ms=0,
        duration_ms=left_ms,
        preemptible=job.preemption.allowed,
        checkpoint_ms=_maybe_ms(entry.preemption.checkpoint),
        restart_ms=job.preemption.restart_s * MS,
        load=_load(entry),
    )
    return Standing(
        arrival=arrival,
        placements=tuple(placements),
        checkpoint_age_ms=job.preemption.checkpoint_age_s * MS,
    )


def _roles(job: RunningJob, names: dict[Shape, str]) -> tuple[Role, ...]:
    """One role per shape; a job of one shape may shrink to its floor and grow to what it wants."""
    counts = Counter(job.shapes)
    if len(counts) > 1:
        return tuple(
            Role(name=names[shape], shape=shape, replicas=n, min_replicas=n)
            for shape, n in counts.items()
        )
    ((shape, held),) = counts.items()
    floor = held if job.min_replicas is None else min(held, max(1, job.min_replicas))
    wanted = max(held, job.wanted_replicas or held)
    return (Role(name=names[shape], shape=shape, replicas=wanted, min_replicas=floor),)


def _ms(duration: Fraction) -> int:
    """Whole milliseconds, rounded up so that nothing becomes nothing."""
    return ceil(duration * MS)


def _maybe_ms(duration: Fraction | None) -> int | None:
    return None if duration is None else _ms(duration)


def _notes(jobs: tuple[JobSpec, ...]) -> list[str]:
    notes = []
    endless = [entry.name for entry in jobs if entry.duration is None and entry.kind == "training"]
    if endless:
        more = f" and {len(endless) - 3} more" if len(endless) > 3 else ""
        notes.append(f"without a duration they never end: {', '.join(endless[:3])}{more}")
    split = [entry.name for entry in jobs if not entry.gang and (entry.replicas or 1) > 1]
    if split:
        notes.append(f"independent replicas count as jobs of their own: {', '.join(split[:3])}")
    return notes
