"""The counts that were worked out by hand and by enumeration, by family of profile."""

from __future__ import annotations

import yaml

from tests.paths import SHARED
from topology.mig.layouts import Instance
from topology.mig.tables import MigTable, Profile

PATH = SHARED / "data" / "mig_counts.yaml"


def oracles() -> dict:
    return yaml.safe_load(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def by_family(table: MigTable, *families: str) -> tuple[Profile, ...]:
    return tuple(profile for profile in table.profiles if profile.family in families)


def instance(table: MigTable, text: str) -> Instance:
    """From ``3g@4`` to the instance on this model."""
    family, _, start = text.partition("@")
    (profile,) = by_family(table, family)
    return Instance(int(start), profile.name)
