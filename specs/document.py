"""YAML text to plain data in which every value still knows its place.

The text is read as a stream of events, so that neither nesting nor aliases can exhaust the
machine, nothing is ever constructed from a tag, and duplicate keys are seen.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from specs.building import Builder
from specs.errors import SpecErrors, SpecFault, shown
from specs.places import Marks, Path, Place, extended, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Document:
    """Data of a file: dicts, lists, `Plain` and quoted texts, None; with the places of all.

    `text` is the file as it was written.
    """

    file: str
    data: Any
    faults: tuple[SpecFault, ...]
    _marks: dict[int, Marks] = field(repr=False, default_factory=dict)
    text: str = field(repr=False, default="")

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Where the value at `path` stands; with `key`, where its key does.

        A path that leads nowhere is at the innermost container that exists.
        """
        value, mark = self.data, None
        for step in path:
            marks = self._marks.get(id(value))
            if marks is None or step not in marks.values:
                break
            mark = (marks.keys if key and step == path[-1] else marks.values).get(step)
            value = value[step]
        if mark is None:
            marks = self._marks.get(id(self.data))
            return place_of(marks.start) if marks else Place(1, 1)
        return place_of(mark)

    def value(self, path: Path) -> object:
        """The value at `path`, None where there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def words(self, path: Path) -> str:
        """The path in words: entries of lists by their name where they have one."""
        value, words = self.data, ""
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                value = None
            words = extended(words, step, value)
        return words


def parse_document(text: str, file: str, begins: str = "A spec begins with cluster:") -> Document:
    """Read one YAML document.

    Parameters
    ----------
    text
        The content of the file.
    file
        Its name, for messages.
    begins
        How such a document begins, for who gives an empty one.

    Returns
    -------
    Document
        Its `faults` are those that leave the rest readable: duplicate keys, foreign tags.

    Raises
    ------
    SpecErrors
        The text is no YAML, is empty, holds several documents, or its aliases or nesting explode.
    """
    if bad := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise SpecErrors(
            [
                SpecFault(
                    file=file,
                    line=line,
                    column=column,
                    value=f"character {ord(bad[0]):#04x}",
                    rule="a spec is text, this is not",
                    hint="Is it the right file?",
                )
            ]
        )
    builder = Builder(file)
    try:
        with _no_collection():
            for event in yaml.parse(text, Loader=_LOADER):
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise SpecErrors([*builder.faults, _syntax_fault(error, text, file)]) from error
    except yaml.YAMLError as error:
        fault = SpecFault(file=file, rule=f"not YAML: {_one_line(str(error))}")
        raise SpecErrors([*builder.faults, fault]) from error
    if not builder.seen or builder.root is None:
        raise SpecErrors([SpecFault(file=file, rule="the file is empty", hint=begins)])
    return Document(file, builder.root, tuple(builder.faults), builder.marks, text)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the cycle collector off data that is only built: it would halve the speed."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _syntax_fault(error: yaml.MarkedYAMLError, text: str, file: str) -> SpecFault:
    mark = error.problem_mark or error.context_mark
    line, column = place_of(mark) if mark is not None else Place(1, 1)
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    hint = ""
    indent = re.match(r"\s*", written)
    if (indent and "\t" in indent[0]) or written[column - 1 : column] == "\t":
        hint = "YAML indents with blanks; replace the tab"
    elif "did not find expected" in str(error.problem) or "mapping values" in str(error.problem):
        hint = "Look for wrong indentation, a missing blank after a colon, or an unclosed bracket"
    return SpecFault(
        file=file,
        line=line,
        column=column,
        value=shown(written.strip()) if written.strip() else "",
        rule=f"not YAML: {_one_line(str(error.problem or error.context))}",
        hint=hint,
    )
