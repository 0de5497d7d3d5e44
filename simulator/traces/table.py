"""CSV tables of published traces: text only, bounded, every row with its line in the file.

Columns stay text, because VC names such as ``6214e9`` look like numbers. A file that is no such
table is refused; a row that is none is kept apart with its line and the reason.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.scenario import Rejected

if TYPE_CHECKING:
    import polars

MAX_TABLE_BYTES = 256 * 1024 * 1024
"""Largest file, unpacked: the largest published one has less than half of that."""

MAX_LISTED = 16
"""Names listed in a hint."""

GZIP_MAGIC = b"\x1f\x8b"


class TraceError(ValueError):
    """A trace, or what is asked of it, cannot be used at all.

    Parameters
    ----------
    file
        The trace, as it was named.
    line
        1-based line of the file, or None where no line is to blame.
    rule
        What should have been there.
    hint
        The way out, a sentence; may be empty.
    """

    def __init__(self, file: str, rule: str, hint: str = "", line: int | None = None) -> None:
        self.file, self.line, self.rule, self.hint = file, line, rule, hint
        where = file if line is None else f"{file}:{line}"
        super().__init__(f"{where}: {rule}" + (f". {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, str, str, int | None]]:
        """How it comes from a worker: made anew of its fields."""
        return (type(self), (self.file, self.rule, self.hint, self.line))


def near_and_known(word: str, known: Iterable[str], what: str) -> str:
    """Hint for a name that is not among `known`: near matches, then all that there are.

    Examples
    --------
    >>> near_and_known("lod", ["load", "seed"], "keys")
    'Did you mean "load"? Known keys: load, seed'
    """
    names = sorted(set(known))
    if not names:
        return f"There are no {what}"
    near = get_close_matches(word, names, n=2, cutoff=0.6)
    meant = " or ".join(f'"{name}"' for name in near)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    listed = f"Known {what}: {', '.join(names[:MAX_LISTED])}{more}"
    return f"Did you mean {meant}? {listed}" if near else listed


def find_file(folder: Path, names: Sequence[str]) -> Path:
    """The first of several files that a folder has.

    Raises
    ------
    TraceError
        It has none of them, or it is no folder.
    """
    try:
        if not folder.is_dir():
            rule = "this is a file, not a folder" if folder.exists() else "there is no such folder"
            raise TraceError(str(folder), rule, f"Name the folder that has {names[0]}")
        entries = sorted(folder.iterdir())
        files = [path.name for path in entries if path.is_file()]
    except OSError as error:
        raise TraceError(str(folder), f"cannot be read: {error.strerror or error}") from error
    for name in names:
        if name in files:
            return folder / name
    hint = near_and_known(names[0], files, "files there")
    if not files and (folders := [path.name for path in entries if path.is_dir()]):
        listed = ", ".join(folders[:MAX_LISTED]) + (", …" if len(folders) > MAX_LISTED else "")
        hint = f"It has only folders: {listed}"
    raise TraceError(str(folder), f"the folder has no file {' or '.join(names)}", hint)


def read_text(path: Path) -> str:
    """A file of UTF-8 text, gzip-compressed or not, without a byte order mark.

    Raises
    ------
    TraceError
        It cannot be read or unpacked, is too large, or is no such text.
    """
    return _decoded(path, _unpacked(path))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: where it stands, and its cells by name of the column."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of a CSV file that have as many cells as its header.

    Parameters
    ----------
    lines
        1-based line of each row in the file, the header being the first.
    frame
        The cells, all of them text; an empty cell is the empty text.
    broken
        Rows that have another number of cells, or quotes that do not close.
    """

    file: str
    lines: tuple[int, ...]
    frame: polars.DataFrame
    broken: tuple[Rejected, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.frame.columns)

    def column(self, name: str) -> tuple[str, ...]:
        """The cells of one column."""
        return tuple(self.frame[name])

    def rows(self) -> Iterator[Row]:
        """The rows in order of the file."""
        for line, cells in zip(self.lines, self.frame.iter_rows(named=True), strict=True):
            yield Row(line, cells)

    def rejected(self, row: Row, reason: str) -> Rejected:
        """A row that cannot be used, with the rule it breaks."""
        return Rejected(file=self.file, line=row.line, reason=reason)


