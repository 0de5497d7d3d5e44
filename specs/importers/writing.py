"""Specs as text: one line for each object, quotes only where they are needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Letters first: such a word is no number, and only these few words mean something else.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def flow(entry: Mapping[str, Any]) -> str:
    """An object on one line; values are texts, ints, flags, and tuples and mappings of those.

    Numbers and quantities are ints or come from `cores`, `share` and `memory`; texts of the
    user are quoted where YAML would read them as something else.

    Examples
    --------
    >>> flow({"name": "a: b", "gpus": 2, "gpu_models": ("T4", "P100")})
    '{name: "a: b", gpus: 2, gpu_models: [T4, P100]}'
    >>> flow({"name": "gpu-a", "labels": {"a b": "1"}, "cordoned": True})
    '{name: gpu-a, labels: {"a b": "1"}, cordoned: true}'
    """
    return "{" + ", ".join(f"{_value(key)}: {_value(value)}" for key, value in entry.items()) + "}"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return flow(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Amount):
        return str(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


class Amount(str):
    """A quantity, written as it is."""

    __slots__ = ()


def cores(milli: int) -> Amount:
    """Cores as people write them.

    Examples
    --------
    >>> cores(64000), cores(3152)
    ('64', '3152m')
    """
    return Amount(f"{milli}m" if milli % 1000 else f"{milli // 1000}")


def share(milli: int) -> Amount:
    """A share of one GPU as people write it.

    Examples
    --------
    >>> share(460), share(5)
    ('0.46', '0.005')
    """
    return Amount(f"0.{milli:03d}".rstrip("0"))


def memory(mib: int) -> Amount:
    """Memory as people write it.

    Examples
    --------
    >>> memory(262144), memory(1000)
    ('256Gi', '1000Mi')
    """
    return Amount(f"{mib}Mi" if mib % 1024 or not mib else f"{mib // 1024}Gi")
