"""JSON read in pieces: a window over a stream, and the values in it one at a time."""

from __future__ import annotations

import codecs
import json
import re
from typing import IO, TYPE_CHECKING, Any, NoReturn

from specs.errors import SpecErrors, SpecFault, shown
from specs.models.quantity import MIB
from specs.reading import as_no_text

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES = MIB
MAX_OBJECT_CHARACTERS = 16 * MIB
"""An object of the API has at most 1.5 MiB (etcd's limit); with indents, this is generous."""

_BLANKS = re.compile(r"[ \t\r\n]*")


def refuse(name: str, line: int, rule: str, value: str = "", hint: str = "") -> NoReturn:
    """End the reading of a file.

    Raises
    ------
    SpecErrors
        Always.
    """
    raise SpecErrors([SpecFault(file=name, line=line, value=value, rule=rule, hint=hint)])


class Window:
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
            hint = as_no_text(raw)
            refuse(self.name, self._line, "objects are UTF-8 text, this is not", hint=hint)
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


class JsonValues:
    """Values of a JSON text, one at a time."""

    def __init__(self, text: Window) -> None:
        self.text = text
        self._decoder = json.JSONDecoder(parse_constant=self._no_constant)

    def _no_constant(self, word: str) -> NoReturn:
        self.refuse(f"{word} is no JSON")

    def refuse(self, rule: str, hint: str = "") -> NoReturn:
        """End the reading where it stands."""
        text = self.text
        near = text.window[text.at : text.at + 20].split("\n")[0]
        refuse(text.name, text.line, rule, shown(near) if near else "", hint)

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

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Elements of a list, each with its line."""
        self.expect("[")
        if self.next_is("]"):
            return
        while True:
            self.text.skip_blanks()
            line = self.text.line
            yield line, self.value()
            if self.expect(",]") == "]":
                return
