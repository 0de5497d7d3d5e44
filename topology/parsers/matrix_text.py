"""Find and read the matrix in a text around ``nvidia-smi topo -m``: lines, cells, legends.

What is printed differs by driver and by what copying did to it::

    output   = noise* header row+ [blank legend] [blank "NIC Legend:" blank nic-line+]
    header   = [SGR] TAB name (TAB name)* TAB "CPU Affinity" [TAB "NUMA Affinity"
               [TAB "GPU NUMA ID"]] [SGR]
    gpu-row  = "GPU"n (TAB cell)^N TAB cpus [TAB numa [TAB TAB gnuma]]
    nic-row  = name (TAB cell)^N TAB*
    cell     = " X " | "NV"k | "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "SOC"

Names are taken by their pattern and cells by theirs, so it does not matter whether tabs became
blanks or got lost between two cells; but a row counts only if it then has exactly N cells.
What the matrix means is not the business of this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from topology.errors import TopologyParseError

MAX_BYTES = 1 << 20
MAX_GPUS = 64
MAX_COLUMNS = 512
"""Far beyond any host; a text that has more is something else."""

_SGR = re.compile(r"(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\[\d{1,3}(?:;\d{1,3})*m")
_LINE_END = re.compile(r"\r*\n")
_CELL = re.compile(r"X|NV[1-9]\d?|PIX|PXB|PHB|NODE|SYS|SOC")
_CUT_CELL = re.compile(r"N|NV|NO|NOD|P|PI|PX|PH|S|SY|SO")
_KNOWN_NAME = re.compile(r"GPU\d+|NIC\d+|mlx\d+_(?:bond_)?\d+|hfi1_\d+")
_OTHER_NAME = re.compile(r"(?=\D*\d)[A-Za-z]\w*(?:[.:-]\w+)*")
_TITLES = tuple(re.compile(t) for t in (r"CPU\s*Affinity", r"NUMA\s*Affinity", r"GPU\s*NUMA\s*ID"))
_CONTINUATION = re.compile(rf"\s*[A-Z0-9/,-]+(?:\s+(?:{_CELL.pattern}|[\d,-]+|N/A))*\s*")
_P2P_STATUS = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}
_MARK = re.compile(r"\S")
_TOKEN = re.compile(r"\S+")
_MAX_NOISE = 240
"""Characters before the name of a row (a timestamp, a host name) that are skipped."""
_MAX_MATRICES = 16
"""Further ones in the same text are not looked at."""
_MAX_WRAPS = 4
"""Terminal lines that one printed line may have been broken into."""

ASK = "run nvidia-smi topo -m and keep its whole output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the matrix: its cells, and what stands behind them."""

    name: str
    line: int
    cells: tuple[str, ...]
    tail: str = ""
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixText:
    """The matrix as it was found.

    Parameters
    ----------
    names
        Labels of the columns, GPUs first.
    n_titles
        How many of CPU Affinity, NUMA Affinity, GPU NUMA ID the header has.
    header_line
        1-based line of the header.
    rows
        By name. Rows of network cards may be missing or have fewer cells.
    devices
        Device of each NIC label, from the NIC Legend.
    legend
        Link classes that the legend explains.
    next_line
        Line of another matrix in the text, which was not read.
    """

    names: tuple[str, ...]
    n_titles: int
    header_line: int
    rows: dict[str, Row]
    devices: dict[str, str]
    legend: frozenset[str]
    next_line: int | None = None


@dataclass(frozen=True, slots=True)
class _Header:
    at: int
    end: int
    names: tuple[str, ...]
    n_titles: int


