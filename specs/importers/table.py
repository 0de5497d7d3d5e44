"""CSV files of published traces: bounded, maybe compressed, bad cells as faults with lines."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specs.errors import SpecErrors, SpecFault, shown
from specs.hints import did_you_mean
from specs.models.quantity import MIB
from specs.reading import read_bounded, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

MAX_TABLE_BYTES = 256 * MIB
"""Largest table, unpacked: the published ones have a few MiB."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: where it stands and what its cells are, by name of the column."""

    file: str
    line: int
    cells: Mapping[str, str]
    order: tuple[str, ...]

    def fault(self, column: str, rule: str, hint: str = "") -> SpecFault:
        """A fault in one of the cells."""
        before = [self.cells[name] for name in self.order[: self.order.index(column)]]
        return SpecFault(
            file=self.file,
            line=self.line,
            column=sum(len(cell) + 1 for cell in before) + 1,
            path=column,
            value=shown(self.cells[column]),
            rule=rule,
            hint=hint,
        )


@dataclass
class Cells:
    """Reads cells of rows; what is wrong with them adds up in `faults`."""

    faults: list[SpecFault] = field(default_factory=list)

    def whole(self, row: Row, column: str, most: int) -> int:
        """A whole number from 0 to `most`; 0 where it is none."""
        text = row.cells[column]
        if text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= most:
            return int(text)
        self.faults.append(row.fault(column, f"a whole number from 0 to {most}"))
        return 0

    def name(self, row: Row, column: str, first: dict[str, int]) -> str:
        """A name that no earlier row has; `first` keeps their lines."""
        name = row.cells[column]
        if not name or not name.isprintable() or name != name.strip():
            self.faults.append(row.fault(column, "a name"))
        elif name in first:
            hint = f"Line {first[name]} has it already"
            self.faults.append(row.fault(column, "the name is used twice", hint))
        first.setdefault(name, row.line)
        return name


def read_table(path: Path, required: Sequence[str], what: str) -> Iterator[Row]:
    """Rows of a CSV file with a header, gzip-compressed or not.

    Parameters
    ----------
    required
        Columns that must be there; further ones are in the cells too.
    what
        What the table is, for messages.

    Raises
    ------
    SpecErrors
        The file cannot be read or unpacked, lacks a column, or has a row of another length.
    """
    file = str(path)

    def refuse(rule: str, line: int = 1, value: str = "", hint: str = "") -> SpecErrors:
        return SpecErrors([SpecFault(file=file, line=line, value=value, rule=rule, hint=hint)])

    text = _text(path, refuse)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, ()))
        if not header:
            raise refuse("the file is empty", hint=f"Is it the {what}?")
        for column in required:
            if column not in header:
                hint = did_you_mean(column, header) or f"Is it the {what}?"
                raise refuse(f"the {what} has a column {column}", value=shown(header[0]), hint=hint)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                rule = f"{len(header)} cells, as in the header"
                raise refuse(rule, reader.line_num, f"{len(cells)} cells", "Is the file cut off?")
            yield Row(file, reader.line_num, dict(zip(header, cells, strict=True)), header)
    except csv.Error as error:
        raise refuse(f"not CSV: {error}", reader.line_num) from error


def _text(path: Path, refuse: Callable[..., SpecErrors]) -> str:
    raw = read_bounded(path, MAX_TABLE_BYTES)
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(raw)) as stream:
                raw = stream.read(MAX_TABLE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise refuse("cannot be unpacked", hint="Is the file cut off?") from error
        if len(raw) > MAX_TABLE_BYTES:
            raise refuse(too_large(MAX_TABLE_BYTES))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise refuse("a table is UTF-8 text, this is not", line) from error
