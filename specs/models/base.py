"""Building blocks of the models: strict objects, and scalars whose meaning their key decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from specs.models.quantity import QuantityError, parse_duration_s, parse_quantity
from specs.scalars import Plain

MAX_COUNT = 1_000_000
"""More replicas, nodes or weight than that is a slip of the keyboard, not a cluster."""

MAX_NODE_GPUS = 256
"""Every pair of GPUs of a node has a link, so their number is kept in reason."""

MAX_NAME = 253
"""Longest name, as in Kubernetes."""

MAX_AMOUNT = Fraction(2**60)
"""Largest amount in the resource's own unit (1 Ei of memory): sums stay far inside 64 bits."""

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_DECIMAL = re.compile(r"\+?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})([eE][+-]?\d{1,2})?", re.ASCII)


class StrictModel(BaseModel):
    """An object of the spec: immutable; a key it does not know is an error.

    A key without a value (``labels:`` and nothing behind it) counts as left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: object) -> object:
        if isinstance(data, Mapping) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data


def refuse(rule: str, hint: str = "") -> NoReturn:
    """Reject the value at hand, with the rule it breaks and a way out."""
    raise PydanticCustomError("rule", "{rule}", {"rule": rule, "hint": hint})


def _text(value: object) -> str:
    if not isinstance(value, str):
        refuse("a name or a text is wanted here", "" if value is not None else "Say which")
    if len(value) > MAX_NAME:
        refuse(f"a name has at most {MAX_NAME} characters")
    if not value.isprintable():
        refuse("a name has no line breaks or control characters")
    return str(value)


def _name(value: object) -> str:
    text = _text(value)
    if not text or text != text.strip():
        refuse("a name is not empty and has no blanks around it")
    return text


def _whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, Plain):
            if not _WHOLE.fullmatch(value):
                refuse("a whole number is wanted here", _whole_hint(value))
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            quoted = isinstance(value, str) and _WHOLE.fullmatch(value)
            refuse("a whole number is wanted here", "Remove the quotes" if quoted else "")
        if value < low:
            refuse("a number here cannot be negative" if low == 0 else f"at least {low}")
        if value > high:
            refuse(f"at most {high}")
        return value

    return read


def _whole_hint(text: str) -> str:
    stripped = text.lstrip("0").replace("_", "")
    return f"Write {stripped}" if stripped and _WHOLE.fullmatch(stripped) else ""


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Plain):
        if value in ("true", "True", "TRUE"):
            return True
        if value in ("false", "False", "FALSE"):
            return False
    word = value.lower() if isinstance(value, str) else ""
    meant = {"yes": "true", "on": "true", "y": "true", "true": "true"}.get(word)
    meant = meant or {"no": "false", "off": "false", "n": "false", "false": "false"}.get(word)
    refuse("true or false is wanted here", f"Write {meant}" if meant else "")


def _as_text(value: object, what: str) -> str:
    """The text of a scalar; numbers come as such only where models are built from Python."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(f"{what} is wanted here")
    return repr(value)


def _quantity(value: object) -> Fraction:
    try:
        amount = parse_quantity(_as_text(value, "a quantity"))
    except QuantityError as error:
        refuse(error.rule, error.hint)
    if amount > MAX_AMOUNT:
        refuse("larger than any cluster")
    return amount


def _duration(value: object) -> Fraction:
    try:
        duration = parse_duration_s(_as_text(value, "a duration"))
    except QuantityError as error:
        refuse(error.rule, error.hint)
    if duration > 10**10:
        refuse("longer than three hundred years")
    return duration


def _gpu_request(value: object) -> Fraction:
    amount = _quantity(value)
    if amount.denominator != 1 and amount > Fraction(999, 1000):
        refuse("whole GPUs, or one share below 1", "A share is at most 0.999")
    if amount > MAX_COUNT:
        refuse(f"at most {MAX_COUNT} GPUs")
    return amount


def _gpu_capacity(value: object) -> int:
    amount = _quantity(value)
    if amount.denominator != 1:
        refuse("GPUs of a node are counted whole")
    if amount > MAX_NODE_GPUS:
        refuse(f"a node has at most {MAX_NODE_GPUS} GPUs")
    return int(amount)


def _decimal(value: object) -> Fraction:
    text = _as_text(value, "a number")
    if not _DECIMAL.fullmatch(text):
        refuse("a finite number, not negative, is wanted here")
    return Fraction(text)


def choice(*values: str) -> PlainValidator:
    """Validator of a word out of a few."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in values:
            raise PydanticCustomError(
                "choice",
                "{rule}",
                {"rule": f"one of {', '.join(values)}", "hint": "", "known": values},
            )
        return str(value)

    return PlainValidator(read, json_schema_input_type=Literal[values])


def _schema(kind: str | list[str], **facets: Any) -> WithJsonSchema:  # noqa: ANN401
    return WithJsonSchema({"type": kind, **facets})


_QUANTITY_PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$"
_DURATION_PATTERN = r"^(0|([0-9]+(\.[0-9]+)?(ms|[smhdw]))+)$"
_SCALAR = ["string", "number", "boolean"]
_AMOUNT: dict[str, Any] = {"minimum": 0, "pattern": _QUANTITY_PATTERN}


def whole(low: int, high: int) -> tuple[PlainValidator, WithJsonSchema]:
    """Annotations of a whole number within bounds."""
    return PlainValidator(_whole(low, high)), _schema("integer", minimum=low, maximum=high)


_COUNT, _COUNT_SCHEMA = whole(0, MAX_COUNT)
_POSITIVE, _POSITIVE_SCHEMA = whole(1, MAX_COUNT)
_PRIORITY, _PRIORITY_SCHEMA = whole(-(2**31), 2**31 - 1)
_INDEX, _INDEX_SCHEMA = whole(0, MAX_NODE_GPUS - 1)
_SEED, _SEED_SCHEMA = whole(0, 2**31 - 1)

Text = Annotated[str, PlainValidator(_text), _schema(_SCALAR)]
Name = Annotated[str, PlainValidator(_name), _schema(_SCALAR, minLength=1, maxLength=MAX_NAME)]
Flag = Annotated[bool, PlainValidator(_flag), _schema("boolean")]
Count = Annotated[int, _COUNT, _COUNT_SCHEMA]
PositiveCount = Annotated[int, _POSITIVE, _POSITIVE_SCHEMA]
Priority = Annotated[int, _PRIORITY, _PRIORITY_SCHEMA]
GpuIndex = Annotated[int, _INDEX, _INDEX_SCHEMA]
Seed = Annotated[int, _SEED, _SEED_SCHEMA]
Quantity = Annotated[Fraction, PlainValidator(_quantity), _schema(["string", "number"], **_AMOUNT)]
GpuRequest = Annotated[
    Fraction, PlainValidator(_gpu_request), _schema(["string", "number"], **_AMOUNT)
]
GpuCapacity = Annotated[
    int, PlainValidator(_gpu_capacity), _schema(["string", "integer"], maximum=256, **_AMOUNT)
]
Duration = Annotated[
    Fraction, PlainValidator(_duration), _schema(["string", "integer"], pattern=_DURATION_PATTERN)
]
Decimal = Annotated[Fraction, PlainValidator(_decimal), _schema("number", minimum=0)]
