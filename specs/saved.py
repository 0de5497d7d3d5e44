"""Files of our own that come back in: JSON of a limited size, refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from specs.errors import SpecErrors, SpecFault

if TYPE_CHECKING:
    from pathlib import Path


def read_json(path: Path, max_bytes: int, hint: str) -> Any:  # noqa: ANN401
    """What a JSON file has.

    Raises
    ------
    SpecErrors
        It is too large, or no JSON.
    OSError
        It cannot be read.
    """
    if path.stat().st_size > max_bytes:
        raise refused(path, f"larger than {max_bytes >> 20} MiB", hint)
    try:
        return json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        fault = SpecFault(
            file=str(path),
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
    return SpecErrors([SpecFault(file=str(path), path=place or "", rule=rule, hint=hint)])
