"""``mig plan``: what becomes of every GPU that is cut: a picture, for programs, for mig-parted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from report.mig_layouts_view import instances_report, picture, ruler, slot_width
from report.text import plural, seconds
from solver.geometry import gpu_plans, recut_gpus
from topology.mig.layouts import open_starts

if TYPE_CHECKING:
    from solver.geometry import GpuPlan
    from solver.problem import Problem
    from solver.result import SolveResult
    from topology.mig.layouts import Instance

PLAN_SCHEMA = "unstrand/mig-plan/v1"

RESETS = frozenset({"ampere"})
"""Architectures on which switching the MIG mode resets the GPU; later ones do without."""


def drained(problem: Problem, result: SolveResult, gpu: GpuPlan) -> list[str]:
    """Running work that the plan takes off a GPU, and that has to be gone before it is cut."""
    gone = result.plan.displaced
    return [
        job.name
        for job in problem.running
        for number, replica in enumerate(job.replicas)
        if number in gone.get(job.name, frozenset())
        and replica.node == gpu.node
        and gpu.gpu in replica.gpus
    ]


def mig_plan_report(problem: Problem, result: SolveResult) -> dict[str, Any]:
    """The answer of ``mig plan`` (schema ``unstrand/mig-plan/v1``)."""
    return {
        "schema": PLAN_SCHEMA,
        "status": result.status.value,
        "gpus": [_gpu_report(problem, result, gpu) for gpu in gpu_plans(problem, result.plan)],
        "recut": {
            "gpus": recut_gpus(problem, result.plan),
            "limit": problem.most_recut_gpus,
            "cost_gpu_s": problem.recut_cost_gpu_s,
        },
        "pending": [
            {"job": waiting.job, "reason": waiting.reason, "text": waiting.text}
            for waiting in result.pending
        ],
        "objectives": [
            {"name": t.name, "step": t.step, "unit": t.unit, "value": t.value, "bound": t.bound}
            for t in result.objectives
            if t.step in ("mig", "slices")
        ],
        "notes": list(result.notes),
    }


def _gpu_report(problem: Problem, result: SolveResult, gpu: GpuPlan) -> dict[str, Any]:
    return {
        "node": gpu.node,
        "gpu": gpu.gpu,
        "model": gpu.model,
        "mode": gpu.switch or "unchanged",
        "reset": bool(gpu.switch) and gpu.table.architecture in RESETS,
        "destroy": instances_report(gpu.destroy),
        "create": instances_report(gpu.creation.order),
        "final": [
            {"profile": instance.profile, "start": instance.start, "used_by": user or None}
            for instance, user in gpu.final
        ],
        "drain": drained(problem, result, gpu),
        "starts_must_be_passed": gpu.creation.starts_must_be_passed,
        "still_possible": [
            {"profile": profile.name, "starts": list(starts)}
            for profile in gpu.table.profiles
            if gpu.switch != "off" and (starts := open_starts(gpu.table, _instances(gpu), profile))
        ],
    }


def _instances(gpu: GpuPlan) -> tuple[Instance, ...]:
    return tuple(instance for instance, _ in gpu.final)


def _terms(problem: Problem, changed: int) -> str:
    """The limit and the price of changing GPUs, where the spec has any."""
    said = []
    if problem.most_recut_gpus is not None:
        said.append(f"at most {problem.most_recut_gpus} may be")
    if problem.recut_cost_gpu_s:
        said.append(f"at {changed * problem.recut_cost_gpu_s:,} GPU-s")
    return f" ({', '.join(said)})" if said else ""


def mig_plan_view(problem: Problem, result: SolveResult) -> RenderableType:
    """The answer of ``mig plan`` for people: a picture per GPU, then the steps in order."""
    gpus = gpu_plans(problem, result.plan)
    changed = [gpu for gpu in gpus if gpu.changed]
    headline = (
        f"{problem.name}: {result.status.value} plan by {result.policy}, checked, in "
        f"{seconds(result.timing.total_s)}; {plural(len(gpus), 'GPU')} in MIG mode, "
        f"{len(changed)} to be changed{_terms(problem, recut_gpus(problem, result.plan))}"
    )
    sections: list[RenderableType] = [Text(headline, style="bold")]
    for table in dict.fromkeys(gpu.table for gpu in gpus):
        width = slot_width(table, table.profiles)
        sections.append(Text(f"\n{table.model}, memory slots"))
        label = max(len(_name(gpu)) for gpu in gpus)
        rows = [f"{'':<{label}}  {ruler(table, width)}".rstrip()]
        for gpu in gpus:
            if gpu.table is table:
                drawn = picture(table, _instances(gpu), width).rstrip()
                drawn = "whole" if gpu.switch == "off" else drawn
                rows.append(f"{_name(gpu):<{label}}  {drawn}")
        sections.append(Text("\n".join(rows), no_wrap=True, overflow="ignore"))
    if changed:
        sections.append(Text("\nSteps, in order", style="bold"))
        lines = [line for gpu in changed for line in steps(problem, result, gpu)]
        # Never folded: the commands are to be copied.
        sections.append(Text("\n".join(lines), no_wrap=True, overflow="ignore"))
    if result.pending:
        sections.append(Text("\nWaits", style="bold"))
        lines = [f"{waiting.job}: {waiting.text}" for waiting in result.pending]
        sections.append(Text("\n".join(lines)))
    sections += [Text(f"note: {note}", style="yellow") for note in result.notes]
    return Group(*sections)


def _name(gpu: GpuPlan) -> str:
    return f"{gpu.node} gpu {gpu.gpu}"


def steps(problem: Problem, result: SolveResult, gpu: GpuPlan) -> list[str]:
    """What is done to one GPU, one line each, in an order in which a driver accepts it."""
    name = _name(gpu)
    lines = [f"{name}: wait until {job} is gone" for job in drained(problem, result, gpu)]
    lines += [f"{name}: destroy {instance}" for instance in gpu.destroy]
    if gpu.switch:
        reset = ", which resets the GPU" if gpu.table.architecture in RESETS else ""
        mode = int(gpu.switch == "on")
        lines.append(
            f"{name}: switch MIG mode {gpu.switch}{reset}   nvidia-smi -i {gpu.gpu} -mig {mode}"
        )
    by_profile = gpu.table.by_name
    if gpu.creation.order:
        ids = ",".join(f"{by_profile[i.profile].smi_id}:{i.start}" for i in gpu.creation.order)
        made = ", ".join(map(str, gpu.creation.order))
        lines.append(f"{name}: create {made}   nvidia-smi mig -i {gpu.gpu} -cgi {ids} -C")
    if gpu.creation.starts_must_be_passed:
        lines.append(f"{name}: the starts must be passed: no order of creation alone leads there")
    return lines


def mig_parted_config(problem: Problem, result: SolveResult) -> dict[str, Any]:
    """The plan as a mig-parted config: one entry per node. It has counts, and no placements."""
    configs: dict[str, list[dict[str, Any]]] = {}
    for gpu in gpu_plans(problem, result.plan):
        counted = Counter(instance.profile for instance, _ in gpu.final)
        entry = {
            "devices": [gpu.gpu],
            "mig-enabled": gpu.switch != "off",
            "mig-devices": dict(sorted(counted.items())),
        }
        configs.setdefault(gpu.node, []).append(entry)
    return {"version": "v1", "mig-configs": configs}


def held_gpus(problem: Problem, result: SolveResult) -> list[GpuPlan]:
    """GPUs with an instance in use: mig-parted clears a GPU whole before it cuts it."""
    plans = gpu_plans(problem, result.plan)
    return [gpu for gpu in plans if problem.node_by_name[gpu.node].used_layouts[gpu.gpu]]


def config_notes(problem: Problem, result: SolveResult) -> list[str]:
    """What a mig-parted config cannot do: change a GPU beside an instance in use."""
    return [
        f"{_name(gpu)}: an instance is in use, and mig-parted clears a GPU before it cuts it. "
        "Follow the steps of mig plan for this one"
        for gpu in held_gpus(problem, result)
        if gpu.changed
    ]


def checkpoint_notes(problem: Problem, result: SolveResult) -> list[str]:
    """GPUs that the checkpoints leave out."""
    return [
        f"{_name(gpu)}: left out, since an instance is in use and restoring a checkpoint clears "
        + ("the GPU. Follow the steps of mig plan for this one" if gpu.changed else "the GPU")
        for gpu in held_gpus(problem, result)
    ]


def mig_parted_checkpoint(problem: Problem, result: SolveResult) -> dict[str, Any]:
    """The plan as mig-parted checkpoints, one per node: these have placements.

    Restoring one clears each GPU that it names, so GPUs with an instance in use are left out. A
    spec does not know UUIDs: the place of each says which one to fill in.
    """
    nodes: dict[str, list[dict[str, Any]]] = {}
    held = held_gpus(problem, result)
    for gpu in gpu_plans(problem, result.plan):
        if gpu in held:
            continue
        nodes.setdefault(gpu.node, []).append(
            {
                "UUID": f"<uuid of GPU {gpu.gpu} of {gpu.node}>",
                "MigMode": int(gpu.switch != "off"),
                "GpuInstances": [_checkpoint_instance(gpu, i) for i in _instances(gpu)],
            }
        )
    return {
        name: {"Version": "v1", "MigState": {"Devices": devices}} for name, devices in nodes.items()
    }


FULL_COMPUTE_INSTANCE = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""NVML's number of the compute instance that takes all slices, by compute slices."""


def _checkpoint_instance(gpu: GpuPlan, instance: Instance) -> dict[str, Any]:
    profile = gpu.table.by_name[instance.profile]
    compute = {"ProfileID": FULL_COMPUTE_INSTANCE[profile.compute], "EngProfileID": 0}
    return {
        "ProfileID": profile.nvml_id,
        "Placement": {"Start": instance.start, "Size": profile.size},
        "ComputeInstances": [compute],
    }
