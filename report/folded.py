"""Wide tables of numbers: folded where the terminal is narrow, the best of each column marked."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from report.console import new_table
from report.text import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Cells:
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
class Folded:
    """A table; where the terminal is too narrow for it, several below each other.

    Each begins with the columns `heads`, which say whose row it is.
    """

    heads: Sequence[Cells]
    others: Sequence[Cells]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich prints: as many tables as it takes."""
        part: list[Cells] = []
        taken = sum(column.width for column in self.heads)
        room = whole = options.max_width + 1 - taken  # nothing is beside the last
        for column in self.others:
            if part and column.width > room:
                yield self._table(part)
                yield Text()
                part, room = [], whole
            part.append(column)
            room -= column.width
        yield self._table(part)

    def _table(self, columns: Sequence[Cells]) -> Table:
        table = new_table()
        shown = [*self.heads, *columns]
        for column in shown:
            table.add_column(column.title, justify=column.justify, no_wrap=True)
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*row)
        return table


@dataclass(frozen=True, slots=True)
class Column:
    """A number of all policies; the best ones are marked unless all are equal."""

    title: str
    values: tuple[float, ...]
    more_is_better: bool = False
    write: Callable[[float], str] = amount
    compared: tuple[bool, ...] | None = None
    """Rows that may be the best; None is all of them."""

    def cell(self, row: int) -> Text:
        """What stands in a row; NaN is no number, and so "-"."""
        written = ["-" if isnan(value) else self.write(value) for value in self.values]
        text = written[row]
        compared = self.compared or (True,) * len(self.values)
        numbers = [
            value
            for value, may in zip(self.values, compared, strict=True)
            if may and not isnan(value)
        ]
        best = (max if self.more_is_better else min)(numbers, default=nan)
        alike = len(set(written)) == 1
        # Where there is no number or no best one, the difference is NaN, and no less than that.
        if alike or not compared[row] or not abs(self.values[row] - best) <= 1e-9:
            return Text(f"{text}  ")
        return Text(f"{text} *", style="bold green")
