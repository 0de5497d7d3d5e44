"""Files that are read: bounded in size, with a fault instead of a traceback."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, TextIO

from specs.errors import SpecErrors, SpecFault
from specs.hints import did_you_mean
from specs.models.quantity import MIB

if TYPE_CHECKING:
    from pathlib import Path

YAML = (".yaml", ".yml")

GZIP = b"\x1f\x8b"
"""How compressed files begin."""


def read_bounded(path: Path, max_size_bytes: int, option: str = "") -> bytes:
    """Content of a file that is not larger than allowed.

    Raises
    ------
    SpecErrors
        There is no such file, it is none, it is too large, or it may not be read.
    """

    def refuse(rule: str, hint: str = "", value: str = "") -> SpecErrors:
        return SpecErrors([SpecFault(file=str(path), value=value, rule=rule, hint=hint)])

    try:
        if path.is_dir():
            raise refuse("this is a folder, not a file", "Name the file inside it")
        with path.open("rb") as stream:
            size = path.stat().st_size
            if size > max_size_bytes:
                raise refuse(too_large(max_size_bytes), larger(option), f"{size} bytes")
            # One byte more than allowed: pipes and devices tell no size beforehand.
            raw = stream.read(max_size_bytes + 1)
    except FileNotFoundError as error:
        hint = did_you_mean(path.name, _neighbours(path), f"{path.suffix} files there".strip())
        raise refuse("there is no such file", hint) from error
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise refuse("this is no file name") from error
    if len(raw) > max_size_bytes:
        raise refuse(too_large(max_size_bytes), larger(option))
    return raw


def standard_input() -> IO[bytes]:
    """Bytes of standard input.

    Raises
    ------
    SpecErrors
        It was closed before the program began.
    """
    # Typed as always there; Python leaves it None where descriptor 0 is closed.
    stream: TextIO | None = sys.stdin
    if stream is None:
        hint = "Name a file, or pipe something into it"
        raise SpecErrors([SpecFault(file="<stdin>", rule="it is closed", hint=hint)])
    return stream.buffer


def read_stdin(max_size_bytes: int, option: str = "") -> bytes:
    """All bytes of standard input; `option` raises the limit.

    Raises
    ------
    SpecErrors
        There are more than so many, or it was closed before the program began.
    """
    raw = standard_input().read(max_size_bytes + 1)
    if len(raw) > max_size_bytes:
        hint = larger(option) if option else ""
        raise SpecErrors([SpecFault(file="<stdin>", rule=too_large(max_size_bytes), hint=hint)])
    return raw


def as_no_text(raw: bytes) -> str:
    """What bytes that are no text may be, as a hint."""
    if raw.startswith(GZIP):
        return "Unpack it first: gzip -dc FILE"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "It is UTF-16, as PowerShell writes it: save it as UTF-8"
    return "Save the file as UTF-8"


def too_large(max_size_bytes: int) -> str:
    """Rule that a file breaks which is larger than allowed."""
    size = f"{max_size_bytes / MIB:g} MiB" if max_size_bytes >= MIB else f"{max_size_bytes} bytes"
    return f"larger than {size}"


def larger(option: str) -> str:
    """Way out for a file that is too large, if an option can allow it."""
    return f"Is it the right file? {option} allows larger ones" if option else ""


def _neighbours(path: Path) -> list[str]:
    """Names in the folder of the file, of the same kind."""
    folder = path.parent
    suffixes = YAML if path.suffix in YAML else (path.suffix,)
    if not folder.is_dir():
        return []
    return [p.name for suffix in suffixes for p in folder.glob(f"*{suffix}")]
