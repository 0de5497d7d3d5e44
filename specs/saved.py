"""Files of our own that come back in: JSON of a limited size, refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from specs.errors import SpecErrors, SpecFault
from specs.reading import read_stdin

if TYPE_CHECKING:
    from pathlib import Path


Model = TypeVar("Model", bound=BaseModel)


def read_model(path: Path, model: type[Model], what: str, max_bytes: int, hint: str) -> Model:
    """The document of a JSON file; "-" is standard input.

    Parameters
    ----------
    what
        What the file is to have: "plan".
    hint
        Where such a file comes from.

    Raises
    ------
    SpecErrors
        It is too large, no JSON, or another document: the first things that are wrong with it.
    OSError
        It cannot be read.
    """
    document = _read_json(path, max_bytes, hint)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise SpecErrors(
            SpecFault(
                file=named(path),
                path=".".join(map(str, problem["loc"])),
                rule=f"no {what}: {problem['msg'].lower()}",
                hint=hint,
            )
            for problem in error.errors(include_url=False)[:10]
        ) from error


def _read_json(path: Path, max_bytes: int, hint: str) -> Any:  # noqa: ANN401
    """What a JSON file has; "-" is standard input.

    Raises
    ------
    SpecErrors
        It is too large, or no JSON.
    OSError
        It cannot be read.
    """
    piped = str(path) == "-"
    if not piped and path.stat().st_size > max_bytes:
        raise refused(path, f"larger than {max_bytes >> 20} MiB", hint)
    raw = read_stdin(max_bytes) if piped else path.read_bytes()
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        fault = SpecFault(
            file=named(path),
            line=error.lineno,
            column=error.colno,
            rule=f"no JSON: {error.msg}",
            hint=hint,
        )
        raise SpecErrors([fault]) from error
    except (ValueError, RecursionError) as error:
        raise refused(path, "no JSON text", hint) from error


def refused(path: Path, rule: str, hint: str, place: str | None = None) -> SpecErrors:
    """One fault of a file."""
    return SpecErrors([SpecFault(file=named(path), path=place or "", rule=rule, hint=hint)])


def named(path: Path | str) -> str:
    """The file as it is called in messages."""
    return "<stdin>" if str(path) == "-" else str(path)
