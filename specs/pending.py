"""Pending jobs as users write them to the solver's, and what can be wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solver.cluster import BUILT_IN_LEVELS
from solver.workload import Job, Role, SpreadRule, TopologyRule
from specs.hints import did_you_mean
from specs.queues import DEFAULT_QUEUE, unknown_queue
from specs.requests import inherited, request_faults, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from specs.errors import SpecFault
    from specs.loaded import LoadedSpec
    from specs.models.workload import JobSpec, RoleSpec, SpreadSpec, TopologyRuleSpec, WorkSpec
    from specs.places import Path

IMPLICIT_ROLE = "replica"
"""Name of the one role of a job that declares none."""

LEAST_STEP_S = 60
"""Least time between two looks at a service's load."""

WORK_KEYS = ("gpus", "gpu_memory", "mig", "cpu", "memory", "roles")
"""A job has one of these, or it asks for nothing at all."""


def compile_job(entry: JobSpec) -> Job:
    """The job of a sound entry."""
    roles = [_role(inherited(role, entry)) for role in entry.roles]
    if not roles:
        replicas = entry.replicas or 1
        roles = [
            Role(
                name=IMPLICIT_ROLE,
                shape=shape_of(entry),
                replicas=replicas,
                min_replicas=replicas if entry.min is None else entry.min,
            )
        ]
    rule, spread = entry.topology, entry.spread
    return Job(
        name=entry.name,
        roles=tuple(roles),
        queue=entry.queue or DEFAULT_QUEUE,
        priority=entry.priority,
        kind=entry.kind,
        gang=entry.gang,
        topology=topology_rule(rule),
        spread=spread_rule(spread),
        start_group=entry.start_group,
        must=entry.must,
    )


def topology_rule(rule: TopologyRuleSpec | None) -> TopologyRule | None:
    """Where the gang belongs together, as the solver says it."""
    if rule is None:
        return None
    return TopologyRule(within=rule.within, required=rule.mode == "required")


def spread_rule(rule: SpreadSpec | None) -> SpreadRule | None:
    """How replicas are kept apart, as the solver says it."""
    return None if rule is None else SpreadRule(over=rule.over, max_per=rule.max_per)


def _role(role: RoleSpec) -> Role:
    return Role(
        name=role.name,
        shape=shape_of(role),
        replicas=role.replicas,
        min_replicas=role.replicas if role.min is None else role.min,
    )


def job_faults(loaded: LoadedSpec) -> Iterator[SpecFault]:
    """What is wrong with pending jobs, each in itself and in what it refers to."""
    for index, entry in enumerate(loaded.spec.jobs):
        path: Path = ("jobs", index)
        yield from _size_faults(loaded, entry, path)
        yield from work_faults(loaded, entry, path)
        yield from _gang_faults(loaded, entry, path)
        yield from _time_faults(loaded, entry, path)
        yield from reference_faults_of(loaded, entry, path)


def _size_faults(loaded: LoadedSpec, entry: JobSpec, path: Path) -> Iterator[SpecFault]:
    written = loaded.document.value(loaded.origin(path))
    given = set(written) if isinstance(written, dict) else set()
    if not given.intersection(WORK_KEYS):
        hint = "Add gpus, cpu or roles"
        yield loaded.fault(path, "a job asks for something", hint, value=None)
    if entry.roles:
        for key in ("replicas", "min"):
            if key in given:
                hint = "Give it to each role"
                yield loaded.fault((*path, key), f"{key} belongs to the roles of this job", hint)
    elif entry.min is not None and not loaded.is_damaged((*path, "replicas")):
        replicas = entry.replicas or 1
        if entry.min > replicas:
            rule = f"min is above the {replicas} replicas that the job has"
            yield loaded.fault((*path, "min"), rule, "Lower min or raise replicas")
        elif entry.min == 0:
            yield loaded.fault((*path, "min"), "at least one replica starts", "Write min: 1")
    if entry.min is not None and not entry.gang:
        hint = "Remove min, or gang: false"
        yield loaded.fault((*path, "min"), "independent replicas have no minimum", hint)


def _gang_faults(loaded: LoadedSpec, entry: JobSpec, path: Path) -> Iterator[SpecFault]:
    """A gang of slices has to say that it can do without fast links."""
    slices = entry.mig or any(role.mig for role in entry.roles)
    members = sum(role.replicas for role in entry.roles) or entry.replicas or 1
    if slices and entry.gang and members > 1 and not entry.across_instances:
        rule = "a gang does not span MIG instances: no P2P joins them"
        hint = "Write gang: false for independent replicas, or across_instances: true"
        yield loaded.fault((*path, "mig") if entry.mig else path, rule, hint)


