"""Where the GPUs and network cards of a node stand in its picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import cos, pi, sin
from typing import TYPE_CHECKING

from topology.links import LinkKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from topology.graph import NodeTopology
    from topology.links import Link

Point = tuple[float, float]

BOX_W, BOX_H = 92, 48
NIC_W, NIC_H, NIC_GAP = 118, 26, 8
SIDE, BARE_SIDE = 250, 80
"""From the outermost GPU to the edge, with a column of network cards and without."""
MIN_WIDTH = 680
TOP = 84
MAX_RING_SEARCH = 8
"""Up to so many GPUs every order on the ring is tried (7! = 5040)."""


@dataclass(frozen=True)
class Layout:
    """Where everything stands."""

    topology: NodeTopology

    @cached_property
    def radius(self) -> float:
        """Radius of the ring, so large that neighbouring boxes do not touch."""
        n = self.topology.n_gpus
        return 0 if n == 1 else max(110.0, 26.0 * n)

    @cached_property
    def width(self) -> float:
        """Width of the picture."""
        side = SIDE if self.near else BARE_SIDE
        return max(2 * self.radius + BOX_W + 2 * side, MIN_WIDTH)

    @cached_property
    def centre(self) -> Point:
        """Centre of the ring; low enough for the longer column of network cards."""
        needed = max((len(column) for column in self.columns.values()), default=0)
        half = max(self.radius + BOX_H / 2, needed * (NIC_H + NIC_GAP) / 2)
        return self.width / 2, TOP + 30 + half

    @cached_property
    def bottom(self) -> float:
        """Height below which nothing of the ring and the columns reaches."""
        return 2 * self.centre[1] - TOP + 10

    @cached_property
    def ring(self) -> tuple[int, ...]:
        """GPUs in their order on the ring: neighbours have the most bandwidth in total."""
        node = self.topology
        if node.n_gpus > MAX_RING_SEARCH:
            island = {gpu: at for at, gpus in enumerate(node.islands) for gpu in gpus}
            return tuple(sorted(range(node.n_gpus), key=lambda gpu: (island.get(gpu, 99), gpu)))
        orders = ((0, *rest) for rest in permutations(range(1, node.n_gpus)))
        return max(
            orders,
            key=lambda order: sum(node.gb_s(order[i - 1], order[i]) for i in range(len(order))),
        )

    @cached_property
    def gpu_at(self) -> dict[int, Point]:
        """Centre of each GPU's box: down the left side, up the right one."""
        x, y = self.centre
        return {gpu: (x + dx, y + dy) for gpu, (dx, dy) in self.offsets.items()}

    @cached_property
    def offsets(self) -> dict[int, Point]:
        """Place of each GPU relative to the centre."""
        n = self.topology.n_gpus
        return {
            gpu: (
                self.radius * cos(1.5 * pi - (place + 0.5) * 2 * pi / n),
                self.radius * sin(1.5 * pi - (place + 0.5) * 2 * pi / n),
            )
            for place, gpu in enumerate(self.ring)
        }

    @cached_property
    def near(self) -> dict[str, tuple[Link, tuple[int, ...]]]:
        """Network cards to draw: the link to, and the list of, the GPUs they are nearest to."""
        return near_nics(self.topology)

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Network cards of the left and the right side, from top to bottom."""
        middle = {}
        for nic, (_, gpus) in self.near.items():
            places = [self.offsets[gpu] for gpu in gpus]
            middle[nic] = (sum(x for x, _ in places), sum(y for _, y in places) / len(places))
        columns: dict[str, list[str]] = {"left": [], "right": []}
        for nic in sorted(middle, key=lambda nic: middle[nic][1]):
            columns["left" if middle[nic][0] < 0.01 else "right"].append(nic)
        return columns

    @cached_property
    def nic_at(self) -> dict[str, Point]:
        """Centre of each NIC's box: at the height of its GPUs, pushed down where it is taken."""
        places: dict[str, Point] = {}
        for side, x in (("left", 40 + NIC_W / 2), ("right", self.width - 40 - NIC_W / 2)):
            wanted = []
            for nic in self.columns[side]:
                gpus = self.near[nic][1]
                wanted.append(sum(self.gpu_at[gpu][1] for gpu in gpus) / len(gpus))
            heights = _apart(wanted, NIC_H + NIC_GAP)
            places |= {nic: (x, y) for nic, y in zip(self.columns[side], heights, strict=True)}
        return places


def _apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Move sorted values apart by at least `gap`, groups staying centred on what they wanted."""
    groups: list[list[float]] = []
    for value in wanted:
        groups.append([value])
        while len(groups) > 1 and _top(groups[-1], gap) < _top(groups[-2], gap) + gap * len(
            groups[-2]
        ):
            last = groups.pop()
            groups[-1] += last
    return [_top(group, gap) + gap * at for group in groups for at in range(len(group))]


def _top(group: list[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def near_nics(topology: NodeTopology) -> dict[str, tuple[Link, tuple[int, ...]]]:
    """Network cards that are nearest to some GPU (not over SYS): their best link, those GPUs."""
    near: dict[str, tuple[Link, tuple[int, ...]]] = {}
    for nic in topology.nics:
        gpus = [
            gpu
            for gpu in range(topology.n_gpus)
            if (best := topology.nearest_nics(gpu)) is not None
            and nic in best[1]
            and best[0].kind is not LinkKind.SYS
        ]
        links = [link for gpu in gpus if (link := topology.device_link(f"GPU{gpu}", nic))]
        if links:
            near[nic] = (min(links, key=lambda link: link.rank), tuple(gpus))
    return near


def hull(points: Iterable[Point]) -> list[Point]:
    """Convex hull of points in the plane (Andrew's monotone chain)."""
    ordered = sorted(set(points))
    halves = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[Point] = []
        for point in sequence:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        halves.append(chain[:-1])
    return [*halves[0], *halves[1]]


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
