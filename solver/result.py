"""What a policy answers: the plan, each objective with its bound, and why jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from solver.solution import Plan
from solver.workload import ResourceName

FactValue = int | float | str | list[int] | dict[str, str]


class SolveStatus(StrEnum):
    """How far the answer goes."""

    OPTIMAL = "optimal"
    """Every tier's gap is 0, proved."""
    FEASIBLE = "feasible"
    """A checked plan; at least one tier has a gap."""
    INFEASIBLE = "infeasible"
    """A job marked `must` is proved unable to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improved:
    """The best plan found, with the bound proved in each step (in the order of the ruler)."""

    plan: Plan
    bounds: tuple[int, ...]
    build_s: float
    solve_s: float
    notes: tuple[str, ...]

    @classmethod
    def nothing(cls, plan: Plan) -> Improved:
        """A plan of which nothing is proved yet."""
        return cls(plan=plan, bounds=(), build_s=0.0, solve_s=0.0, notes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveTerm:
    """One step of the lexicographic order, with what was proved of it.

    Parameters
    ----------
    name, level, step
        Tier, priority level (None outside `priority`) and step inside the tier.
    value, bound
        In `unit`. The bound holds for every plan at least as good as ours in the steps before.
    """

    name: str
    level: int | None
    step: str
    sense: Literal["max", "min"]
    unit: str
    value: float
    bound: float

    @property
    def gap_ratio(self) -> float:
        """``|bound - value| / max(|bound|, |value|, 1)``."""
        return abs(self.bound - self.value) / max(abs(self.bound), abs(self.value), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A job that waits (wholly, or replicas of it that are independent), and why.

    `reason` is one of the contract's words; `text` one line for people; `facts` its numbers.
    """

    job: str
    reason: str
    text: str
    facts: Mapping[str, FactValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """Replicas of a running job that stop, by number, and what that costs in GPU-seconds."""

    job: str
    replicas: tuple[int, ...]
    gpu_milli: int
    cost_gpu_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A running replica that goes on elsewhere, and what that costs in GPU-seconds."""

    job: str
    replica: int
    from_node: str
    from_gpus: tuple[int, ...]
    to_node: str
    to_gpus: tuple[int, ...]
    gpu_milli: int
    cost_gpu_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """What a queue may have, wants and has once the plan has started.

    Amounts by resource in the units of `ResourceName` (milli-GPU, milli-CPU, MiB). `past_gpu_s` is
    what it has used before, decayed, and `weight_now` what that makes of its weight.
    """

    name: str
    quota: Mapping[ResourceName, int]
    demand: Mapping[ResourceName, int]
    used: Mapping[ResourceName, int]
    entitled: Mapping[ResourceName, int]
    dominant_share: float
    borrowed_from: Mapping[str, int] = field(default_factory=dict)
    past_gpu_s: float = 0.0
    weight_now: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The state of the cluster once the plan has started.

    GPU amounts are in GPUs. `stranded_by_shape` and `stranded_by_cause` add up, weighted, to
    `stranded_gpus`; causes are ``shape``, ``cpu``, ``memory`` and ``links``.
    """

    admitted_jobs: int
    admitted_gpus: float
    pending_jobs: int
    pending_gpus: float
    free_gpus: float
    stranded_gpus: float
    stranded_by_shape: Mapping[str, float]
    stranded_by_cause: Mapping[str, float]
    fragmentation_gpus: float
    utilization_ratio: float
    worst_dominant_share: float
    topology_cost: float
    topology_cost_by_step: Mapping[str, float]
    preemption_cost_gpu_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Wall-clock seconds of the parts of a solve."""

    build_s: float = 0.0
    solve_s: float = 0.0
    verify_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveResult:
    """A checked plan and all that is said about it.

    `model` is how the plan was found (``direct`` CP-SAT, or ``greedy``); `notes` are
    sentences for people (a limit that was reached, a tier that could not be searched).
    """

    status: SolveStatus
    policy: str
    model: str
    plan: Plan
    objectives: tuple[ObjectiveTerm, ...]
    pending: tuple[Pending, ...]
    queues: tuple[QueueReport, ...]
    metrics: Metrics
    timing: Timing
    notes: tuple[str, ...] = ()
    must_fail: tuple[str, ...] = ()
    evictions: tuple[Evicted, ...] = ()
    moves: tuple[Moved, ...] = ()
