"""A comparison as a table: one row per policy, the best values marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from report.console import new_table
from report.json_report import step_name
from report.text import amount, percent, seconds
from solver.comparison import first_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from solver.result import Metrics, ObjectiveTerm, SolveResult


def compare_view(results: Sequence[SolveResult]) -> RenderableType:
    """The comparison: one row per policy, the best value of each column marked with ``*``."""
    gaps = [first_gap(result) for result in results]
    columns = [
        _Cells("status", [Text(result.status.value) for result in results], "left"),
        *(
            _Cells(column.title, [column.cell(row) for row, _ in enumerate(results)])
            for column in _compare_columns([result.metrics for result in results])
        ),
        _Cells("first gap", [Text(_gap_text(gap)) for gap in gaps], "left"),
        _Cells("time", [Text(seconds(result.timing.total_s)) for result in results]),
    ]
    names = [Text(r.policy, style="bold" if r.policy.endswith("cp-sat") else "") for r in results]
    legend = (
        "* best of the column. first gap: how far the first tier that is not proved optimal is "
        "from its bound. Tiers are taken in their order, so a policy that is behind in an early "
        "one may be ahead in a later column."
    )
    return Group(_Folded(_Cells("policy", names, "left"), columns), Text(legend, style="dim"))


def _gap_text(gap: ObjectiveTerm | None) -> str:
    return "-" if gap is None else f"{percent(gap.gap_ratio)} {step_name(gap)}"


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column of the table."""

    title: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        """Columns of the terminal, with the space beside."""
        words = [*self.title.split("\n"), *(cell.plain for cell in self.cells)]
        return max(map(len, words)) + 2


@dataclass(frozen=True, slots=True)
class _Folded:
    """A table; where the terminal is too narrow for it, several below each other."""

    first: _Cells
    others: Sequence[_Cells]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich prints: as many tables as it takes, each beginning with the first column."""
        part: list[_Cells] = []
        room = whole = options.max_width + 1 - self.first.width  # nothing is beside the last
        for column in self.others:
            if part and column.width > room:
                yield self._table(part)
                yield Text()
                part, room = [], whole
            part.append(column)
            room -= column.width
        yield self._table(part)

    def _table(self, columns: Sequence[_Cells]) -> Table:
        table = new_table()
        shown = [self.first, *columns]
        for column in shown:
            table.add_column(column.title, justify=column.justify, no_wrap=True)
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*row)
        return table


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
