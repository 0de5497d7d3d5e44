"""Traces whose tenants have machines of their own: virtual clusters (VC)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.scenario import Rejected, Scenario
from simulator.traces.cells import wall_text
from simulator.traces.machines import nodes_of
from simulator.traces.submission import Selector, Submission, arrivals_of, cpu_gang, gang
from simulator.traces.table import TraceError, near_and_known
from simulator.traces.window import Window
from solver.workload import Queue, Role

LABEL = "vc"
"""Label of a node that says whose it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    """The machines of a tenant: how many GPUs they have, and what each node has besides.

    Without any GPU it is one node, for work without GPUs.
    """

    name: str
    gpus: int
    node_cpu_milli: int | None = None
    node_memory_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VcJob:
    """A row of a trace, as far as it could be read.

    Parameters
    ----------
    line
        1-based line in the file.
    submit_ms, start_ms
        On the clock of the trace, since 1970; None where they are unreadable or not there.
    gpus, cpu_milli
        What the gang asks for together.
    nodes
        Nodes that a job without GPUs runs on.
    memory_mib
        Memory of each replica.
    fault
        Rule that the row breaks, besides those of its VC and its submission; empty: none.
    """

    file: str
    line: int
    vc: str
    submit_ms: int | None
    start_ms: int | None = None
    duration_ms: int = 0
    gpus: int = 0
    cpu_milli: int = 0
    nodes: int = 1
    memory_mib: int = 0
    outcome: Literal["finished", "failed"] = "finished"
    fault: str = ""

    def roles(self, selector: Selector) -> tuple[Role, ...]:
        """Its replicas, on nodes with these labels."""
        if self.gpus:
            return gang(self.gpus, selector, self.cpu_milli, self.memory_mib)
        return cpu_gang(self.cpu_milli, self.nodes, selector, self.memory_mib)


def pick(
    file: str, clusters: Sequence[VirtualCluster], jobs: Iterable[VcJob], name: str
) -> VirtualCluster:
    """The VC of that name.

    Raises
    ------
    TraceError
        There is none, or it has jobs but no size.
    """
    found = next((cluster for cluster in clusters if cluster.name == name), None)
    if found is not None:
        return found
    if any(job.vc == name for job in jobs):
        rule, hint = f'nobody says how many nodes the VC "{name}" has', "Say how many nodes it has"
    else:
        rule = f'the trace has no VC "{name}"'
        hint = near_and_known(name, [cluster.name for cluster in clusters], "VCs")
    raise TraceError(file, rule, hint)


def vc_scenario(
    name: str,
    jobs: Sequence[VcJob],
    clusters: Sequence[VirtualCluster],
    only: VirtualCluster | None = None,
    window: Window | None = None,
    broken: Iterable[Rejected] = (),
    notes: Sequence[str] = (),
) -> Scenario:
    """Jobs in one virtual cluster, or in all of them side by side.

    The jobs are named ``<vc>-<line in the file>``, since traces repeat ids and rows.

    Parameters
    ----------
    only
        The one to look at: the cluster is its nodes. None: all of them, each with a waiting line
        and machines of its own.
    window
        Submissions to keep; time begins with it. None: all, from the first one on.
    broken
        Rows of which not even the VC could be read.
    """
    labels: dict[str, Selector] = {
        cluster.name: () if only else ((LABEL, cluster.name),)
        for cluster in ([only] if only else clusters)
    }
    kept, rejected, outside_ms = list[Submission](), list(broken), list[int]()
    for job in jobs:
        if only is not None and job.vc != only.name:
            continue
        if job.submit_ms is None:
            reason = "unreadable time of submission"
        elif window is not None and job.submit_ms not in window:
            outside_ms.append(job.submit_ms)
            continue
        elif job.vc not in labels:
            reason = f'VC "{job.vc}" without a size' if job.vc else "no VC"
        elif job.fault:
            reason = job.fault
        else:
            submission = Submission(
                name=f"{job.vc}-{job.line}",
                queue=job.vc,
                submit_ms=job.submit_ms,
                duration_ms=job.duration_ms,
                roles=job.roles(labels[job.vc]),
                outcome=job.outcome,
            )
            kept.append(submission)
            continue
        rejected.append(Rejected(file=job.file, line=job.line, reason=reason))
    if outside_ms and not kept:
        span = f"{wall_text(min(outside_ms))} to {wall_text(max(outside_ms))}"
        notes = [*notes, f"No job is of the time asked for; others are of {span}."]
    return Scenario(
        name=name,
        nodes=tuple(
            node
            for cluster in ([only] if only else clusters)
            for node in nodes_of(
                cluster.name,
                cluster.gpus,
                label="" if only else LABEL,
                cpu_milli=cluster.node_cpu_milli,
                memory_mib=cluster.node_memory_mib,
            )
        ),
        arrivals=arrivals_of(kept, window.since_ms if window else None),
        queues=tuple(Queue(name=vc) for vc in labels),
        lines="cluster" if only else "queue",
        rejected=tuple(sorted(rejected, key=lambda row: (row.file, row.line))),
        notes=tuple(notes),
    )
