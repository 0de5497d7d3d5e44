"""A price book as a small document for people and programs."""

from __future__ import annotations

from typing import Any

from solver.prices.book import PriceBook
from solver.prices.market import NodeType
from solver.workload import Shape

SCHEMA = "unstrand/prices/v1"


def book_document(book: PriceBook) -> dict[str, Any]:
    """What every shape is worth and costs on every kind of node, ready for JSON.

    Amounts in milli-GPU; `cost_milli` is what the first replica on an idle node of the type
    takes away from the rest of the workload, null where it does not fit.
    """
    market = book.market
    return {
        "schema": SCHEMA,
        "critical_cpu_factor": book.critical,
        "cpu_factors": [future.cpu_factor for future in book.futures],
        "node_types": [_node_type(kind) for kind in market.types],
        "shapes": [
            {
                **_shape(shape),
                "demand": round(market.demand[k], 3),
                "worth_milli": market.worth_milli[k],
                "price_milli": [round(float(future.prices[k]), 3) for future in book.futures],
                "cost_milli": [_rounded(book.cost_milli(k, kind)) for kind in market.types],
            }
            for k, shape in enumerate(market.shapes)
        ],
    }


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 3)


def _node_type(kind: NodeType) -> dict[str, Any]:
    return {
        "models": list(kind.models),
        "gpus": kind.gpus,
        "cpu_milli": kind.cpu_milli,
        "nodes": kind.count,
    }


def _shape(shape: Shape) -> dict[str, Any]:
    return {
        "gpus": shape.gpus,
        "share_milli": shape.share_milli,
        "share_memory_mib": shape.share_memory_mib,
        "compute_milli": shape.compute_milli,
        "share_group": shape.share_group,
        "cpu_milli": shape.cpu_milli,
        "gpu_models": list(shape.gpu_models),
        "node_selector": dict(shape.node_selector),
        "tolerations": [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect}
            for t in shape.tolerations
        ],
    }
