"""The spec as a whole: one file, one cluster, its queues and its work."""

from __future__ import annotations

from pydantic import Field

from specs.models.base import StrictModel
from specs.models.cluster import Cluster
from specs.models.policy import (
    FairShareSpec,
    MigRulesSpec,
    Objective,
    PreemptFor,
    QueueSpec,
    ReferenceSpec,
    SharingSpec,
    SolveSpec,
)
from specs.models.tenants import TenantSpec
from specs.models.workload import JobSpec, RunningSpec


class ClusterSpec(StrictModel):
    """A GPU cluster with its queues, running and pending work, and what counts as a good plan."""

    cluster: Cluster = Field(description="The machines")
    queues: tuple[QueueSpec, ...] = Field(
        (), description="Tenants; left out: one queue named default"
    )
    fair_share: FairShareSpec = Field(
        default_factory=FairShareSpec, description="How fair shares look at the past"
    )
    running: tuple[RunningSpec, ...] = Field((), description="Work that holds GPUs now")
    jobs: tuple[JobSpec, ...] = Field((), description="Pending jobs in order of arrival")
    objectives: tuple[Objective, ...] | None = Field(
        None, description="Tiers in the order in which they are solved"
    )
    preempt_for: tuple[PreemptFor, ...] | None = Field(
        None, description="Reasons for which running work may give way"
    )
    reference: tuple[ReferenceSpec, ...] = Field(
        (), description="Workload that stranded is relative to; left out: the spec's own jobs"
    )
    mig: MigRulesSpec = Field(
        default_factory=MigRulesSpec, description="How far a plan may change the MIG geometry"
    )
    sharing: SharingSpec = Field(
        default_factory=SharingSpec, description="Who may share a GPU with whom"
    )
    tenants: tuple[TenantSpec, ...] = Field((), description="Tiers of tenants, for `advise`")
    solve: SolveSpec = Field(default_factory=SolveSpec, description="Limits of the solver")
