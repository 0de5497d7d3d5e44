"""Files of API objects, one object after another: JSON or YAML, Lists, several documents.

JSON is read in pieces: of a List with 50,000 pods only one is in memory at a time. Several JSON
documents may follow each other, as when outputs of kubectl are joined. YAML goes through the
loader of specs with its limits, one document at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from kube.json_stream import JsonValues, Window, refuse
from specs.document import parse_document
from specs.errors import SpecErrors, SpecFault, shown
from specs.importers.fields import Place
from specs.models.quantity import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_YAML_BYTES = 64 * MIB

_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)


class Found(NamedTuple):
    """An object as it was read."""

    data: object
    place: Place


BEGINS = "An object begins with apiVersion: and kind:, as kubectl get -o yaml or -o json prints it"


def read_objects(stream: IO[bytes], name: str) -> Iterator[Found]:
    """Objects of a file in its order; those inside Lists one by one.

    Parameters
    ----------
    stream
        Bytes, UTF-8.
    name
        Name of the file, for messages.

    Raises
    ------
    SpecErrors
        The file is neither JSON nor YAML, or larger than allowed in its kind.
    """
    text = Window(stream, name)
    text.skip_blanks()
    found = _json(text) if text.peek() in ("{", "[") else _yaml(text)
    yield from found


def _json(text: Window) -> Iterator[Found]:
    reader = JsonValues(text)
    while True:
        text.skip_blanks()
        if not text.peek():
            return
        if text.peek() == "[":
            for line, item in reader.elements():
                yield Found(item, Place(text.name, line))
        elif text.peek() == "{":
            yield from _json_object(reader)
        else:
            reader.refuse("an object or a list of objects is wanted here")


def _json_object(reader: JsonValues) -> Iterator[Found]:
    """An object, or the items of a List as they come."""
    place = Place(reader.text.name, reader.text.line)
    whole: dict[str, Any] = {}
    listed = False
    nameless: list[Found] = []
    for key in reader.members():
        reader.text.skip_blanks()
        if key != "items" or reader.text.peek() != "[":
            whole[key] = reader.value()
            listed = listed or (key == "items" and whole[key] is None)
            continue
        listed = True
        for line, data in reader.elements():
            item = Found(data, Place(place.file, line))
            if not _nameless(item):
                yield item
            elif "kind" in whole:
                yield _named(item, whole)
            else:
                nameless.append(item)  # the kind of the list comes behind its items
    if listed:
        for item in nameless:
            yield _named(item, whole)
    else:
        yield Found(whole, place)


def _nameless(item: Found) -> bool:
    return isinstance(item.data, dict) and "kind" not in item.data


def _named(item: Found, of: dict[str, Any]) -> Found:
    """An item of a PodList is a Pod: the API leaves out its kind."""
    kind = of.get("kind")
    if isinstance(item.data, dict) and isinstance(kind, str) and kind.endswith("List"):
        data = {"apiVersion": of.get("apiVersion"), "kind": kind.removesuffix("List"), **item.data}
        return Found(data, item.place)
    return item


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    lines_before: int


def _yaml(text: Window) -> Iterator[Found]:
    while text.more():
        if len(text.window) > MAX_YAML_BYTES:
            hint = "JSON (-o json) is read in pieces and has no such limit"
            refuse(text.name, 1, f"YAML with more than {MAX_YAML_BYTES // MIB} MiB", hint=hint)
    for document in _documents(text.window[text.at :], text.line - 1):
        lines = map(str.strip, document.text.splitlines())
        if any(line and not line.startswith("#") for line in lines):
            yield from _yaml_document(document, text.name)


def _documents(text: str, lines: int) -> Iterator[_Document]:
    start = 0
    for match in _MARKER.finditer(text):
        piece = text[start : match.end()]
        yield _Document(piece[: match.start() - start], lines)
        lines += text.count("\n", start, match.end())
        start = match.end()
    yield _Document(text[start:], lines)


def _yaml_document(document: _Document, name: str) -> Iterator[Found]:
    def moved(faults: tuple[SpecFault, ...]) -> SpecErrors:
        before = document.lines_before
        return SpecErrors(replace(fault, line=fault.line + before) for fault in faults)

    try:
        parsed = parse_document(document.text, name, BEGINS)
    except SpecErrors as errors:
        raise moved(errors.faults) from errors
    if parsed.faults:
        raise moved(parsed.faults)

    def place(*path: str | int) -> Place:
        return Place(name, parsed.place(path).line + document.lines_before)

    data = parsed.data
    if isinstance(data, dict) and isinstance(data.get("items"), list):
        for index, item in enumerate(data["items"]):
            found = Found(item, place("items", index))
            yield _named(found, data) if _nameless(found) else found
    elif isinstance(data, dict) and "items" in data and data["items"] is None:
        return  # a list of nothing, as programs in Go write it
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield Found(item, place(index))
    elif isinstance(data, str):
        rule = "text, but no object of Kubernetes"
        refuse(name, document.lines_before + 1, rule, shown(data), hint=BEGINS)
    elif data is not None:
        yield Found(data, place())
