"""The MIG layouts of a GPU model: profiles, counts, and a picture of memory slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from report.console import new_table
from report.text import plural, ranges
from topology.mig.layouts import counts, maximal_layouts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from topology.mig.layouts import Instance, Layout
    from topology.mig.tables import MigTable, Profile

LAYOUTS_SCHEMA = "unstrand/mig-layouts/v1"

MAX_DRAWN = 40
"""Maximal layouts in the table; JSON has all."""

EVIDENCE = {
    "captured": "placements as nvidia-smi printed them",
    "tabulated": "placements from independent tables; no capture is known",
    "inferred": "placements inferred from models with the same ids and counts",
}


def layouts_report(name: str, table: MigTable, profiles: Sequence[Profile]) -> dict[str, Any]:
    """The answer of ``mig layouts`` (schema ``unstrand/mig-layouts/v1``)."""
    found = counts(table, profiles)
    return {
        "schema": LAYOUTS_SCHEMA,
        "model": name,
        "slots": table.slots,
        "compute": table.compute,
        "evidence": table.evidence,
        "profiles": [
            {
                "name": profile.name,
                "id": profile.smi_id,
                "starts": list(profile.starts),
                "size": profile.size,
                "compute": profile.compute,
                "memory_mib": profile.memory_mib,
                "sm": profile.sm,
            }
            for profile in profiles
        ],
        "counts": {
            "placements": found.placements,
            "multisets": found.multisets,
            "maximal": found.maximal,
        },
        "maximal_layouts": [
            instances_report(layout) for layout in maximal_layouts(table, profiles)
        ],
        "sources": list(table.sources),
    }


def instances_report(layout: Iterable[Instance]) -> list[dict[str, Any]]:
    """Instances as programs read them."""
    return [{"profile": instance.profile, "start": instance.start} for instance in layout]


def layouts_view(name: str, table: MigTable, profiles: Sequence[Profile]) -> RenderableType:
    """The answer of ``mig layouts`` for people."""
    found = counts(table, profiles)
    headline = (
        f"{name}: {table.slots} memory slots, {table.compute} compute slices; "
        f"{plural(found.placements, 'layout')} of {plural(len(profiles), 'profile')}, "
        f"{found.multisets:,} multisets, {found.maximal:,} maximal"
    )
    maximal = maximal_layouts(table, profiles)
    width = slot_width(table, profiles)
    rows = [f"{'':>4}  {ruler(table, width)}  compute  memory"]
    for number, layout in enumerate(maximal[:MAX_DRAWN], start=1):
        kinds = [table.by_name[instance.profile] for instance in layout]
        compute = f"{sum(kind.compute for kind in kinds)}/{table.compute}"
        memory = f"{sum(kind.size for kind in kinds)}/{table.slots}"
        rows.append(f"{number:>4}  {picture(table, layout, width)}  {compute:>7}  {memory:>6}")
    if len(maximal) > MAX_DRAWN:
        rows.append(f"      … and {len(maximal) - MAX_DRAWN:,} more; --output json has all")
    return Group(
        Text(headline, style="bold"),
        Text(EVIDENCE[table.evidence] + "\n"),
        _profiles(profiles),
        Text("\nMaximal layouts, by memory slot"),
        Text("\n".join(rows), no_wrap=True, overflow="ignore"),
    )


def _profiles(profiles: Sequence[Profile]) -> RenderableType:
    view = new_table()
    view.add_column("profile")
    for heading in ("id", "compute", "slots", "memory", "SMs"):
        view.add_column(heading, justify="right")
    view.add_column("starts")
    for profile in profiles:
        view.add_row(
            profile.name,
            str(profile.smi_id),
            str(profile.compute),
            str(profile.size),
            f"{profile.memory_mib / 1024:.1f} GiB",
            "?" if profile.sm is None else str(profile.sm),
            ranges(profile.starts) if profile.size == 1 else ",".join(map(str, profile.starts)),
        )
    return view


def slot_width(table: MigTable, profiles: Sequence[Profile]) -> int:
    """Columns of one slot, so that the name of every profile fits into its slots."""
    return max((-(-(len(p.name) + 2) // p.size) for p in profiles), default=4)


def ruler(table: MigTable, width: int) -> str:
    """The numbers of the slots above a picture."""
    return "".join(f"{slot:<{width}}" for slot in range(table.slots))


def picture(table: MigTable, layout: Layout, width: int) -> str:
    """A layout as a row of slots: each instance in brackets, free slots as dots.

    Examples
    --------
    >>> from topology.mig.layouts import Instance
    >>> from topology.mig.tables import mig_table
    >>> picture(mig_table("A30"), (Instance(2, "2g.12gb"),), 6)
    '·     ·     [2g.12gb   ]'
    """
    row, slot = "", 0
    for instance in sorted(layout):
        row += f"{'·':<{width}}" * (instance.start - slot)
        size = table.by_name[instance.profile].size
        row += f"[{instance.profile:<{size * width - 2}}]"
        slot = instance.start + size
    return row + f"{'·':<{width}}" * (table.slots - slot)
