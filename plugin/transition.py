"""From what is advertised to what should be, without dropping an ID that a container holds. Pure.

An ID that leaves is told as unhealthy first and dropped later. An ID in use whose device is still
there stays as it is until its container ends. A device that a container holds whole is not given
out in shares meanwhile, nor the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from plugin.names import REPLICA_MARK, device_of
from plugin.resources import Resource

FAREWELL_S = 30.0
"""How long an ID that nobody is known to hold is told as unhealthy before it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to advertise now.

    Parameters
    ----------
    resource
        With IDs kept for the containers that hold them.
    leaving
        IDs without a device any more, told as unhealthy; with the time each began to leave.
    withheld
        IDs that are not given out while another container holds the device in another way.
    """

    resource: Resource
    leaving: Mapping[str, float]
    withheld: frozenset[str]


def step(
    before: Iterable[str],
    leaving: Mapping[str, float],
    wanted: Resource,
    in_use: frozenset[str] | None,
    now_s: float,
    elsewhere: frozenset[str] = frozenset(),
) -> Step:
    """One step from the IDs advertised `before` towards the wanted resource.

    Parameters
    ----------
    leaving
        Of the former step.
    in_use
        IDs that containers hold; None where the kubelet does not tell.
    elsewhere
        IDs that containers hold under other resource names, as after a change of name.
    """
    here = {device.uuid: position for position, device in enumerate(wanted.devices)}
    gone = [one for one in before if one not in wanted.owner]
    kept = []
    still_leaving = {}
    for one in gone:
        held = in_use is not None and one in in_use
        if held and device_of(one) in here:
            kept.append((one, here[device_of(one)]))
            continue
        since = leaving.get(one, now_s)
        # Where nobody knows who holds it, somebody may: it stays, and is given to nobody.
        if held or in_use is None or now_s - since < FAREWELL_S:
            still_leaving[one] = since
    resource = replace(wanted, extra=tuple(kept)) if kept else wanted
    return Step(
        resource=resource,
        leaving=still_leaving,
        withheld=frozenset(_withheld(resource, in_use or frozenset(), elsewhere)),
    )


def _withheld(
    resource: Resource, in_use: frozenset[str], elsewhere: frozenset[str]
) -> Iterator[str]:
    held_elsewhere: dict[str, set[str]] = {}
    for one in elsewhere:
        held_elsewhere.setdefault(device_of(one), set()).add(one)
    for ids, device in zip(resource.ids, resource.devices, strict=True):
        others = held_elsewhere.get(device.uuid, set())
        ways = {REPLICA_MARK in one for one in others | (in_use & set(ids))}
        for one in ids:
            another_way = bool(ways - {REPLICA_MARK in one})
            if one in others or (another_way and one not in in_use):
                yield one
