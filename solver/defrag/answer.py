"""What a defragmentation is asked and answers: pure data."""

from __future__ import annotations

from dataclasses import dataclass

from solver.defrag.steps import Schedule
from solver.problem import Problem
from solver.solution import Plan


class DefragmentationError(RuntimeError):
    """A plan, or the order of its steps, breaks a rule. It is our bug; it must not be used."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(f"defragmentation: {len(faults)} fault(s): " + "; ".join(faults[:3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What can be had for a price, and the plan for it.

    Parameters
    ----------
    cost_gpu_s, cost_bound_gpu_s
        Cost of the plan's moves and evictions, and what no plan as good can cost less than;
        detours of swap cycles come on top (`detour_gpu_s`).
    stranded_milli, stranded_bound_milli
        Stranded milli-GPU after the plan, times the weights of the reference (`scale` says how
        many are one GPU), and what no plan of that cost can be below. In a defragmentation for a
        job the bound is nothing that is looked for, and equal to the value.
    """

    plan: Plan
    schedule: Schedule
    cost_gpu_s: int
    cost_bound_gpu_s: int
    stranded_milli: int
    stranded_bound_milli: int

    @property
    def detour_gpu_s(self) -> int:
        """What breaking swap cycles costs on top of the plan."""
        return self.schedule.cost_gpu_s - self.cost_gpu_s

    @property
    def proved(self) -> bool:
        """Whether nothing better exists: neither less stranded for that price nor cheaper."""
        proved = self.cost_gpu_s == self.cost_bound_gpu_s and not self.detour_gpu_s
        return proved and self.stranded_milli == self.stranded_bound_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Defragmentation:
    """The answer.

    Parameters
    ----------
    question
        The problem that the plans answer and are verified against: moves need no reason, and
        only the job in question (with its start group) may start.
    target
        The job that is to start; None where the fewest stranded GPUs were asked for.
    points
        One for a job or a budget; otherwise the curve, cheapest first. Empty: the job cannot start
        whatever moves and stops (`excluded`), or no way was found in time.
    excluded
        Proved: no moves and evictions let the job start.
    present_stranded_milli, scale
        Stranded before anything moves; how many of these units are one GPU.
    complete
        The curve has every point there is.
    exhausted
        Nothing better than the last point's plan exists.
    """

    question: Problem
    target: str | None
    budget_gpu_s: int | None
    points: tuple[Point, ...]
    present_stranded_milli: int
    scale: int
    excluded: bool = False
    complete: bool = True
    exhausted: bool = True
    total_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Point | None:
        """The plan to carry out: of a curve the one with the fewest stranded GPUs."""
        return self.points[-1] if self.points else None

    @property
    def proved(self) -> bool:
        """Whether no better plan, with its steps, exists than the one to carry out."""
        return self.exhausted and self.best is not None and self.best.proved
