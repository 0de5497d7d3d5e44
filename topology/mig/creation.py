"""In which order instances are created, so that a driver that picks the start ends in the plan.

``nvidia-smi mig -cgi`` without a start, and tools that go by counts, leave the start to the
driver. Here it is taken to be the lowest free one, so ``3g`` before ``4g`` leaves no place for the
``4g``. Passing the start is always safer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from topology.mig.layouts import Instance, Layout, occupied_mask, open_starts
from topology.mig.tables import MigTable


@dataclass(frozen=True, slots=True)
class Creation:
    """Instances in the order in which they are created.

    `starts_must_be_passed`: there is no order in which a driver that takes the lowest free start
    would end in the plan.
    """

    order: Layout
    starts_must_be_passed: bool


def lowest_free_start(table: MigTable, there: Iterable[Instance], profile: str) -> int | None:
    """Where a driver that is given no start puts an instance; None where it has no place."""
    starts = open_starts(table, tuple(sorted(there)), table.by_name[profile])
    return starts[0] if starts else None


def creation_order(
    table: MigTable, create: Iterable[Instance], there: Iterable[Instance] = ()
) -> Creation:
    """Order instances for creation beside those that are there already.

    Of the orders that end in the plan the one with the largest instances first; where none does,
    largest first, and the starts must be passed.

    Notes
    -----
    Searched over sets of created instances, at most 2 to the power of 7.

    Examples
    --------
    >>> from topology.mig.tables import mig_table
    >>> table = mig_table("A100-80GB")
    >>> found = creation_order(table, [Instance(4, "3g.40gb"), Instance(0, "4g.40gb")])
    >>> [str(instance) for instance in found.order], found.starts_must_be_passed
    (['4g.40gb@0', '3g.40gb@4'], False)
    """
    wanted = tuple(sorted(create, key=lambda instance: _largest_first(table, instance)))
    present = tuple(there)
    hopeless: set[frozenset[Instance]] = set()

    def follow(done: tuple[Instance, ...]) -> tuple[Instance, ...] | None:
        if len(done) == len(wanted):
            return done
        state = frozenset(done)
        if state in hopeless:
            return None
        for instance in wanted:
            if instance in state:
                continue
            start = lowest_free_start(table, (*present, *done), instance.profile)
            if start == instance.start and (found := follow((*done, instance))) is not None:
                return found
        hopeless.add(state)
        return None

    found = follow(())
    return Creation(wanted if found is None else found, found is None)


def _largest_first(table: MigTable, instance: Instance) -> tuple[int, int, int, str]:
    profile = table.by_name[instance.profile]
    return (-profile.size, -profile.compute, instance.start, instance.profile)


def free_slots(table: MigTable, layout: Iterable[Instance]) -> tuple[int, ...]:
    """Memory slots that no instance takes."""
    taken = occupied_mask(table, layout)
    return tuple(slot for slot in range(table.slots) if not taken >> slot & 1)
