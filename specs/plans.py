"""Saved plans back in: the plan of ``solve --save``, checked field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from solver.cluster import GPU_MILLI
from solver.solution import Eviction, Move, PlacedInstance, Placement, Plan
from specs.saved import read_model, refused
from topology.mig.layouts import Instance

if TYPE_CHECKING:
    from pathlib import Path

PLAN_SCHEMA = "unstrand/solve/v1"
MAX_PLAN_BYTES = 1 << 30
HINT = "Write one with solve --save"


class _InstanceEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    gpu: Annotated[int, Field(ge=0)]
    profile: str
    start: Annotated[int, Field(ge=0)]


class _PlacementEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    job: str
    role: str
    replica: Annotated[int, Field(ge=0)]
    node: str
    gpus: list[Annotated[int, Field(ge=0)]]
    share_milli: Annotated[int, Field(ge=0, le=GPU_MILLI)] = GPU_MILLI
    instances: list[_InstanceEntry] = Field(default_factory=list)


class _EvictionEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    job: str
    replicas: list[Annotated[int, Field(ge=0)]]


class _PlaceEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    node: str
    gpus: list[Annotated[int, Field(ge=0)]]
    share_milli: Annotated[int, Field(ge=0, le=GPU_MILLI)] = GPU_MILLI


class _MoveEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    job: str
    replica: Annotated[int, Field(ge=0)]
    to: _PlaceEntry


class _PlanFile(BaseModel):
    model_config = ConfigDict(strict=True)

    schema_: Annotated[str, Field(alias="schema")]
    placements: list[_PlacementEntry]
    evictions: list[_EvictionEntry] = []
    moves: list[_MoveEntry] = []
    spec: str = ""


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it was saved; `spec` is the text that it answers, empty where it is not there."""

    plan: Plan
    spec: str


def load_plan(path: Path) -> Plan:
    """The starts, evictions and moves of a saved plan; other keys are not looked at.

    Raises
    ------
    SpecErrors
        The file is no plan; the first things that are wrong with it.
    OSError
        It cannot be read.
    """
    return load_saved(path).plan


def load_saved(path: Path) -> SavedPlan:
    """A saved plan with its spec.

    Raises
    ------
    SpecErrors
        The file is no plan; the first things that are wrong with it.
    OSError
        It cannot be read.
    """
    plan = read_model(path, _PlanFile, "plan", MAX_PLAN_BYTES, HINT)
    if plan.schema_ != PLAN_SCHEMA:
        raise refused(path, f'a plan has the schema "{PLAN_SCHEMA}"', HINT)
    return SavedPlan(_plan(plan), plan.spec)


def _plan(file: _PlanFile) -> Plan:
    return Plan.of(
        placements=[
            Placement(
                job=entry.job,
                role=entry.role,
                replica=entry.replica,
                node=entry.node,
                gpus=tuple(entry.gpus),
                share_milli=entry.share_milli,
                instances=tuple(
                    sorted(
                        PlacedInstance(i.gpu, Instance(i.start, i.profile)) for i in entry.instances
                    )
                ),
            )
            for entry in file.placements
        ],
        evictions=[Eviction(e.job, tuple(sorted(e.replicas))) for e in file.evictions],
        moves=[
            Move(m.job, m.replica, m.to.node, tuple(m.to.gpus), m.to.share_milli)
            for m in file.moves
        ],
    )
