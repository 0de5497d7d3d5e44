"""A spec file to its model: read, bounded in size, strict, with all its faults at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from specs.document import parse_document
from specs.errors import SpecErrors, SpecFault
from specs.models.quantity import MIB
from specs.reading import as_no_text, read_bounded, read_stdin
from specs.validation import read_model

if TYPE_CHECKING:
    from specs.loaded import LoadedSpec

MAX_SIZE_BYTES = 64 * MIB
"""Files above this are refused before they are read, unless the caller says otherwise."""


def load_spec(path: str | Path, max_size_bytes: int = MAX_SIZE_BYTES) -> LoadedSpec:
    """Read a spec.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    max_size_bytes
        Largest file that is read.

    Returns
    -------
    LoadedSpec
        The model with the places of everything in it. References between objects are checked by
        `specs.compile.compile_spec`.

    Raises
    ------
    SpecErrors
        The file cannot be read or is no spec. It has all faults of the file, those of references
        included.
    """
    if str(path) == "-":
        name, folder = "<stdin>", Path()
        raw = read_stdin(max_size_bytes, "--max-size")
    else:
        name, folder = str(path), Path(path).parent
        raw = read_bounded(Path(path), max_size_bytes, "--max-size")
    return parse_spec(_decode(raw, name), name, folder)


def parse_spec(text: str, file: str = "<text>", folder: Path | None = None) -> LoadedSpec:
    """Read a spec from its text; `file` names it in messages, topology files are in `folder`.

    Raises
    ------
    SpecErrors
        The text is no spec.
    """
    document = parse_document(text, file)
    loaded, faults = read_model(document, folder or Path())
    faults = [*document.faults, *faults]
    if loaded is None or faults:
        raise SpecErrors([*faults, *_reference_faults(loaded)])
    return loaded


def _reference_faults(loaded: LoadedSpec | None) -> list[SpecFault]:
    """Faults between the objects that are sound, so that one round of corrections is enough."""
    from specs.compile import reference_faults

    return reference_faults(loaded) if loaded is not None else []


def _decode(raw: bytes, name: str) -> str:
    """UTF-8 text of a file, without the mark that some editors put in front."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        fault = SpecFault(
            file=name,
            line=line,
            column=column,
            value=f"byte {raw[error.start]:#04x}",
            rule="a spec is UTF-8 text, this is not",
            hint=as_no_text(raw),
        )
        raise SpecErrors([fault]) from error
