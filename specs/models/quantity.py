"""Kubernetes quantities and durations, read exactly: no binary floating point anywhere.

A quantity is a decimal number with an optional exponent (``1e3``), decimal suffix (``n u m k M G
T P E``) or binary suffix (``Ki Mi Gi Ti Pi Ei``). ``E`` alone is exa; ``E3`` is an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Literal

MIB = 2**20
"""Bytes in a MiB."""

MILLI = 1000
"""Thousandths in one CPU or one GPU."""

Rounding = Literal["up", "down"]

SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", start=1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}

DURATION_S: dict[str, Fraction | int] = {
    "ms": Fraction(1, 1000),
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 604800,
}

# Exponents have at most two digits: `1e999999999` must not become a number of a billion digits.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})"
    r"(?:[eE](?P<exponent>[+-]?\d{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
_DURATION_PART = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(ms|[smhdw])", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?\.?(nan|inf|infinity)", re.IGNORECASE)


class QuantityError(ValueError):
    """A text that is no quantity; `rule` says what was expected, `hint` the way out."""

    def __init__(self, rule: str, hint: str = "") -> None:
        self.rule, self.hint = rule, hint
        super().__init__(f"{rule}. {hint}" if hint else rule)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction:
    """Read a Kubernetes quantity.

    Parameters
    ----------
    text
        Such as ``500m``, ``1.5``, ``64Gi``, ``1e3``, ``128974848000m``.

    Returns
    -------
    Fraction
        The exact amount, not negative, in the resource's own unit (cores, bytes, GPUs).

    Raises
    ------
    QuantityError
        The text is no quantity, is negative, or is not finite.

    Examples
    --------
    >>> parse_quantity("1500m"), parse_quantity("3Ki"), parse_quantity("1e3")
    (Fraction(3, 2), Fraction(3072, 1), Fraction(1000, 1))
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        if _NOT_FINITE.fullmatch(text):
            raise QuantityError("an amount is a finite number")
        raise QuantityError("not a quantity", _quantity_hint(text))
    value = Fraction(match["number"].rstrip("."))
    if match["exponent"]:
        value *= Fraction(10) ** int(match["exponent"])
    else:
        value *= SUFFIXES[match["suffix"] or ""]
    if match["sign"] == "-" and value:
        raise QuantityError("an amount cannot be negative")
    return value


def _quantity_hint(text: str) -> str:
    shortened = re.fullmatch(r"([\d.]+)\s*([kKMGTPE]i?)[bB]?", text)
    if shortened:
        letter = shortened[2][0].upper()
        return f"Write {shortened[1]}{letter}i (1024s) or {shortened[1]}{letter.replace('K', 'k')}"
    return "Write a number with an optional unit, such as 500m, 1.5, 64Gi or 1e3"


def rounded(amount: Fraction | int, rounding: Rounding) -> int:
    """Whole number at or above (``up``: requests) or at or below (``down``: capacities)."""
    return ceil(amount) if rounding == "up" else floor(amount)


def gpu_count(text: str) -> int:
    """Whole devices in a quantity: the value must be whole, however it is spelled.

    Raises
    ------
    QuantityError
        The text is no quantity or its value is not whole.

    Examples
    --------
    >>> gpu_count("3000m"), gpu_count("3Ki")
    (3, 3072)
    """
    value = parse_quantity(text)
    if value.denominator != 1:
        raise QuantityError("GPUs are counted whole")
    return int(value)


def cpu_milli(text: str, rounding: Rounding = "up") -> int:
    """Thousandths of a core in a quantity of cores.

    Examples
    --------
    >>> cpu_milli("0.5"), cpu_milli("1e3"), cpu_milli("100u"), cpu_milli("100u", "down")
    (500, 1000000, 1, 0)
    """
    return rounded(parse_quantity(text) * MILLI, rounding)


def memory_bytes(text: str, rounding: Rounding = "up") -> int:
    """Bytes in a quantity of memory; millibytes are legal and rounded.

    Examples
    --------
    >>> memory_bytes("129M"), memory_bytes("128974848000m")
    (129000000, 128974848)
    """
    return rounded(parse_quantity(text), rounding)


def memory_mib(text: str, rounding: Rounding = "up") -> int:
    """MiB in a quantity of memory.

    Examples
    --------
    >>> memory_mib("64Gi"), memory_mib("1M"), memory_mib("1M", "down")
    (65536, 1, 0)
    """
    return rounded(parse_quantity(text) / MIB, rounding)


@lru_cache(maxsize=1024)
def parse_duration_s(text: str) -> Fraction:
    """Read a duration such as ``30s``, ``15m``, ``2h``, ``1d`` or ``1h30m``, in seconds.

    Raises
    ------
    QuantityError
        The text is no duration; a bare number other than 0 lacks its unit.

    Examples
    --------
    >>> int(parse_duration_s("15m")), int(parse_duration_s("1h30m"))
    (900, 5400)
    """
    if text == "0":
        return Fraction(0)
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        if re.fullmatch(r"\d{1,15}", text):
            raise QuantityError("a duration needs its unit", f"Write {text}s, {text}m or {text}h")
        if text.startswith("-"):
            raise QuantityError("a duration cannot be negative")
        raise QuantityError("not a duration", "Write it as 30s, 15m, 2h or 1d")
    return sum((Fraction(number) * DURATION_S[unit] for number, unit in parts), Fraction(0))
