"""What can be wrong with a spec: every fault with its place, value, rule and way out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specs.scalars import Plain

MAX_SHOWN = 60
"""Longest value shown in a message, in characters."""


class SpecError(Exception):
    """Root of the package's errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFault:
    """One thing that is wrong, in one line.

    Parameters
    ----------
    file
        The spec, or the topology file that it names.
    line, column
        1-based place of the offending text.
    path
        Where that is in terms of the spec: ``jobs[llm-70b].gpus``.
    value
        The offending value as it is shown, or empty where there is none.
    rule
        What should have been there.
    hint
        The way out, a sentence; may be empty.
    """

    file: str
    line: int = 1
    column: int = 1
    path: str = ""
    value: str = ""
    rule: str
    hint: str = ""

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}:{self.column}", self.path, self.value, self.rule]
        text = ": ".join(part for part in parts if part)
        return f"{text}. {self.hint}" if self.hint else text


class SpecErrors(SpecError):  # noqa: N818 - it holds several faults
    """All faults of a spec, in order of their place; the message has one line for each."""

    def __init__(self, faults: Iterable[SpecFault]) -> None:
        unique = dict.fromkeys(faults)
        self.faults = tuple(sorted(unique, key=lambda f: (f.file, f.line, f.column)))
        super().__init__("\n".join(str(fault) for fault in self.faults))


def shown(value: object) -> str:
    r"""A value as messages show it: short, on one line, texts in quotes.

    Examples
    --------
    >>> shown("a\nb"), shown(3), shown([1, 2]), shown({"a": 1})
    ('"a\\nb"', '3', 'a list of 2', 'a mapping of 1')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        text = value if isinstance(value, Plain) and _bare(value) else ""
        text = text or json.dumps(str(value), ensure_ascii=not value.isprintable())
        return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(text: str) -> bool:
    """Whether a text reads as a number or flag, so that quotes would mislead."""
    return text in ("true", "false") or (text[:1] in "+-.0123456789" and text.isprintable())
