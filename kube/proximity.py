"""Which topology rule a gang gets whose parts have rules of their own.

A spec has one rule for all of a gang, the objects have one for each pod set or role. One rule says
the same where a single unit of pod sets has one and the others have no devices. Else the gang is
kept together where that can be, and the rules of its parts are not what is planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.records import Template

APART = "topology of each pod set by itself: the gang is near where that can be"


class GangTopology(NamedTuple):
    """The rule of a gang (a label, and whether it must hold), and what it does not say."""

    rule: tuple[str, bool] | None
    ignored: tuple[str, ...] = ()


def gang_topology(parts: Iterable[tuple[str, Template]]) -> GangTopology:
    """The one rule for pods of several kinds.

    Parameters
    ----------
    parts
        Name and template of each pod set or role. Those with one `topology_group` share a place.
    """
    units: dict[str, tuple[str, bool]] = {}
    free = False
    for name, template in parts:
        if template.topology is not None:
            units.setdefault(template.topology_group or f"/{name}", template.topology)
        elif _has_devices(template):
            free = True
    if not units:
        return GangTopology(None)
    first = next(iter(units.values()))
    if len(units) == 1 and not free:
        return GangTopology(first)
    return GangTopology((first[0], False), (APART,))


def _has_devices(template: Template) -> bool:
    asks = any(amount for name, amount in template.requests.items() if "/" in name)
    return asks or bool(template.share_milli or template.share_memory or template.claims)
