"""A comparison as a table: one row per policy, the best values marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from report.console import new_table
from report.json_report import step_name
from report.text import amount, percent, seconds
from solver.comparison import first_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from solver.result import Metrics, SolveResult


def compare_view(results: Sequence[SolveResult]) -> RenderableType:
    """The comparison: one row per policy, the best value of each column marked with ``*``."""
    table = new_table()
    table.add_column("policy", no_wrap=True)
    table.add_column("status", no_wrap=True)
    columns = _compare_columns([result.metrics for result in results])
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    table.add_column("first gap", min_width=15)
    table.add_column("time", justify="right", no_wrap=True)
    for row, result in enumerate(results):
        ours = result.policy.endswith("cp-sat")
        gap = first_gap(result)
        table.add_row(
            Text(result.policy, style="bold" if ours else ""),
            result.status.value,
            *(column.cell(row) for column in columns),
            "-" if gap is None else f"{percent(gap.gap_ratio)} {step_name(gap)}",
            seconds(result.timing.total_s),
        )
    legend = (
        "* best of the column. first gap: how far the first tier that is not proved optimal is "
        "from its bound. Tiers are taken in their order, so a policy that is behind in an early "
        "one may be ahead in a later column."
    )
    return Group(table, Text(legend, style="dim"))


@dataclass(frozen=True, slots=True)
class _Column:
    """A number of all policies; the best ones are marked unless all are equal."""

    title: str
    values: tuple[float, ...]
    more_is_better: bool = False
    write: Callable[[float], str] = amount

    def cell(self, row: int) -> Text:
        text = self.write(self.values[row])
        alike = len({self.write(value) for value in self.values}) == 1
        best = (max if self.more_is_better else min)(self.values)
        if alike or abs(self.values[row] - best) > 1e-9:
            return Text(f"{text}  ")
        return Text(f"{text} *", style="bold green")


def _compare_columns(metrics: Sequence[Metrics]) -> list[_Column]:
    columns = [
        _Column("jobs", tuple(m.admitted_jobs for m in metrics), more_is_better=True),
        _Column("GPUs", tuple(m.admitted_gpus for m in metrics), more_is_better=True),
        _Column("stranded\nGPUs", tuple(m.stranded_gpus for m in metrics)),
        _Column("fragm.\nGPUs", tuple(m.fragmentation_gpus for m in metrics)),
        _Column("worst\nshare", tuple(m.worst_dominant_share for m in metrics), write=percent),
        _Column("topology\ncost", tuple(m.topology_cost for m in metrics)),
    ]
    evictions = tuple(m.preemption_cost_gpu_s for m in metrics)
    if any(evictions):
        columns.append(_Column("preemption\nGPU-s", evictions))
    return columns
