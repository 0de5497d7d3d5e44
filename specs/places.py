"""Places in a text, and paths to what stands there."""

from __future__ import annotations

from typing import Any, NamedTuple

from specs.errors import shown

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document."""


class Place(NamedTuple):
    """1-based line and column in the text."""

    line: int
    column: int


class Marks(NamedTuple):
    """Places of a container and of its entries; holding it keeps its id from being reused."""

    container: Any
    start: Any
    keys: dict[str | int, Any]
    values: dict[str | int, Any]


def extended(words: str, step: str | int, value: object) -> str:
    """A path in words, one step longer; `value` is what stands there."""
    if isinstance(step, str):
        word = step if step.isprintable() else shown(step)
        return f"{words}.{word}" if words else word
    name = value.get("name", value.get("job")) if isinstance(value, dict) else None
    return f"{words}[{name if isinstance(name, str) and name.isprintable() else step}]"


def place_of(mark: Any) -> Place:  # noqa: ANN401 - marks of libyaml and of PyYAML share no type
    """Place of a parser's mark."""
    return Place(mark.line + 1, mark.column + 1)
