"""Events of a YAML parser put together to plain data, within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from specs.errors import SpecErrors, SpecFault, shown
from specs.places import Marks, extended, place_of
from specs.scalars import Plain

MAX_ALIASED = 1_000_000
"""Values that aliases may add up to; a few lines of them can otherwise stand for billions."""

MAX_VALUES = 5_000_000
"""Values of a whole file, some 64 MiB of ordinary YAML: what is kept of them stays near 1 GiB."""

MAX_DEPTH = 64
"""Nesting of lists and mappings; the spec itself needs eight levels."""

MAX_WORDS = 120
"""Longest path in a message about text that is no spec at all, in characters."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset({_CORE + kind for kind in ("int", "float", "bool")})
_STR_TAGS = frozenset({"!", _CORE + "str"})
_CONTAINER_TAGS = {yaml.MappingStartEvent: _CORE + "map", yaml.SequenceStartEvent: _CORE + "seq"}


@dataclass
class _Frame:
    """A container that is being read; for a mapping, the key that waits for its value."""

    container: Any
    marks: Marks
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


class Builder:
    """Puts events together. Containers are marked by identity, their entries by key."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[SpecFault] = []
        self.marks: dict[int, Marks] = {}
        self.root: Any = None
        self.seen = False
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._values = 0

    def take(self, event: Any) -> None:  # noqa: ANN401 - libyaml's events are duck-typed
        """Add the next event; what cannot go on is raised, the rest is in `faults`."""
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
        line, column = place_of(mark)
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
                words = extended(words, step, child)
            elif frame.key is not None:
                words = extended(words, frame.key, child)
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
        marks = Marks(container, event.start_mark, {}, {})
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
            first = place_of(frame.marks.keys[key])
            frame.key = key
            hint = f"It is in line {first.line} already; keep one of them"
            self.faults.append(self._fault(mark, shown(key), "this key is here twice", hint))
            frame.skip = True
        frame.key = key
