"""Tenants as users write them: who they are, what they need, how they behave."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from specs.models.base import (
    Count,
    Decimal,
    Flag,
    Name,
    PositiveCount,
    Quantity,
    StrictModel,
    choice,
)


class TenantSpec(StrictModel):
    """A tier of tenants that are alike, for `advise`."""

    name: Name = Field(description="Name of the tier")
    trusted: Flag = Field(True, description="Whether they may suffer from each other's faults")
    work: Annotated[
        Literal["latency", "batch", "interactive"], choice("latency", "batch", "interactive")
    ] = Field("batch", description="latency, batch or interactive")
    gpu_memory: Quantity | None = Field(None, description="GPU memory that one of them needs")
    busy: Decimal = Field(
        Fraction(1), description="Part of a GPU that one keeps busy on average: 0.25"
    )
    burst: Flag = Field(False, description="Whether it needs more than that at times")
    count: PositiveCount = Field(1, description="How many there are")
    gpus: Count = Field(0, description="Whole GPUs that one needs, where it is more than one")
    oversubscribe: Flag = Field(
        False, description="Whether they may be busier together than the GPU; memory never is"
    )
