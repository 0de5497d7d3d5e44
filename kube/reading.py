"""Files of API objects, one object after another: JSON or YAML, Lists, several documents.

JSON is read in pieces: of a List with 50,000 pods only one is in memory at a time. Several JSON
documents may follow each other, as when outputs of kubectl are joined. YAML goes through the
loader of specs with its limits, one document at a time.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn

from specs.document import parse_document
from specs.errors import SpecErrors, SpecFault, shown
from specs.importers.fields import Place
from specs.models.quantity import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = MIB
MAX_OBJECT_CHARACTERS = 16 * MIB
"""An object of the API has at most 1.5 MiB (etcd's limit); with indents, this is generous."""

MAX_YAML_BYTES = 64 * MIB

_BLANKS = re.compile(r"[ \t\r\n]*")
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)


class Found(NamedTuple):
    """An object as it was read."""

    data: object
    place: Place


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
    text = _Text(stream, name)
    text.skip_blanks()
    found = _json(text) if text.peek() in ("{", "[") else _yaml(text)
    yield from found


def _refuse(name: str, line: int, rule: str, value: str = "", hint: str = "") -> NoReturn:
    raise SpecErrors([SpecFault(file=name, line=line, value=value, rule=rule, hint=hint)])


class _Text:
    """A sliding window over a stream, which knows its line."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        self.window = ""
        self.at = 0
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._line = 1
        self._counted = 0
        self.ended = False

    @property
    def line(self) -> int:
        """1-based line of the position."""
        if self.at < self._counted:
            self._line -= self.window.count("\n", self.at, self._counted)
        else:
            self._line += self.window.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def more(self, size: int = CHUNK_BYTES) -> bool:
        """Read on; what lies before the position is forgotten."""
        if self.ended:
            return False
        _ = self.line
        raw = self._stream.read(size)
        self.ended = not raw
        try:
            text = self._decoder.decode(raw, final=self.ended)
        except UnicodeDecodeError:
            _refuse(self.name, self._line, "objects are UTF-8 text, this is not")
        self.window = self.window[self.at :] + text
        self.at = self._counted = 0
        return True

    def skip_blanks(self) -> None:
        """Go to the next character that is no blank, or to the end."""
        while True:
            match = _BLANKS.match(self.window, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.window) or not self.more():
                return

    def peek(self) -> str:
        """The next character, empty at the end."""
        return self.window[self.at : self.at + 1]


class _Json:
    """Values of a JSON text, one at a time."""

    def __init__(self, text: _Text) -> None:
        self.text = text
        self._decoder = json.JSONDecoder(parse_constant=self._no_constant)

    def _no_constant(self, word: str) -> NoReturn:
        self.refuse(f"{word} is no JSON")

    def refuse(self, rule: str, hint: str = "") -> NoReturn:
        """End the reading where it stands."""
        text = self.text
        near = text.window[text.at : text.at + 20].split("\n")[0]
        _refuse(text.name, text.line, rule, shown(near) if near else "", hint)

    def value(self) -> Any:  # noqa: ANN401
        """The next value, whole."""
        text = self.text
        text.skip_blanks()
        wanted = CHUNK_BYTES
        while True:
            try:
                value, end = self._decoder.raw_decode(text.window, text.at)
            except json.JSONDecodeError as error:
                # A value that is cut off fails at the end of the window; others fail before it.
                cut = error.pos >= len(text.window) - 8 or error.msg.startswith("Unterminated")
                if text.ended or not cut:
                    text.at = min(max(error.pos, text.at), len(text.window))
                    hint = "Is the file cut off?" if cut else ""
                    self.refuse(f"no JSON: {error.msg[:1].lower()}{error.msg[1:]}", hint)
            except RecursionError:
                self.refuse("nested deeper than any object of the API")
            except ValueError:
                self.refuse("a number with more digits than any amount has")
            else:
                # A number may go on in the next piece.
                if end < len(text.window) or text.ended or not isinstance(value, int | float):
                    text.at = end
                    return value
            if len(text.window) - text.at > MAX_OBJECT_CHARACTERS:
                self.refuse(f"one object with more than {MAX_OBJECT_CHARACTERS} characters")
            text.more(wanted)
            wanted *= 2  # so that a long value is not begun anew for every piece

    def expect(self, characters: str) -> str:
        """The next character, which must be one of these."""
        text = self.text
        text.skip_blanks()
        found = text.peek()
        if not found:
            self.refuse("no JSON: the text ends here", "Is the file cut off?")
        if found not in characters:
            self.refuse(f"no JSON: {' or '.join(characters)} is wanted here")
        text.at += 1
        return found

    def next_is(self, character: str) -> bool:
        """Whether this comes next; if so it is passed."""
        self.text.skip_blanks()
        if self.text.peek() != character:
            return False
        self.text.at += 1
        return True

    def members(self) -> Iterator[str]:
        """Keys of an object whose values the caller reads."""
        self.expect("{")
        if self.next_is("}"):
            return
        while True:
            self.text.skip_blanks()
            if self.text.peek() != '"':
                self.expect('"')
            key = self.value()
            self.expect(":")
            yield str(key)
            if self.expect(",}") == "}":
                return

    def elements(self) -> Iterator[Found]:
        """Elements of a list, with their places."""
        self.expect("[")
        if self.next_is("]"):
            return
        while True:
            self.text.skip_blanks()
            place = Place(self.text.name, self.text.line)
            yield Found(self.value(), place)
            if self.expect(",]") == "]":
                return


def _json(text: _Text) -> Iterator[Found]:
    reader = _Json(text)
    while True:
        text.skip_blanks()
        if not text.peek():
            return
        if text.peek() == "[":
            yield from reader.elements()
        elif text.peek() == "{":
            yield from _json_object(reader)
        else:
            reader.refuse("an object or a list of objects is wanted here")


def _json_object(reader: _Json) -> Iterator[Found]:
    """An object, or the items of a List as they come."""
    place = Place(reader.text.name, reader.text.line)
    whole: dict[str, Any] = {}
    listed = False
    nameless: list[Found] = []
    for key in reader.members():
        reader.text.skip_blanks()
        if key != "items" or reader.text.peek() != "[":
            whole[key] = reader.value()
            continue
        listed = True
        for item in reader.elements():
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


def _yaml(text: _Text) -> Iterator[Found]:
    while text.more():
        if len(text.window) > MAX_YAML_BYTES:
            hint = "JSON (-o json) is read in pieces and has no such limit"
            _refuse(text.name, 1, f"YAML with more than {MAX_YAML_BYTES // MIB} MiB", hint=hint)
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
        parsed = parse_document(document.text, name)
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
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield Found(item, place(index))
    elif data is not None:
        yield Found(data, place())
