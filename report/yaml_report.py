"""The same reports as YAML, for people who read nested answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_yaml(report: Mapping[str, Any]) -> str:
    """The report as block YAML, keys in the order of the JSON."""
    return yaml.safe_dump(dict(report), sort_keys=False, allow_unicode=True, width=100)