def read_table(path: Path, required: Sequence[str], what: str) -> Table:
    """Read a CSV file with a header, gzip-compressed or not. Blank lines are skipped.

    Parameters
    ----------
    required
        Columns that must be there; further ones are read too.
    what
        What the table is, for messages.

    Raises
    ------
    TraceError
        The file cannot be read or unpacked, is too large, is not UTF-8 text, or has not these
        columns.
    """
    file = str(path)
    # Split at line feeds only, as polars does: texts know more line ends than files have.
    lines = read_text(path).split("\n")
    filled = [(number, line.rstrip("\r")) for number, line in enumerate(lines, 1) if line.strip()]
    if not filled:
        raise TraceError(file, "the file is empty", f"Is it the {what}?", 1)
    (first, head), *body = filled
    header = _header(file, first, head, required, what)
    kept, broken = list[tuple[int, str]](), list[Rejected]()
    for number, line in body:
        whole = _one_row(line, len(header))
        if whole is None:
            reason = f"not {len(header)} cells, as in the header"
            broken.append(Rejected(file=file, line=number, reason=reason))
        else:
            kept.append((number, whole))
    return Table(
        file=file,
        lines=tuple(number for number, _ in kept),
        frame=_frame(file, header, [line for _, line in kept]),
        broken=tuple(broken),
    )


def _header(file: str, line: int, text: str, required: Sequence[str], what: str) -> tuple[str, ...]:
    cells = _cells(text) or []
    header = tuple(cell.strip() for cell in cells)
    for column in required:
        if column not in header:
            hint = f"{near_and_known(column, header, 'columns')}. Is it the {what}?"
            raise TraceError(file, f"the {what} has a column {column}", hint[:400], line)
    for column in header:
        if header.count(column) > 1:
            raise TraceError(file, f'the column "{column}" is there twice', line=line)
    return header


def _cells(line: str) -> list[str] | None:
    """Cells of one line; None where a quote does not close on it."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return None


def _one_row(line: str, width: int) -> str | None:
    """The line as polars reads it without fail, None where it has not `width` cells.

    Lines with quotes are written anew, since readers differ on quotes inside of cells.
    """
    if '"' not in line:
        return line if line.count(",") == width - 1 else None
    cells = _cells(line)
    if cells is None or len(cells) != width:
        return None
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _frame(file: str, header: tuple[str, ...], lines: list[str]) -> polars.DataFrame:
    import polars

    if not lines:
        return polars.DataFrame(schema=dict.fromkeys(header, polars.String))
    try:
        frame = polars.read_csv(
            "\n".join(lines).encode(),
            has_header=False,
            new_columns=list(header),
            infer_schema=False,
        )
    except polars.exceptions.PolarsError as error:
        raise TraceError(file, "not CSV", str(error).partition("\n")[0]) from error
    if frame.height != len(lines):
        raise TraceError(file, "each row of a table is one line of the file")
    return frame.fill_null("")


def _unpacked(path: Path) -> bytes:
    file = str(path)
    try:
        if not path.is_file():  # folders, and devices that never end
            rule = "this is not a file" if path.exists() else "there is no such file"
            raise TraceError(file, rule)
        with path.open("rb") as stream:
            raw = stream.read(MAX_TABLE_BYTES + 1)
        if raw.startswith(GZIP_MAGIC):
            with gzip.open(io.BytesIO(raw)) as packed:
                raw = packed.read(MAX_TABLE_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(file, "cannot be unpacked", "Is the file cut off?", 1) from error
    except OSError as error:
        raise TraceError(file, f"cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_TABLE_BYTES:
        size = f"{MAX_TABLE_BYTES // 1024**2} MiB"
        raise TraceError(file, f"larger than {size} (unpacked)", "Is it the right file?")
    return raw


def _decoded(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TraceError(str(path), "a trace is UTF-8 text, this is not", line=line) from error
