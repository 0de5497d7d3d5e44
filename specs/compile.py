"""A spec to the problem that the solver answers: the only bridge between the two."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solver.options import SolveOptions
from solver.problem import OBJECTIVES, PREEMPT_FOR, Problem, ProblemError
from specs.errors import SpecErrors, SpecFault
from specs.hints import did_you_mean
from specs.machines import Machines, expand_machines
from specs.occupancy import Occupancy
from specs.pending import compile_job, job_faults, name_faults
from specs.queues import compile_queues, queue_faults
from specs.requests import request_faults, shape_of
from specs.sharing import job_in_group, share_group
from specs.slices import slice_faults, slices_of
from topology.hardware import canonical_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from solver.workload import RunningJob, Shape
    from specs.loaded import LoadedSpec
    from specs.places import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSpec:
    """What a spec says to the solver.

    Parameters
    ----------
    problem
        Machines, queues, work, objectives.
    options
        Limits of the solve that the spec asks for.
    notes
        Sentences for the user: what was assumed, and what this version does not act on.
    """

    problem: Problem
    options: SolveOptions
    notes: tuple[str, ...] = ()


def compile_spec(loaded: LoadedSpec) -> CompiledSpec:
    """Turn a spec into a problem.

    Parameters
    ----------
    loaded
        A spec read by `specs.loader.load_spec`.

    Raises
    ------
    SpecErrors
        Objects that contradict themselves, references to what does not exist, GPUs held twice,
        topology files that cannot be read. All of them, each with its place.
    """
    notes: list[str] = []
    machines, running, faults = _check(loaded, notes)
    if faults:
        raise SpecErrors(faults)
    spec = loaded.spec
    notes += _notes(loaded, machines)
    try:
        problem = Problem(
            name=spec.cluster.name,
            levels=spec.cluster.levels,
            nodes=tuple(machines.nodes.values()),
            queues=compile_queues(loaded),
            running=running,
            jobs=tuple(
                job_in_group(compile_job(entry), share_group(spec, entry)) for entry in spec.jobs
            ),
            objectives=spec.objectives or OBJECTIVES,
            preempt_for=PREEMPT_FOR if spec.preempt_for is None else spec.preempt_for,
            reference_shapes=_reference(loaded),
            most_recut_gpus=spec.mig.limit,
            recut_cost_gpu_s=spec.mig.cost_gpu_s,
        )
    except ProblemError as error:
        # A safety net: what it finds should have been found above, with its place.
        found = [SpecFault(file=loaded.file, rule=fault) for fault in error.faults]
        raise SpecErrors(found) from error
    notes += _overcommitted(problem)
    return CompiledSpec(problem=problem, options=_options(loaded), notes=tuple(notes))


def reference_faults(loaded: LoadedSpec) -> list[SpecFault]:
    """What is wrong between the objects of a spec, as far as they are sound themselves."""
    return _check(loaded, [])[2]


def _check(
    loaded: LoadedSpec, notes: list[str]
) -> tuple[Machines, tuple[RunningJob, ...], list[SpecFault]]:
    faults: list[SpecFault] = []
    machines = expand_machines(loaded, faults, notes)
    faults.extend(queue_faults(loaded))
    faults.extend(name_faults(loaded))
    faults.extend(job_faults(loaded))
    faults.extend(_rule_faults(loaded))
    faults.extend(_slice_faults(loaded, machines))
    running = Occupancy(loaded, machines, faults, notes).compile()
    return machines, running, faults


def _slice_faults(loaded: LoadedSpec, machines: Machines) -> Iterator[SpecFault]:
    """Slices that no GPU of the cluster has; where machines are at fault nobody can say."""
    if machines.unsure or not machines.nodes:
        return
    for index, kind in enumerate(loaded.spec.mig.demand):
        place: Path = ("mig", "demand", index)
        yield from slice_faults(loaded, kind, place, machines.nodes.values())
        if bool(kind.mig) == bool(kind.gpus):
            hint = "Give one of mig and gpus"
            yield loaded.fault(place, "a kind of demand takes slices or whole GPUs", hint)
    for index, job in enumerate(loaded.spec.jobs):
        path: Path = ("jobs", index)
        yield from slice_faults(loaded, job, path, machines.nodes.values())
        for number, role in enumerate(job.roles):
            at = (*path, "roles", number)
            yield from slice_faults(loaded, role, at, machines.nodes.values())


def _rule_faults(loaded: LoadedSpec) -> Iterator[SpecFault]:
    """Objectives, reference and solver settings."""
    spec = loaded.spec
    for key in ("objectives", "preempt_for"):
        names = getattr(spec, key) or ()
        for index, name in enumerate(names):
            if name in names[:index]:
                yield loaded.fault((key, index), "listed twice", "Remove one of them")
    if (
        spec.objectives is not None
        and not spec.objectives
        and not loaded.is_damaged(("objectives",))
    ):
        hint = "Remove the key for the default order"
        yield loaded.fault(("objectives",), "a plan has an objective", hint)
    for index, entry in enumerate(spec.reference):
        path = ("reference", index)
        if loaded.is_damaged(path):
            continue
        yield from request_faults(loaded, entry, path)
        if not (entry.gpus or entry.gpu_memory or entry.mig):
            hint = "Add gpus or gpu_memory"
            yield loaded.fault(path, "stranded GPUs are relative to work with GPUs", hint)
    if spec.solve.time_limit is not None and not spec.solve.time_limit:
        hint = "Write 1s or more"
        yield loaded.fault(("solve", "time_limit"), "a search needs time", hint)
    if spec.solve.deterministic_limit is not None and not spec.solve.deterministic_limit:
        yield loaded.fault(("solve", "deterministic_limit"), "a search needs time")


def _reference(loaded: LoadedSpec) -> tuple[tuple[Shape, int], ...] | None:
    if not loaded.spec.reference:
        return None
    weights: dict[Shape, int] = {}
    for entry in loaded.spec.reference:
        shape = shape_of(entry)
        weights[shape] = weights.get(shape, 0) + entry.weight
    return tuple(weights.items())


def _options(loaded: LoadedSpec) -> SolveOptions:
    solve = loaded.spec.solve
    limit = solve.deterministic_limit
    return SolveOptions(
        time_limit_s=30.0 if solve.time_limit is None else float(solve.time_limit),
        deterministic_limit=None if limit is None else float(limit),
        workers=solve.workers if isinstance(solve.workers, int) else None,
        seed=solve.seed,
        gap=0.0 if solve.gap is None else float(solve.gap),
    )


def _notes(loaded: LoadedSpec, machines: Machines) -> list[str]:
    """What the spec says and this version does not act on, and what is probably a slip."""
    spec = loaded.spec
    notes = []
    models = {
        model for node in machines.nodes.values() for model in node.topology.gpu_models if model
    }
    asked = {
        model
        for work in (*spec.jobs, *spec.running)
        for request in (work, *work.roles)
        for model in request.gpu_models
        if canonical_model(model) not in models
    }
    requests = [r for work in (*spec.jobs, *spec.running) for r in (work, *work.roles)]
    if any(request.gpus and request.gpu_memory for request in requests):
        notes.append(
            "memory limits of shares hold where MPS enforces them (sharing.mps of the plugin);"
            " time-slicing keeps nobody from taking all the memory of a GPU"
        )
    several = [
        work.name
        for work in spec.jobs
        if any(len(slices_of(request)) > 1 for request in (work, *work.roles))
    ]
    if several:
        more = f" and {len(several) - 3:,} more" if len(several) > 3 else ""
        notes.append(
            f"several kinds of MIG instance in one replica: {', '.join(several[:3])}{more}; one "
            "container sees them all only where the plugin's deviceListStrategy is cdi-cri or "
            "volume-mounts, and a process of CUDA uses one"
        )
    for model in sorted(asked):
        hint = did_you_mean(model, models)
        notes.append(f"no node has a GPU of model {model}" + (f". {hint}" if hint else ""))
    return notes


def _overcommitted(problem: Problem) -> list[str]:
    """Nodes whose running work asks for more CPU or memory than there is: no fault, but odd."""
    cpu_milli: Counter[str] = Counter()
    memory_mib: Counter[str] = Counter()
    for replica in (replica for job in problem.running for replica in job.replicas):
        cpu_milli[replica.node] += replica.cpu_milli
        memory_mib[replica.node] += replica.memory_mib
    found = []
    for node in problem.nodes:
        missing = []
        if node.cpu_milli is not None and cpu_milli[node.name] > node.cpu_milli:
            missing.append(f"{(cpu_milli[node.name] - node.cpu_milli) / 1000:g} cores")
        if node.memory_mib is not None and memory_mib[node.name] > node.memory_mib:
            missing.append(f"{memory_mib[node.name] - node.memory_mib:,} MiB")
        if missing:
            more = " and ".join(missing)
            found.append(f"{node.name}: running work asks for {more} more than there is")
    return found
