"""YAML text to plain data in which every value still knows its place.

The text is read as a stream of events, so that neither nesting nor aliases can exhaust the
machine, nothing is ever constructed from a tag, and duplicate keys are seen.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml

from specs.errors import SpecErrors, SpecFault, shown
from specs.scalars import Plain

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ALIASED = 1_000_000
"""Values that aliases may add up to; a few lines of them can otherwise stand for billions."""

MAX_VALUES = 5_000_000
"""Values of a whole file, some 64 MiB of ordinary YAML: what is kept of them stays near 1 GiB."""

MAX_DEPTH = 64
"""Nesting of lists and mappings; the spec itself needs eight levels."""

MAX_WORDS = 120
"""Longest path in a message about text that is no spec at all, in characters."""

Path = tuple[str | int, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset({_CORE + kind for kind in ("int", "float", "bool")})
_STR_TAGS = frozenset({"!", _CORE + "str"})
_CONTAINER_TAGS = {yaml.MappingStartEvent: _CORE + "map", yaml.SequenceStartEvent: _CORE + "seq"}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Place(NamedTuple):
    """1-based line and column in the text."""

    line: int
    column: int


class _Marks(NamedTuple):
    """Places of a container and of its entries; holding it keeps its id from being reused."""

    container: Any
    start: Any
    keys: dict[str | int, Any]
    values: dict[str | int, Any]


@dataclass(frozen=True)
class Document:
    """Data of a file: dicts, lists, `Plain` and quoted texts, None; with the places of all.

    `text` is the file as it was written.
    """

    file: str
    data: Any
    faults: tuple[SpecFault, ...]
    _marks: dict[int, _Marks] = field(repr=False, default_factory=dict)
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
            return _place(marks.start) if marks else Place(1, 1)
        return _place(mark)

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
            words = _extended(words, step, value)
        return words


def _extended(words: str, step: str | int, value: object) -> str:
    """A path in words, one step longer; `value` is what stands there."""
    if isinstance(step, str):
        word = step if step.isprintable() else shown(step)
        return f"{words}.{word}" if words else word
    name = value.get("name", value.get("job")) if isinstance(value, dict) else None
    return f"{words}[{name if isinstance(name, str) and name.isprintable() else step}]"


def _place(mark: Any) -> Place:  # noqa: ANN401 - marks of libyaml and of PyYAML share no type
    return Place(mark.line + 1, mark.column + 1)


def parse_document(text: str, file: str) -> Document:
    """Read one YAML document.

    Parameters
    ----------
    text
        The content of the file.
    file
        Its name, for messages.

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
    builder = _Builder(file)
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
        hint = "A spec begins with cluster:"
        raise SpecErrors([SpecFault(file=file, rule="the file is empty", hint=hint)])
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
    line, column = _place(mark) if mark is not None else Place(1, 1)
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


@dataclass
class _Frame:
    """A container that is being read; for a mapping, the key that waits for its value."""

    container: Any
    marks: _Marks
    anchor: str | None
    key: str | None = None
    key_mark: Any = None
    waits_for_value: bool = False
    skip: bool = False
    aliased: int = 0
    size: int = 1


@dataclass
class _Anchor:
    """What an anchor stands for; `size` counts its values, None while it is still open."""

    value: Any
    size: int | None


