"""``plugin devices`` for people: one row per resource and kind of device, from plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from report.console import new_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table


def devices_view(report: Mapping[str, Any]) -> Table:
    """The table of what a node would advertise."""
    table = new_table()
    for name in ("resource", "allocatable", "sharing", "GPU", "device", "MiB", "NUMA"):
        table.add_column(
            name, justify="right" if name in ("allocatable", "MiB", "NUMA") else "left"
        )
    for resource in report["resources"]:
        sharing = resource["sharing"]
        shared = sharing if resource["replicas"] == 1 else f"{sharing} x {resource['replicas']}"
        first = (resource["name"], str(resource["allocatable"]), shared)
        for device in resource["devices"]:
            numa = device["numa_node"]
            what = (
                device["id"] if device["fault"] is None else f"{device['id']} ({device['fault']})"
            )
            place = f"{device['gpu']}"
            if device["profile"] is not None:
                place += f" {device['profile']}@{device['start']}"
            table.add_row(
                *first, place, what, str(device["memory_mib"]), "-" if numa is None else str(numa)
            )
            first = ("", "", "")
    return table
