"""MIG instances as the API tells them, only by number, to places on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from topology.mig.layouts import Instance, Layout, fits
from topology.mig.tables import mig_table_or_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.mig.tables import MigTable

MOST_SEARCHED = 32
"""GPUs of one node for which an uneven distribution is looked for."""


class Placed(NamedTuple):
    """An instance on a GPU; `start` None where nobody knows the starts of the model."""

    profile: str
    start: int | None


def arranged(cut: Sequence[Sequence[str]], model: str | None) -> list[tuple[Placed, ...]] | None:
    """A place for every instance, first as it is distributed, else in any way that fits.

    Parameters
    ----------
    cut
        Profiles of the instances of each GPU.

    Returns
    -------
    list
        Instances of each GPU; None where they fit in no way.

    Examples
    --------
    >>> arranged([["1g.10gb", "3g.40gb"]], "A100-80GB")
    [(Placed(profile='3g.40gb', start=0), Placed(profile='1g.10gb', start=4))]
    """
    table = mig_table_or_none(model)
    if table is None:
        return [tuple(Placed(profile, None) for profile in gpu) for gpu in cut]
    if any(profile not in table.by_name for gpu in cut for profile in gpu):
        return None
    found = [_layout(table, gpu) for gpu in cut]
    if any(layout is None for layout in found):
        if len(cut) > MOST_SEARCHED:
            return None
        found = _packed(table, [profile for gpu in cut for profile in gpu], len(cut))
    layouts = [layout for layout in found if layout is not None]
    if len(layouts) < len(cut):
        return None
    return [tuple(Placed(one.profile, one.start) for one in layout) for layout in layouts]


def _largest(table: MigTable, profiles: Sequence[str]) -> list[str]:
    return sorted(profiles, key=lambda name: (-table.by_name[name].size, name))


def _layout(table: MigTable, profiles: Sequence[str]) -> Layout | None:
    """Starts for the instances of one GPU, the largest first."""
    if len(profiles) > table.slots:
        return None

    def place(left: list[str], done: Layout) -> Layout | None:
        if not left:
            return done
        for start in table.by_name[left[0]].starts:
            layout = (*done, Instance(start, left[0]))
            if fits(table, layout) and (found := place(left[1:], layout)) is not None:
                return found
        return None

    return place(_largest(table, profiles), ())


def _packed(table: MigTable, profiles: Sequence[str], gpus: int) -> list[Layout | None]:
    """Layouts of so many GPUs, each instance on the first where it still fits."""
    names: list[list[str]] = [[] for _ in range(gpus)]
    layouts: list[Layout | None] = [()] * gpus
    for profile in _largest(table, profiles):
        for at in range(gpus):
            layout = _layout(table, [*names[at], profile])
            if layout is not None:
                names[at].append(profile)
                layouts[at] = layout
                break
        else:
            return []
    return layouts
