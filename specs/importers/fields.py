"""Fields of an object from outside, read by name and type; faults name object and field.

Objects come from files that anybody may have written. A field that is missing or null has its
default, as in the API; one of the wrong type ends the reading of that object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from specs.errors import SpecFault, shown
from specs.models.base import MAX_AMOUNT, MAX_NAME
from specs.models.quantity import QuantityError, parse_quantity
from specs.scalars import Plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_API_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object came from."""

    file: str
    line: int


class ObjectFault(Exception):  # noqa: N818 - it carries a fault, as specs name it
    """An object that the API would not have accepted; `fault` is the line about it."""

    def __init__(self, fault: SpecFault) -> None:
        self.fault = fault
        super().__init__(str(fault))


class Fields:
    """One mapping of an object, with its path.

    Parameters
    ----------
    data
        The mapping; None counts as empty.
    place, path
        Where it stands: file and line of the object, then its name and the way inside.
    """

    __slots__ = ("data", "path", "place")

    def __init__(self, data: object, place: Place, path: str) -> None:
        self.place, self.path = place, path
        if data is None:
            data = {}
        elif not isinstance(data, dict):
            raise self.fault("", "a mapping is wanted here", data)
        self.data: dict[Any, Any] = data

    def fault(self, key: str, rule: str, value: object = None, hint: str = "") -> ObjectFault:
        """The fault of a field."""
        path = ".".join(part for part in (self.path, key) if part)
        words = path if len(path) <= 160 else path[:159] + "…"
        return ObjectFault(
            SpecFault(
                file=self.place.file,
                line=self.place.line,
                path=words if words.isprintable() else shown(words),
                value="" if value is None else shown(value),
                rule=rule,
                hint=hint,
            )
        )

    def __bool__(self) -> bool:
        return bool(self.data)

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.data.get(key) is not None

    def map(self, *keys: str) -> Fields:
        """A mapping inside; empty where it is missing."""
        fields = self
        for key in keys:
            fields = Fields(fields.data.get(key), fields.place, f"{fields.path}.{key}")
        return fields

    def maps(self, key: str) -> Iterator[Fields]:
        """Mappings of a list."""
        for index, item in enumerate(self._list(key)):
            yield Fields(item, self.place, f"{self.path}.{key}[{index}]")

    def words(self, key: str) -> tuple[str, ...]:
        """Texts of a list."""
        items = self._list(key)
        return tuple(self._text(f"{key}[{index}]", item) for index, item in enumerate(items))

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers and flags of YAML that are written without quotes count as such."""
        value = self.data.get(key)
        return default if value is None else self._text(key, value)

    def name(self, key: str, default: str = "") -> str:
        """A name as the API allows it: letters, digits and a few marks, nothing a shell reads."""
        text = self.text(key, default)
        if not _API_NAME.fullmatch(text):
            raise self.fault(key, "a name of letters, digits, -, . and _ is wanted here", text)
        return text

    def table(self, key: str) -> Mapping[str, str]:
        """Texts by name, such as labels."""
        inner = self.map(key)
        if "" in inner.data:
            raise inner.fault("", "a key here is not empty")
        return {
            inner._text("", name): "" if value is None else inner._text(str(name), value)  # noqa: SLF001
            for name, value in inner.data.items()
        }

    def annotations(self) -> Mapping[str, str]:
        """Annotations that are short texts: longer ones, of many lines, are notes of tools."""
        inner = self.map("annotations")
        return {
            str(name): str(value)
            for name, value in inner.data.items()
            if isinstance(value, str) and _is_short(value)
        }

    def whole(self, key: str, default: int, low: int = -(2**31), high: int = 2**31 - 1) -> int:
        """A whole number within bounds."""
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, Plain) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(key, "a whole number is wanted here", value)
        if not low <= value <= high:
            raise self.fault(key, f"a number from {low} to {high} is wanted here", value)
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing."""
        value = self.data.get(key)
        if isinstance(value, Plain) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is not None and not isinstance(value, bool):
            raise self.fault(key, "true or false is wanted here", value)
        return bool(value)

    def amounts(self, key: str) -> dict[str, Fraction]:
        """Quantities by resource, exactly; a resource without a value is left out."""
        inner = self.map(key)
        return {
            inner._text("", name): inner.amount(name)  # noqa: SLF001
            for name, value in inner.data.items()
            if value is not None
        }

    def amount(self, key: str) -> Fraction:
        """A quantity, exactly; 0 where it is missing."""
        value = self.data.get(key)
        if value is None:
            return Fraction(0)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.fault(str(key), "a quantity is wanted here", value)
        try:
            amount = parse_quantity(value if isinstance(value, str) else repr(value))
        except QuantityError as error:
            raise self.fault(str(key), error.rule, value, error.hint) from error
        if amount > MAX_AMOUNT:
            raise self.fault(str(key), "larger than any cluster", value)
        return amount

    def _list(self, key: str) -> list[Any]:
        value = self.data.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fault(key, "a list is wanted here", value)
        return value

    def _text(self, key: str, value: object) -> str:
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | float):
            value = repr(value)
        if not isinstance(value, str):
            raise self.fault(key, "a text is wanted here", value)
        if not _is_short(value):
            rule = (
                f"at most {MAX_NAME} printable characters, without blanks around, are wanted here"
            )
            raise self.fault(key, rule, value)
        return str(value)


@lru_cache(maxsize=1 << 16)
def _is_short(text: str) -> bool:
    """Whether a spec could have the text as a name."""
    return len(text) <= MAX_NAME and text.isprintable() and text == text.strip()