def _time_faults(loaded: LoadedSpec, entry: JobSpec, path: Path) -> Iterator[SpecFault]:
    """Keys that only a simulation looks at."""
    if entry.duration is not None and not entry.duration:
        hint = "Write 1s or more, or leave it out for a job that does not end"
        yield loaded.fault((*path, "duration"), "a job runs for some time", hint)
    checkpoint = entry.preemption.checkpoint
    if checkpoint is not None and not checkpoint:
        hint = "Write 1s or more, or leave it out for a job without checkpoints"
        yield loaded.fault((*path, "preemption", "checkpoint"), "time passes in between", hint)


def _load_faults(loaded: LoadedSpec, entry: WorkSpec, path: Path) -> Iterator[SpecFault]:
    """The daily load of a service."""
    if entry.load is None:
        return
    if entry.kind != "inference" or (entry.min is None and not entry.roles):
        hint = "Add kind: inference and min"
        yield loaded.fault((*path, "load"), "the load is that of a service with a floor", hint)
    if entry.load.step < LEAST_STEP_S:
        hint = "Write 15m"
        yield loaded.fault((*path, "load", "step"), "at least a minute passes in between", hint)


def work_faults(loaded: LoadedSpec, entry: WorkSpec, path: Path) -> Iterator[SpecFault]:
    """Rules inside pending or running work."""
    yield from request_faults(loaded, entry, path)
    if entry.start_group is not None and not entry.gang:
        rule = "only gangs start together, and this job has gang: false"
        yield loaded.fault((*path, "start_group"), rule, "Remove gang: false or start_group")
    yield from _role_faults(loaded, entry.roles, path)
    yield from _load_faults(loaded, entry, path)


def _role_faults(loaded: LoadedSpec, roles: Sequence[RoleSpec], path: Path) -> Iterator[SpecFault]:
    names: set[str] = set()
    for index, role in enumerate(roles):
        at = (*path, "roles", index)
        yield from request_faults(loaded, role, at)
        if role.name in names:
            yield loaded.fault((*at, "name"), "the name of a role is used twice in its job")
        names.add(role.name)
        sound = not loaded.is_damaged((*at, "replicas"))
        if role.min is not None and role.min > role.replicas and sound:
            rule = f"min is above the {role.replicas} replicas that the role has"
            yield loaded.fault((*at, "min"), rule, "Lower min or raise replicas")
    sound = not loaded.is_damaged((*path, "roles"))
    if roles and all(role.min == 0 for role in roles) and sound:
        rule, hint = "at least one replica starts", "Give one role a min of 1 or more"
        yield loaded.fault((*path, "roles"), rule, hint)


def reference_faults_of(loaded: LoadedSpec, entry: WorkSpec, path: Path) -> Iterator[SpecFault]:
    """Queues and levels that the work names and that do not exist."""
    origin = loaded.origin(path)
    if (*origin, "queue") not in loaded.damaged:
        yield from unknown_queue(loaded, entry.queue, path)
    if ("cluster", "levels") in loaded.damaged:
        return
    levels = loaded.spec.cluster.levels
    rule = "no such level"
    if entry.topology is not None:
        known = [*levels, *BUILT_IN_LEVELS]
        within = entry.topology.within
        if within not in known:
            hint = did_you_mean(within, known, "levels")
            yield loaded.fault((*path, "topology", "within"), rule, hint)
    if entry.spread is not None:
        known = [*levels, *(level for level in BUILT_IN_LEVELS if level != "island")]
        over = entry.spread.over
        if over == "island":
            hint = "Spread over node"
            yield loaded.fault((*path, "spread", "over"), "islands are inside a node", hint)
        elif over not in known:
            hint = did_you_mean(over, known, "levels")
            yield loaded.fault((*path, "spread", "over"), rule, hint)


def name_faults(loaded: LoadedSpec) -> Iterator[SpecFault]:
    """Names that pending and running work share; plans name work by them."""
    first: dict[str, int] = {}
    entries: list[tuple[Path, str]] = [
        *((("running", i, "job"), entry.job) for i, entry in enumerate(loaded.spec.running)),
        *((("jobs", i, "name"), entry.name) for i, entry in enumerate(loaded.spec.jobs)),
    ]
    for path, name in entries:
        line = loaded.document.place(loaded.origin(path)).line
        if name in first:
            hint = f"Line {first[name]} has it already"
            yield loaded.fault(path, "the name of a job is used twice", hint)
        first.setdefault(name, line)
