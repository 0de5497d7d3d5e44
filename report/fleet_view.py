"""``mig ahead``: how a fleet is cut for a demand, beside fleets that are cut in one way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from report.console import new_table
from report.json_report import number
from report.mig_layouts_view import instances_report
from report.text import percent, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from solver.fleet import FleetPlan
    from topology.mig.layouts import Layout
    from topology.mig.tables import MigTable

FLEET_SCHEMA = "unstrand/mig-ahead/v1"


def fleet_report(fleets: Sequence[FleetPlan], gpus: Mapping[MigTable, int]) -> dict[str, Any]:
    """The answer of ``mig ahead`` (schema ``unstrand/mig-ahead/v1``)."""
    return {
        "schema": FLEET_SCHEMA,
        "gpus": {table.model: count for table, count in gpus.items()},
        "fleets": [
            {
                "name": fleet.name,
                "admitted_ratio": number(fleet.admitted_ratio),
                "bound_ratio": None if fleet.bound_ratio is None else number(fleet.bound_ratio),
                "geometry": [
                    {"model": model, "gpus": count, "layout": instances_report(layout)}
                    for model, layouts in fleet.geometry
                    for layout, count in layouts
                ],
            }
            for fleet in fleets
        ],
    }


def fleet_view(
    name: str, fleets: Sequence[FleetPlan], gpus: Mapping[MigTable, int]
) -> RenderableType:
    """The answer of ``mig ahead`` for people."""
    count = plural(sum(gpus.values()), "GPU")
    headline = Text(
        f"{name}: {count} free to be cut or left whole, weighted demand admitted", style="bold"
    )
    table = new_table()
    table.add_column("fleet")
    table.add_column("admitted", justify="right")
    table.add_column("bound", justify="right")
    table.add_column("geometry", overflow="fold")
    for fleet in fleets:
        table.add_row(
            fleet.name,
            percent(fleet.admitted_ratio),
            "-" if fleet.bound_ratio is None else percent(fleet.bound_ratio),
            "; ".join(
                f"{n} x {model}: {layout_label(layout)}"
                for model, layouts in fleet.geometry
                for layout, n in layouts
            ),
        )
    return Group(headline, table)


def layout_label(layout: Layout) -> str:
    """A layout by its profiles.

    Examples
    --------
    >>> from topology.mig.layouts import Instance
    >>> layout_label((Instance(0, "3g.40gb"), Instance(4, "3g.40gb"))), layout_label(())
    ('2 x 3g.40gb', 'whole')
    """
    counted = Counter(instance.profile for instance in layout)
    parts = [f"{n} x {name}" if n > 1 else name for name, n in counted.items()]
    return " + ".join(parts) or "whole"
