"""Amounts: too little of a resource, or enough of it but in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver import metrics
from solver.cluster import GPU_MILLI
from solver.fit import fit
from solver.reasons.desk import Desk
from solver.reasons.guaranteed import kept_by_guarantee
from solver.reasons.verdict import Verdict, amount_text, main_shape, number, wish
from solver.result import FactValue
from solver.result_text import counted
from solver.room import Lift, lifted, plain
from solver.slices import free_slots
from solver.state import NodeState
from solver.workload import Job, ResourceName, Shape

AMOUNTS = (Lift.CPU, Lift.MEMORY)


def amounts(desk: Desk, job: Job) -> Verdict:
    """What the job lacks where no rule stands in its way."""
    shape = main_shape(desk.problem, job)
    room = desk.room(desk.after, job)
    for rule in () if room.fits else AMOUNTS:
        if desk.room(desk.after, lifted(job, [rule])).fits:
            return _tell_scarce(desk, job, rule, shape)
    if shape.slices:
        return _slices(desk, job)
    if not shape.wants_gpu:
        cpu_fits = desk.room(desk.after, lifted(job, [Lift.CPU])).fits
        return _tell_scarce(desk, job, Lift.MEMORY if cpu_fits else Lift.CPU, shape)
    needs = desk.need(job, "gpu_milli") / GPU_MILLI
    free = desk.free(shape)
    if free < needs:
        each = "" if job.gang or job.replicas == 1 else " for each replica"
        text = f"wants {counted(number(needs), 'GPU')}{each}; {number(free)} free"
        elsewhere = number(desk.free_anywhere - free)
        text += f" where it may run, {elsewhere} elsewhere" if elsewhere else ""
        text += kept_by_guarantee(desk, job)
        return Verdict("gpu-short", text, {"short": number(needs - free)})
    placed = room.placed
    best = desk.best_node(shape)
    per_replica = wish(replace(plain(job.roles[0]), cpu_milli=0, memory_mib=0))
    if job.min_replicas == 1:
        text = f"wants {per_replica} on one node; {number(free)} free, at most {best} on one"
    else:
        text = (
            f"wants {counted(number(needs), 'GPU')} in {job.min_replicas} replicas; "
            f"{number(free)} free, but only {counted(sum(placed.values()), 'replica')} fit"
        )
    return Verdict("gpu-fragmented", text, {})


def _slices(desk: Desk, job: Job) -> Verdict:
    """Slices: how many GPUs have room for one, and what else there is."""
    shape = main_shape(desk.problem, job)
    wanted = metrics.shape_label(shape)
    roomy = sum(fit(n, shape, desk.after[n.name]) for n in desk.problem.nodes)
    free = free_slots(desk.problem, desk.after, shape)
    short = roomy == 0 and free == 0
    limit = desk.problem.most_recut_gpus
    text = f"wants {wanted}; no GPU that may be cut has free slots"
    if not short:
        slots = "1 memory slot is" if free == 1 else f"{free} memory slots are"
        text = f"wants {wanted}; {slots} free, but not where such slices begin"
    if roomy and limit is not None:
        gpus = counted(limit, "GPU")
        text = f"wants {wanted}; a plan may change the geometry of {gpus}"
    elif roomy:
        text = f"wants {wanted} in {job.min_replicas} replicas; room for {roomy}"
    facts: dict[str, FactValue] = {"free_slots": free, "room": roomy}
    return Verdict("gpu-short" if short else "gpu-fragmented", text, facts)


def _tell_scarce(desk: Desk, job: Job, rule: Lift, shape: Shape) -> Verdict:
    resource: ResourceName = "cpu_milli" if rule is Lift.CPU else "memory_mib"
    without = main_shape(desk.problem, lifted(job, [rule]))
    able = np.flatnonzero(desk.stock.most(without))
    lefts = (_left(desk.stock.states[n], resource) for n in able)
    most = max((left for left in lefts if left is not None), default=0)
    asked = desk.problem.amount(shape, resource)
    where = "where its GPUs are free" if shape.wants_gpu else "on any node"
    text = (
        f"wants {amount_text(resource, asked)} per replica; "
        f"at most {amount_text(resource, most)} left {where}"
    )
    return Verdict(rule.value, text, {f"needs_{resource}": asked, f"best_{resource}": most})


def _left(state: NodeState, resource: ResourceName) -> int | None:
    return state.cpu_left if resource == "cpu_milli" else state.memory_left
