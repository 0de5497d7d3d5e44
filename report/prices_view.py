"""A price book for people: what a replica costs, where it is cheap and where it is dear."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from report.folded import Cells, Folded
from report.text import amount
from solver.cluster import GPU_MILLI

if TYPE_CHECKING:
    from solver.prices.book import PriceBook
    from solver.prices.market import NodeType
    from solver.workload import Shape

MOST_SHAPES = 20
"""Shapes that are shown, those with most demand first; the file has all."""

LEGEND = (
    "GPUs asked for: of the cluster's, were the workload to fill it once. costs: GPUs that the "
    "rest of the workload loses by the first replica on an idle node of that kind, mean over "
    "plausible futures."
)


def prices_view(book: PriceBook) -> RenderableType:
    """One row per shape, most wanted first."""
    market = book.market
    order = sorted(
        range(len(market.shapes)), key=lambda k: -market.demand[k] * market.worth_milli[k]
    )[:MOST_SHAPES]
    rows = [_row(book, k) for k in order]
    names = [Text(_shape(market.shapes[k])) for k in order]
    columns = [
        Cells("GPUs\nasked for", [Text(row[0]) for row in rows]),
        Cells("costs\nleast", [Text(row[1]) for row in rows]),
        Cells("on", [Text(row[2]) for row in rows], "left"),
        Cells("costs\nmost", [Text(row[3]) for row in rows]),
        Cells("on", [Text(row[4]) for row in rows], "left"),
    ]
    left_out = len(market.shapes) - len(order)
    more = f" {left_out} more shapes are not shown." if left_out else ""
    return Group(
        Folded([Cells("a replica of", names, "left")], columns), Text(LEGEND + more, style="dim")
    )


def _row(book: PriceBook, k: int) -> tuple[str, str, str, str, str]:
    market = book.market
    asked = market.demand[k] * market.worth_milli[k] / GPU_MILLI
    gpus = amount(asked, 0) if market.shapes[k].wants_gpu else "-"
    costs = [(book.cost_milli(k, kind), kind) for kind in market.types]
    known = [(cost, kind) for cost, kind in costs if cost is not None]
    if not known:
        return gpus, "-", "nowhere", "-", ""
    least = min(known, key=lambda pair: pair[0])
    most = max(known, key=lambda pair: pair[0])
    if most[0] - least[0] < 1:
        return gpus, amount(mean(c for c, _ in known) / GPU_MILLI, 3), "any node", "", ""
    return (
        gpus,
        amount(least[0] / GPU_MILLI, 3),
        _kind(least[1]),
        amount(most[0] / GPU_MILLI, 3),
        _kind(most[1]),
    )


def _kind(kind: NodeType) -> str:
    cpu = "" if kind.cpu_milli is None else f", {amount(kind.cpu_milli / 1000)} CPU"
    return f"{kind.gpus} {'/'.join(kind.models) or 'GPU'}{cpu}"


def _shape(shape: Shape) -> str:
    if shape.share_memory_mib:
        gpus = f"{amount(shape.share_memory_mib / 1024)} GiB of a GPU"
    elif shape.wants_gpu:
        gpus = f"{amount(shape.gpus + shape.share_milli / GPU_MILLI, 3)} GPU"
    else:
        gpus = "no GPU"
    models = f" of {' or '.join(shape.gpu_models)}" if shape.gpu_models else ""
    return f"{gpus}{models}, {amount(shape.cpu_milli / 1000, 1)} CPU"
