"""Amounts as Slurm writes them: ``cpu=8,mem=64G,gres/gpu=4``, and generic resources (GRES)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from specs.models.base import MAX_AMOUNT
from specs.models.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

SHARED = ("shard", "mps")
"""Generic resources that are parts of GPUs."""
_MIG = re.compile(r"(?:^|[_-])\d+g\.\d+gb", re.ASCII)
_SUFFIX = re.compile(r"([KMGTPE])$")


def is_mig(gpu_type: str) -> bool:
    """Whether GPUs of a type are MIG instances.

    Examples
    --------
    >>> is_mig("1g.10gb"), is_mig("a100_3g.40gb"), is_mig("h100")
    (True, True, False)
    """
    return _MIG.search(gpu_type) is not None


def amounts(text: str) -> dict[str, Fraction]:
    """Amounts by name; Slurm's G is 1024³.

    Raises
    ------
    QuantityError
        An amount is none, or larger than any cluster.
    """
    found: dict[str, Fraction] = {}
    for part in text.split(","):
        name, _, amount = part.partition("=")
        if not name.strip():
            continue
        found[name.strip()] = parse_quantity(_SUFFIX.sub(r"\1i", amount))
        if found[name.strip()] > MAX_AMOUNT:
            raise QuantityError("larger than any cluster")
    return found


def gpus_in(tres: Mapping[str, Fraction]) -> int:
    """Whole GPUs among amounts: those that are no MIG instances."""
    whole = tres.get("gres/gpu", 0)
    typed = {
        key.removeprefix("gres/gpu:"): count
        for key, count in tres.items()
        if key.startswith("gres/gpu:")
    }
    cut = sum(count for name, count in typed.items() if is_mig(name))
    return max(0, int(whole or sum(typed.values())) - int(cut))


def shared_in(tres: Mapping[str, Fraction], kind: str) -> int:
    """Parts of GPUs among amounts, of one kind."""
    typed = sum(int(count) for key, count in tres.items() if key.startswith(f"gres/{kind}:"))
    return int(tres.get(f"gres/{kind}", typed))