def read_matrix(text: str) -> MatrixText:
    """Read the first matrix of a text.

    Raises
    ------
    TopologyParseError
        There is none, it is another command's, it is too large, or a row is damaged.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise TopologyParseError(f"a capture has at most {MAX_BYTES >> 20} MiB", hint=ASK)
    lines = [_SGR.sub("", line) for line in _LINE_END.split(text.removeprefix("\ufeff"))]
    header, following = _find_headers(lines, text)
    _check_columns(header)
    last = following.at if following else len(lines)
    return MatrixText(
        names=header.names,
        n_titles=header.n_titles,
        header_line=header.at + 1,
        rows=_read_rows(lines[:last], header),
        devices=_read_devices(lines[header.end : last], header.names),
        legend=_read_legend(lines[header.end : last]),
        next_line=following.at + 1 if following else None,
    )


# --- header ------------------------------------------------------------------------------------


def _find_headers(lines: list[str], text: str) -> tuple[_Header, _Header | None]:
    """Return the header to use and the one after it; a header with titles is preferred."""
    found: list[_Header] = []
    at = 0
    while at < len(lines) and len(found) < _MAX_MATRICES:
        header = _header_at(lines, at)
        if header is not None:
            found.append(header)
        at = header.end if header is not None else at + 1
    if not found:
        failed = re.search(r"NVIDIA-SMI has failed[^\n]*", text)
        raise TopologyParseError(
            "no matrix with columns GPU0, GPU1, … in it",
            value=failed[0] if failed else "",
            hint=ASK,
        )
    first = next((i for i, header in enumerate(found) if header.n_titles), 0)
    return found[first], found[first + 1] if first + 1 < len(found) else None


def _header_at(lines: list[str], at: int) -> _Header | None:
    """Read a header that begins in this line and may go on in the next ones."""
    if "GPU0" not in lines[at]:
        return None
    plain = _header_names(lines[at])
    if plain is not None and plain[1]:
        return _Header(at, at + 1, *plain)
    for end in range(at + 2, min(at + 2 + _MAX_WRAPS, len(lines) + 1)):
        if not lines[end - 1].strip() or _starts_row(lines[end - 1]):
            break
        for glue in ("", " "):
            joined = _header_names(glue.join(lines[at:end]))
            if joined is not None and joined[1]:
                return _Header(at, end, *joined)
    return _Header(at, at + 1, *plain) if plain is not None and len(plain[0]) > 1 else None


def _starts_row(line: str) -> bool:
    name, _, rest = line.strip().partition(" ") if "\t" not in line else line.partition("\t")
    return _KNOWN_NAME.fullmatch(name.strip()) is not None and bool(_CELL.match(rest.strip()))


def _header_names(line: str) -> tuple[tuple[str, ...], int] | None:
    """Return the names of a header and the number of its titles; None where it is no header."""
    start = re.search(r"(?<!\w)GPU0(?!\d)", line)
    if start is None:
        return None
    head = line[start.start() :]
    title = _TITLES[0].search(head)
    n_titles = sum(pattern.search(head) is not None for pattern in _TITLES) if title else 0
    names: list[str] = []
    for token in (head[: title.start()] if title else head).split():
        glued = _KNOWN_NAME.findall(token)
        if "".join(glued) == token:
            names += glued
        elif _OTHER_NAME.fullmatch(token) and not _CELL.fullmatch(token):
            names.append(token)
        else:
            return None
    return tuple(names), n_titles


def _check_columns(header: _Header) -> None:
    gpus = [name for name in header.names if re.fullmatch(r"GPU\d+", name)]
    line = header.at + 1
    if len(gpus) > MAX_GPUS:
        raise TopologyParseError(
            f"a node has at most {MAX_GPUS} GPUs, this has {len(gpus)}", line=line, hint=ASK
        )
    if len(header.names) > MAX_COLUMNS:
        raise TopologyParseError(
            f"at most {MAX_COLUMNS} columns, this has {len(header.names)}", line=line, hint=ASK
        )
    wanted = [f"GPU{i}" for i in range(len(gpus))]
    if gpus != wanted or list(header.names[: len(gpus)]) != wanted:
        raise TopologyParseError(
            "the columns are GPU0, GPU1, … without a gap, then the network cards",
            line=line,
            value=" ".join(header.names[:MAX_GPUS]),
            hint="was a column cut out?",
        )
    twice = sorted({name for name in header.names if header.names.count(name) > 1})
    if twice:
        raise TopologyParseError("two columns have this name", line=line, value=twice[0])


# --- rows --------------------------------------------------------------------------------------


def _read_rows(lines: list[str], header: _Header) -> dict[str, Row]:
    names = frozenset(header.names)
    rows: dict[str, Row] = {}
    for at in range(header.end, len(lines)):
        if re.fullmatch(r"\s*Legend:\s*", lines[at]):
            break
        tokens = _TOKEN.finditer(lines[at], 0, _MAX_NOISE)
        start = next((token for token in tokens if _bare(token[0]) in names), None)
        if start is None:
            _refuse_stranger(lines[at], at + 1)
            continue
        name, rest = _bare(start[0]), lines[at][start.end() :]
        in_noise = name in rows or lines[at][: start.start()].strip()
        if in_noise and not _CELL.match(rest.strip()):
            continue  # a sentence that names a device
        if name in rows:
            raise TopologyParseError(
                f"row {name} was already in line {rows[name].line}", line=at + 1, value=name
            )
        rows[name] = _read_row(name, rest, lines, at, header)
    return rows


def _bare(token: str) -> str:
    """Return the name in a token, without what a logger glued in front of it (``[1]<out>:``)."""
    return re.split(r"[>|:\]]", token)[-1]


def _refuse_stranger(line: str, number: int) -> None:
    """A row whose device has no column means that the header is not the one of these rows."""
    match = re.match(rf"\s*({_KNOWN_NAME.pattern})\s+(?:{_CELL.pattern})(?:\s|$)", line)
    if match:
        raise TopologyParseError(
            "a row of a device that has no column", line=number, value=match[1], hint=ASK
        )


def _read_row(name: str, rest: str, lines: list[str], at: int, header: _Header) -> Row:
    """Read one row, put together again where the terminal broke it into several lines."""
    n_titles = header.n_titles if name.startswith("GPU") else 0
    row = _split(name, rest, at + 1, len(header.names))
    if _is_whole(row, header, n_titles):
        return row
    parts = [rest]
    for following in lines[at + 1 : at + 1 + _MAX_WRAPS]:
        if not _CONTINUATION.fullmatch(following) or _starts_row(following):
            break
        parts.append(following)
        joined = [_split(name, glue.join(parts), at + 1, len(header.names)) for glue in ("", " ")]
        whole = [candidate for candidate in joined if _is_whole(candidate, header, n_titles)]
        if len({candidate.cells for candidate in whole}) > 1:
            raise TopologyParseError(
                "the row was broken between two lines, and there are two ways to join it",
                line=at + 1,
                value=name,
                hint=ASK,
            )
        if whole:
            return Row(
                name=name, line=at + 1, cells=whole[0].cells, tail=whole[0].tail, repaired=True
            )
    _check_row(row, header)
    return row


def _split(name: str, rest: str, line: int, n_cells: int) -> Row:
    """Take cells by their pattern, up to as many as there are columns."""
    cells: list[str] = []
    at, glued = 0, False
    while len(cells) < n_cells:
        start = len(rest) if (mark := _MARK.search(rest, at)) is None else mark.start()
        match = _CELL.match(rest, start)
        if match is None:
            break
        glued = glued or start == at
        cells.append(match[0])
        at = match.end()
    tail = rest[at:]
    glued = glued or (len(cells) == n_cells and bool(tail) and not tail[0].isspace())
    return Row(name=name, line=line, cells=tuple(cells), tail=tail, repaired=glued)


def _is_whole(row: Row, header: _Header, n_titles: int) -> bool:
    """Whether the row has all its cells and, for a GPU, something for every title."""
    if len(row.cells) < len(header.names) or _stray(row):
        return False
    fields = row.tail.split("\t")[1:] if "\t" in row.tail else row.tail.split()
    return len(fields) >= n_titles


def _stray(row: Row) -> str:
    """Return what stands behind the last cell and cannot: one cell more, or the rest of a word."""
    token = (row.tail.split(maxsplit=1) or [""])[0]
    run_on = row.tail[:1].strip() and not token[0].isdigit()
    return token if run_on or token.startswith("-") or _CELL.match(token) else ""


def _check_row(row: Row, header: _Header) -> None:
    """Let a row that is whole, or cut off in a way that does no harm, pass; refuse the others."""
    n_cells, rest = len(header.names), row.tail.strip()
    if len(row.cells) == n_cells:
        if stray := _stray(row):
            raise TopologyParseError(
                f"row {row.name} has its {n_cells} cells, and this cannot follow them",
                line=row.line,
                value=stray,
                hint=ASK,
            )
        return
    token = rest.split()[0] if rest else ""
    if token in _P2P_STATUS:
        raise TopologyParseError(
            "this is nvidia-smi topo -p2p, which says what is allowed, not how devices are linked",
            line=row.line,
            value=token,
            hint="run nvidia-smi topo -m",
        )
    if not header.n_titles and (token.isdigit() or token in ("XGMI", "PCIE")):
        raise TopologyParseError(
            "this is a matrix of AMD's tools, which is not read",
            line=row.line,
            value=token,
            hint="use the preset mi300x, or write the links into the spec",
        )
    cut_off = not rest or _CUT_CELL.fullmatch(rest)
    if cut_off and not row.name.startswith("GPU") and not row.repaired:
        return
    rule = f"row {row.name} has {len(row.cells)} of {n_cells} cells"
    if not cut_off:
        rule += " and then none of X, NV#, PIX, PXB, PHB, NODE, SYS"
    raise TopologyParseError(rule, line=row.line, value=token or row.name, hint=ASK)


# --- legends -----------------------------------------------------------------------------------


def _read_devices(lines: list[str], names: tuple[str, ...]) -> dict[str, str]:
    found = (re.search(r"(?<!\w)(NIC\d+)\s*:\s+(\S+)\s*$", line) for line in lines)
    return {match[1]: match[2] for match in found if match and match[1] in names}


def _read_legend(lines: list[str]) -> frozenset[str]:
    found = (re.match(rf"\s*(NV#|{_CELL.pattern})\s+=\s", line) for line in lines)
    return frozenset(match[1] for match in found if match)
