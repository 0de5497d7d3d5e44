"""Prices that were made before, perhaps for another workload or on another cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solver.cluster import Node
from solver.prices.book import PriceBook
from solver.prices.market import make_market, plain
from solver.prices.scenarios import Future
from solver.workload import Shape


@dataclass(frozen=True, slots=True)
class SavedShape:
    """A shape with its demand (only the proportions matter) and its price in every future."""

    shape: Shape
    demand: float
    price_milli: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SavedPrices:
    """A price book without a cluster.

    Parameters
    ----------
    critical, cpu_factors
        Factor of all CPU below which the workload loses GPUs, and the factor of each future.
    """

    shapes: tuple[SavedShape, ...]
    critical: float
    cpu_factors: tuple[float, ...]


def book_of(saved: SavedPrices, nodes: Iterable[Node]) -> PriceBook:
    """The price book of these prices on a cluster; what has no price is worth nothing to it."""
    market = make_market(nodes, [(entry.shape, entry.demand) for entry in saved.shapes])
    prices = {plain(entry.shape): entry.price_milli for entry in saved.shapes}
    table = np.array([prices[shape] for shape in market.shapes], dtype=float)
    table = table.reshape(len(market.shapes), len(saved.cpu_factors))
    futures = [
        Future(factor, table[:, place].copy()) for place, factor in enumerate(saved.cpu_factors)
    ]
    return PriceBook(market, saved.critical, futures)