class _Builder:
    """Puts events together. Containers are marked by identity, their entries by key."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[SpecFault] = []
        self.marks: dict[int, _Marks] = {}
        self.root: Any = None
        self.seen = False
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._values = 0

    def take(self, event: Any) -> None:  # noqa: ANN401 - libyaml's events are duck-typed
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = _Anchor(value, 1)
            self._put(value, event.start_mark)
        elif kind in _CONTAINER_TAGS:
            self._open(event, {} if kind is yaml.MappingStartEvent else [])
        elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            self._close()
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                self._stop(event.start_mark, "---", "a spec is one document", "Split the file")

    def _fault(self, mark: Any, value: str, rule: str, hint: str = "") -> SpecFault:  # noqa: ANN401
        line, column = _place(mark)
        path = self._path()
        return SpecFault(
            file=self.file, line=line, column=column, path=path, value=value, rule=rule, hint=hint
        )

    def _stop(self, mark: Any, value: str, rule: str, hint: str = "") -> NoReturn:  # noqa: ANN401
        raise SpecErrors([*self.faults, self._fault(mark, value, rule, hint)])

    def _path(self) -> str:
        """Where reading has come to, in words."""
        words = ""
        inner: list[Any] = [*(frame.container for frame in self._stack), None][1:]
        for frame, child in zip(self._stack, inner, strict=True):
            if isinstance(frame.container, list):
                step: str | int = len(frame.container) - (child is not None)
                words = _extended(words, step, child)
            elif frame.key is not None:
                words = _extended(words, frame.key, child)
        return words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…"

    def _scalar(self, event: Any) -> str | None:  # noqa: ANN401
        text, tag = event.value, event.tag
        if tag is None:
            if event.style:
                return str(text)
            return None if text in _NULLS else Plain(text)
        if tag in _STR_TAGS:
            return str(text)
        if tag in _PLAIN_TAGS:
            return Plain(text)
        if tag == _CORE + "null":
            return None
        self.faults.append(self._foreign_tag(event))
        return Plain(text)

    def _foreign_tag(self, event: Any) -> SpecFault:  # noqa: ANN401
        tag = event.tag.replace(_CORE, "!!")
        return self._fault(event.start_mark, shown(tag), "a spec has no such tags", "Remove it")

    def _open(self, event: Any, container: Any) -> None:  # noqa: ANN401
        if event.tag not in (None, "!", _CONTAINER_TAGS[type(event)]):
            self.faults.append(self._foreign_tag(event))
        if len(self._stack) >= MAX_DEPTH:
            self._stop(event.start_mark, "", f"nested deeper than {MAX_DEPTH} levels")
        marks = _Marks(container, event.start_mark, {}, {})
        self.marks[id(container)] = marks
        self._put(container, event.start_mark)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(container, None)
        self._stack.append(_Frame(container, marks, event.anchor))

    def _close(self) -> None:
        frame = self._stack.pop()
        if frame.anchor and self._anchors[frame.anchor].value is frame.container:
            self._anchors[frame.anchor].size = frame.size
        if self._stack:
            self._stack[-1].size += frame.size
            self._stack[-1].aliased += frame.aliased

    def _alias(self, event: Any) -> None:  # noqa: ANN401
        anchor = self._anchors.get(event.anchor)
        alias = shown(f"*{event.anchor}")
        if anchor is None:
            self._stop(event.start_mark, alias, "no anchor has this name")
        if anchor.size is None:
            self._stop(event.start_mark, alias, "an alias cannot stand inside its own anchor")
        if self._stack:
            self._stack[-1].size += anchor.size
            self._stack[-1].aliased += anchor.size
            if sum(frame.aliased for frame in self._stack) > MAX_ALIASED:
                rule = f"aliases add up to more than {MAX_ALIASED} values"
                self._stop(event.start_mark, alias, rule, "Write the values out, or use pools")
        self._put(anchor.value, event.start_mark)

    def _put(self, value: Any, mark: Any) -> None:  # noqa: ANN401
        self._values += 1
        if self._values > MAX_VALUES:
            self._stop(mark, "", f"more than {MAX_VALUES} values", "Use pools for nodes alike")
        if not self._stack:
            self.root, self.seen = value, True
            return
        frame = self._stack[-1]
        if isinstance(frame.container, list):
            frame.marks.values[len(frame.container)] = mark
            frame.container.append(value)
            frame.size += 1
        elif not frame.waits_for_value:
            frame.waits_for_value = True
            self._key(frame, value, mark)
        else:
            if not frame.skip and frame.key is not None:
                frame.container[frame.key] = value
                frame.marks.keys[frame.key] = frame.key_mark
                frame.marks.values[frame.key] = mark
                frame.size += 1
            frame.waits_for_value, frame.skip = False, False

    def _key(self, frame: _Frame, value: Any, mark: Any) -> None:  # noqa: ANN401
        """Take a key; one that will not do is reported and its value left out."""
        frame.key, frame.key_mark = None, mark
        if not isinstance(value, str):
            self.faults.append(self._fault(mark, shown(value), "a key is a word"))
            frame.skip = True
            return
        key = str(value)
        if key == "<<" and isinstance(value, Plain):
            hint = "Write the keys out, or use pools for nodes that are alike"
            self.faults.append(self._fault(mark, "<<", "a spec has no merge keys", hint))
            frame.skip = True
        elif key in frame.container:
            first = _place(frame.marks.keys[key])
            frame.key = key
            hint = f"It is in line {first.line} already; keep one of them"
            self.faults.append(self._fault(mark, shown(key), "this key is here twice", hint))
            frame.skip = True
        frame.key = key
