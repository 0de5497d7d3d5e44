"""A comparison as a table: one row per policy, the best values marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from report.folded import Cells, Column, Folded
from report.json_report import step_name
from report.text import percent, seconds
from solver.comparison import first_gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from solver.result import Metrics, ObjectiveTerm, SolveResult


def compare_view(results: Sequence[SolveResult]) -> RenderableType:
    """The comparison: one row per policy, the best value of each column marked with ``*``."""
    gaps = [first_gap(result) for result in results]
    columns = [
        Cells("status", [Text(result.status.value) for result in results], "left"),
        *(
            Cells(column.title, [column.cell(row) for row, _ in enumerate(results)])
            for column in _compare_columns([result.metrics for result in results])
        ),
        Cells("first gap", [Text(_gap_text(gap)) for gap in gaps], "left"),
        Cells("time", [Text(seconds(result.timing.total_s)) for result in results]),
    ]
    names = [Text(r.policy, style="bold" if r.policy.endswith("cp-sat") else "") for r in results]
    legend = (
        "* best of the column. first gap: how far the first tier that is not proved optimal is "
        "from its bound. Tiers are taken in their order, so a policy that is behind in an early "
        "one may be ahead in a later column."
    )
    return Group(Folded([Cells("policy", names, "left")], columns), Text(legend, style="dim"))


def _gap_text(gap: ObjectiveTerm | None) -> str:
    return "-" if gap is None else f"{percent(gap.gap_ratio)} {step_name(gap)}"


def _compare_columns(metrics: Sequence[Metrics]) -> list[Column]:
    columns = [
        Column("jobs", tuple(m.admitted_jobs for m in metrics), more_is_better=True),
        Column("GPUs", tuple(m.admitted_gpus for m in metrics), more_is_better=True),
        Column("stranded\nGPUs", tuple(m.stranded_gpus for m in metrics)),
        Column("fragm.\nGPUs", tuple(m.fragmentation_gpus for m in metrics)),
        Column("worst\nshare", tuple(m.worst_dominant_share for m in metrics), write=percent),
        Column("topology\ncost", tuple(m.topology_cost for m in metrics)),
    ]
    evictions = tuple(m.preemption_cost_gpu_s for m in metrics)
    if any(evictions):
        columns.append(Column("preemption\nGPU-s", evictions))
    return columns
