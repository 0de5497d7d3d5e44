"""Rules of the game as users write them: queues, objectives, the reference, solver settings."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from specs.models.base import (
    Count,
    Decimal,
    Duration,
    Flag,
    Name,
    PositiveCount,
    Priority,
    Quantity,
    Seed,
    StrictModel,
    choice,
)
from specs.models.workload import RequestSpec

OBJECTIVE_NAMES = (
    "guarantee",
    "priority",
    "fairness",
    "preemption_cost",
    "topology",
    "stranded",
)
Objective = Annotated[
    Literal["guarantee", "priority", "fairness", "preemption_cost", "topology", "stranded"],
    choice(*OBJECTIVE_NAMES),
]
PreemptFor = Annotated[
    Literal["priority", "guarantee", "fair_share"], choice("priority", "guarantee", "fair_share")
]


class AmountsSpec(StrictModel):
    """Amounts of resources."""

    gpus: Quantity | None = Field(None, description="GPUs")
    cpu: Quantity | None = Field(None, description="Cores")
    memory: Quantity | None = Field(None, description="Memory")


class PastUseSpec(StrictModel):
    """GPU time that a queue has used."""

    gpu_hours: Decimal = Field(description="GPUs times hours")
    age: Duration = Field(Fraction(0), description="How long ago")


class FairShareSpec(StrictModel):
    """How fair shares look at the past."""

    half_life: Duration | None = Field(
        None,
        description="Time in which half of what a queue has used is forgotten; "
        "left out: only the present counts",
    )


class QueueSpec(StrictModel):
    """A tenant."""

    name: Name = Field(description="Name of the queue")
    parent: Name | None = Field(None, description="Queue that this one is part of")
    priority: Priority = Field(0, description="Order in which surplus is handed out")
    weight: Count = Field(1, description="Its part of the surplus, relative to its peers")
    quota: AmountsSpec = Field(default_factory=AmountsSpec, description="What it is guaranteed")
    limit: AmountsSpec = Field(default_factory=AmountsSpec, description="What it may use at most")
    trust: Name | None = Field(
        None, description="Its trust level, for sharing among: trust; default: that of its parent"
    )
    demand: AmountsSpec = Field(
        default_factory=AmountsSpec, description="What it wants; default: what runs and waits"
    )
    past: tuple[PastUseSpec, ...] = Field(
        (), description="What its own jobs have used; needs `fair_share.half_life`"
    )


class ReferenceSpec(RequestSpec):
    """A shape of the workload that "stranded" is relative to."""

    weight: PositiveCount = Field(1, description="How much it counts")


class DemandSpec(StrictModel):
    """A kind of demand that a fleet is cut for ahead of time."""

    name: Name = Field(description="Name of the kind")
    mig: dict[Name, PositiveCount] = Field(
        default_factory=dict, description="Slices that one of it takes, as in a job"
    )
    gpus: Count = Field(0, description="Whole GPUs that one of it takes")
    count: PositiveCount = Field(1, description="How many are wanted on average")
    weight: PositiveCount = Field(1, description="What admitting one is worth")
    variation: Decimal = Field(
        Fraction(0), description="How far the number varies: 0.3 is 30 % up and down"
    )


class MigRulesSpec(StrictModel):
    """How far a plan may change the MIG geometry."""

    cut_whole: Flag = Field(True, description="Whether GPUs that nobody holds may be cut")
    back_to_whole: Flag = Field(
        False, description="Whether GPUs in MIG mode that nobody uses may be whole again"
    )
    limit: Count | None = Field(
        None, description="Most GPUs whose geometry or mode one plan changes"
    )
    cost_gpu_s: Count = Field(
        0, description="What changing one GPU costs, in GPU-seconds, against stopping running work"
    )
    demand: tuple[DemandSpec, ...] = Field(
        (), description="Demand that `mig ahead` cuts the free GPUs for"
    )


class SharingSpec(StrictModel):
    """Who may share a GPU with whom."""

    among: Annotated[Literal["anybody", "queue", "trust"], choice("anybody", "queue", "trust")] = (
        Field(
            "anybody",
            description="Whose shares may be on one GPU: anybody's, a queue's, a trust level's",
        )
    )


def _workers_kind(value: object) -> str:
    return "auto" if isinstance(value, str) and not value[:1].isdigit() else "count"


Workers = Annotated[
    Annotated[Literal["auto"], choice("auto"), Tag("auto")]
    | Annotated[PositiveCount, Tag("count")],
    Discriminator(_workers_kind),
]


class SolveSpec(StrictModel):
    """Limits of the solver."""

    time_limit: Duration | None = Field(None, description="Wall-clock time, 30s by default")
    deterministic_limit: Decimal | None = Field(
        None, description="Limit in the solver's own, repeatable time"
    )
    workers: Workers = Field("auto", description="Search threads: auto or a number")
    seed: Seed = Field(1, description="Seed of everything random")
    gap: Decimal | None = Field(None, description="Relative gap that is good enough")
