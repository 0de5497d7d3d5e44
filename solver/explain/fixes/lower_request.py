"""Ask for less per replica: the most of one resource with which the job fits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from solver.cluster import GPU_MILLI
from solver.explain.fixes.change import GONE_WITHOUT_S, Change, with_role
from solver.explain.question import Case, places_for
from solver.problem import Problem
from solver.result_text import amount_text
from solver.state import NodeState, initial_states
from solver.workload import Role, Shape

Field = str

TRIES = 6
"""Amounts of each that are proposed: which of them helps, only a whole solve can tell."""

PARTS: tuple[Field, ...] = ("gpus", "share_milli", "cpu_milli", "memory_mib")
"""What can be asked less of, by its field of `Shape`."""


def lower_request(case: Case) -> Iterator[Change]:
    """For each role and resource alone: the most that works, and less; cheapest first."""
    found = [
        change
        for role in case.part.roles
        for part in PARTS
        for change in _lowered(case, role, part)
    ]
    yield from sorted(found, key=lambda change: change.cost_gpu_s)


def _lowered(case: Case, role: Role, part: Field) -> Iterator[Change]:
    asked: int = getattr(role.shape, part)
    amounts = _amounts(case, role, part, asked)

    def works(amount: int) -> bool:
        return places_for(_to(case, role, part, amount)(case.claim)) is not None

    if not case.passed_over:
        fits = bool(amounts) and works(amounts[-1])
        amounts = amounts[bisect_left(amounts, True, key=works) :] if fits else []
    for amount in amounts[:TRIES]:
        yield _to_amount(case, role, part, amount)


def _to_amount(case: Case, role: Role, part: Field, most: int) -> Change:
    asked: int = getattr(role.shape, part)
    whose = "" if len(case.job.roles) == 1 else f" of {role.name}"
    replicas = role.min_replicas if case.job.gang else 1
    less = {"gpus": (asked - most) * GPU_MILLI, "share_milli": asked - most}.get(part, 0)
    return Change(
        kind="lower-request",
        text=f"ask for {_text(part, most)} per replica{whose} instead of {_text(part, asked)}",
        params={"role": role.name, "resource": part, "from": asked, "to": most},
        cost_gpu_s=-(-less * replicas * GONE_WITHOUT_S // GPU_MILLI),
        apply=_to(case, role, part, most),
    )


def _to(case: Case, role: Role, part: Field, amount: int) -> Callable[[Problem], Problem]:
    def lower(other: Role) -> Role:
        return replace(other, shape=_with(other.shape, part, amount))

    return with_role(case.job.name, role.name, lower)


def _with(shape: Shape, part: Field, amount: int) -> Shape:
    match part:
        case "gpus":
            return replace(shape, gpus=amount)
        case "share_milli":
            return replace(shape, share_milli=amount)
        case "cpu_milli":
            return replace(shape, cpu_milli=amount)
        case _:
            return replace(shape, memory_mib=amount)


def _amounts(case: Case, role: Role, part: Field, asked: int) -> list[int]:
    """Amounts below the one asked for at which a node takes one more, largest first."""
    if part == "gpus":
        return list(range(asked - 1, 0, -1))
    if not asked:
        return []
    states = initial_states(case.claim).values()
    lefts = {left for state in states for left in _left(state, part)}
    counts = range(1, role.min_replicas + 1) if case.job.gang else (1,)
    steps = {left // n for left in lefts for n in counts if 0 < left // n < asked}
    return sorted(steps, reverse=True)


def _left(state: NodeState, part: Field) -> list[int]:
    if part == "share_milli":
        return list(state.gpu_left)
    left = state.cpu_left if part == "cpu_milli" else state.memory_left
    return [] if left is None else [left]


def _text(part: Field, amount: int) -> str:
    match part:
        case "gpus":
            return amount_text("gpu_milli", amount * GPU_MILLI)
        case "share_milli":
            return amount_text("gpu_milli", amount)
        case "cpu_milli":
            return amount_text("cpu_milli", amount)
        case _:
            return amount_text("memory_mib", amount)
