"""One node's links as a picture: GPUs on a ring, NVLink by width, islands shaded, NICs outside."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from report.text import plural
from report.topology_layout import BOX_H, BOX_W, NIC_H, NIC_W, Layout, Point, hull, near_nics
from report.topology_view import headline
from topology.graph import Fabric
from topology.links import LinkKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.graph import NodeTopology
    from topology.links import Link

Style = tuple[str, float, str]
"""Colour, width and dashes of a line."""

INK, MUTED, PAPER, SHADE = "#1f2933", "#616e7c", "#ffffff", "#e3f1ee"
NIC_INK, NIC_PAPER = "#b7791f", "#fdf3e1"
NVLINK_COLOURS = ("#0f7b6c", "#3d8fd1", "#9061c2", "#c2780c")
"""Widest NVLink first; a fifth width and beyond look like the last."""
PCIE_STYLES = {
    LinkKind.PIX: ("#52606d", 2.5, ""),
    LinkKind.PXB: ("#52606d", 2.0, "9 4"),
    LinkKind.PHB: ("#829ab1", 1.8, "5 4"),
    LinkKind.NODE: ("#9fb3c8", 1.6, "2 4"),
}
"""Colour, width and dashes; SYS is not drawn, or everything would be full of it."""
LEGEND_ROW, NOTE_ROW = 24, 20


def topology_svg(topology: NodeTopology, domain_nodes: int | None = None) -> str:
    """Draw a node as a standalone SVG document on white.

    GPUs stand on a ring so that well-linked ones are neighbours; a switch is a box in the middle.
    Network cards stand outside, at the GPUs that they are nearest to.
    """
    layout = Layout(topology)
    legend = _legend(topology)
    notes = _notes(topology)
    height = layout.bottom + 40 + LEGEND_ROW * len(legend) + NOTE_ROW * len(notes)
    body = [
        *_islands(layout),
        *_nic_edges(layout),
        *_gpu_edges(layout),
        *_switch(layout),
        *(_gpu(layout, gpu) for gpu in range(topology.n_gpus)),
        *(_nic(layout, nic) for nic in layout.nic_at),
        *_legend_rows(legend, 60, layout.bottom + 30),
        *_note_rows(notes, 60, layout.bottom + 34 + LEGEND_ROW * len(legend)),
    ]
    width = layout.width
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            'font-family="DejaVu Sans, Verdana, sans-serif" '
            f'aria-label="{_text(topology.name)}">',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="{PAPER}"/>',
            _label((40, 42), topology.name, 22, weight="bold", anchor="start"),
            _label((40, 66), headline(topology, domain_nodes), 14, colour=MUTED, anchor="start"),
            *body,
            "</svg>",
            "",
        ]
    )


# --- shapes ------------------------------------------------------------------------------------


def _islands(layout: Layout) -> list[str]:
    """Shade the hull of each island; a thick round outline makes its margin."""
    shapes = []
    for island in layout.topology.islands:
        corners = [
            (x + dx, y + dy)
            for x, y in (layout.gpu_at[gpu] for gpu in island)
            for dx in (-BOX_W / 2, BOX_W / 2)
            for dy in (-BOX_H / 2, BOX_H / 2)
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in hull(corners))
        shapes.append(
            f'<polygon points="{points}" fill="{SHADE}" stroke="{SHADE}" stroke-width="28" '
            'stroke-linejoin="round"/>'
        )
    return shapes


def _gpu_edges(layout: Layout) -> list[str]:
    """Draw the links of pairs, the faintest first; behind a switch NVLink goes to the switch."""
    node = layout.topology
    pairs = sorted(
        combinations(range(node.n_gpus), 2), key=lambda pair: node.link(*pair).rank, reverse=True
    )
    lines = []
    for a, b in pairs:
        link = node.link(a, b)
        if link.kind is LinkKind.SYS or (link.kind.is_nvlink and node.fabric is Fabric.SWITCH):
            continue
        lines.append(_line(layout.gpu_at[a], layout.gpu_at[b], *_style(node, link)))
    return lines


def _switch(layout: Layout) -> list[str]:
    node = layout.topology
    if node.fabric is not Fabric.SWITCH:
        return []
    shapes = []
    for island in node.islands:
        for gpu in island:
            widest = min((node.link(gpu, peer) for peer in island if peer != gpu), key=_rank)
            shapes.append(_line(layout.gpu_at[gpu], layout.centre, *_style(node, widest)))
    x, y = layout.centre
    width, height = 120, 56
    shapes.append(
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width}" '
        f'height="{height}" rx="6" fill="{NVLINK_COLOURS[0]}"/>'
    )
    shapes.append(_label((x, y + 5), "NVSwitch", 16, colour=PAPER, weight="bold"))
    return shapes


def _rank(link: Link) -> tuple[int, int]:
    return link.rank


def _nic_edges(layout: Layout) -> list[str]:
    """Draw curves that first go up or down and then straight in, so that they pass no other GPU."""
    curves = []
    for nic, (_, gpus) in layout.near.items():
        x, y = layout.nic_at[nic]
        inward = 1 if x < layout.centre[0] else -1
        start = x + inward * NIC_W / 2
        for gpu in gpus:
            link = layout.topology.device_link(f"GPU{gpu}", nic)
            if link is None:
                continue
            end, height = layout.gpu_at[gpu][0] - inward * BOX_W / 2, layout.gpu_at[gpu][1]
            curves.append(
                f'<path d="M{start:.1f},{y:.1f} C{start + inward * 60:.1f},{y:.1f} '
                f'{start + inward * 40:.1f},{height:.1f} {end:.1f},{height:.1f}" fill="none" '
                f"{_stroke(*_nic_style(link))}/>"
            )
    return curves


def _gpu(layout: Layout, gpu: int) -> str:
    x, y = layout.gpu_at[gpu]
    node = layout.topology
    numa = node.numa_affinity.get(gpu)
    small = [f"NUMA {numa}"] if numa is not None else []
    if len(set(node.gpu_models)) > 1:
        small = [node.gpu_models[gpu] or "unknown model"]
    box = (
        f'<rect x="{x - BOX_W / 2:.1f}" y="{y - BOX_H / 2:.1f}" width="{BOX_W}" height="{BOX_H}" '
        f'rx="8" fill="{PAPER}" stroke="{INK}" stroke-width="1.5"/>'
    )
    name = _label((x, y + (-1 if small else 5)), f"GPU{gpu}", 16, weight="bold")
    return box + name + "".join(_label((x, y + 16), text, 11, colour=MUTED) for text in small)


def _nic(layout: Layout, nic: str) -> str:
    x, y = layout.nic_at[nic]
    device = layout.topology.nics[nic]
    text = nic if device in ("", nic) else f"{nic} · {device}"
    return (
        f'<rect x="{x - NIC_W / 2:.1f}" y="{y - NIC_H / 2:.1f}" width="{NIC_W}" height="{NIC_H}" '
        f'rx="4" fill="{NIC_PAPER}" stroke="{NIC_INK}" stroke-width="1.2"/>'
        + _label((x, y + 4), text, 11)
    )


def _line(a: Point, b: Point, colour: str, width: float, dashes: str) -> str:
    return (
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
        f"{_stroke(colour, width, dashes)}/>"
    )


def _stroke(colour: str, width: float, dashes: str) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'stroke="{colour}" stroke-width="{width:g}"{dashed}'


def _style(topology: NodeTopology, link: Link) -> Style:
    """Colour, width and dashes of a link; among NVLinks of the node the wider the thicker."""
    if not link.kind.is_nvlink:
        return PCIE_STYLES.get(link.kind, PCIE_STYLES[LinkKind.NODE])
    found = {edge.lanes for _, _, edge, _ in topology.edges() if edge.kind.is_nvlink}
    widths = sorted(found, reverse=True)
    place = widths.index(link.lanes)
    width = 6.5 if len(widths) == 1 else 2.5 + 5 * link.lanes / widths[0]
    return NVLINK_COLOURS[min(place, len(NVLINK_COLOURS) - 1)], width, ""


def _nic_style(link: Link) -> Style:
    """Colour of network cards, dashes of the class."""
    _, width, dashes = PCIE_STYLES.get(link.kind, PCIE_STYLES[LinkKind.NODE])
    return NIC_INK, width, dashes


def _label(
    at: Point,
    text: str,
    size: int,
    *,
    colour: str = INK,
    weight: str = "normal",
    anchor: str = "middle",
) -> str:
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}" text-anchor="{anchor}">{_text(text)}</text>'
    )


def _text(text: str) -> str:
    """Escape markup, and replace characters that XML does not allow (file names may have them)."""
    return escape(re.sub(r"[\x00-\x1f\x7f\ufffe\uffff]", "\ufffd", text), {'"': "&quot;"})


# --- legend ------------------------------------------------------------------------------------

LegendRow = tuple[Style | None, str]


def _legend(topology: NodeTopology) -> list[LegendRow]:
    """One row for each kind of line in the picture: how it looks, what it means."""
    pairs: dict[Link, list[int]] = {}
    for _, _, link, gb_s in topology.edges():
        pairs.setdefault(link, []).append(gb_s)
    rows: list[LegendRow] = []
    for link in sorted(pairs, key=_rank):
        speeds = pairs[link]
        speed = f"{min(speeds)} GB/s" if len(set(speeds)) == 1 else f"{min(speeds)} GB/s or more"
        text = f"{link}: {speed} per direction, {plural(len(speeds), 'pair')} of GPUs"
        if link.kind is LinkKind.SYS:
            rows.append((None, f"{text} (not drawn)"))
            continue
        if link.kind.is_nvlink and topology.fabric is Fabric.SWITCH:
            text = f"{link}: {speed} per direction and GPU, shared by its peers behind the switch"
        rows.append((_style(topology, link), text))
    nic_links = {link for link, _ in near_nics(topology).values()}
    return rows + [
        (_nic_style(link), f"{link}: to the nearest network cards of a GPU")
        for link in sorted(nic_links, key=_rank)
    ]


def _legend_rows(rows: Sequence[LegendRow], x: float, y: float) -> list[str]:
    shapes = []
    for at, (style, text) in enumerate(rows):
        height = y + LEGEND_ROW * at
        if style is not None:
            shapes.append(_line((x, height), (x + 48, height), *style))
        shapes.append(_label((x + 62, height + 4), text, 12, anchor="start"))
    return shapes


def _notes(topology: NodeTopology) -> list[str]:
    far = [nic for nic in topology.nics if nic not in near_nics(topology)]
    notes = []
    if far:
        notes.append(f"Network cards that are nearest to no GPU: {', '.join(far)}")
    if topology.islands:
        notes.append(f"Shaded: {_fabric_word(topology)} island")
    return notes


def _fabric_word(topology: NodeTopology) -> str:
    kinds = {link.kind for _, _, link, _ in topology.edges()}
    return "xGMI" if LinkKind.XGMI in kinds else "NVLink"


def _note_rows(notes: Sequence[str], x: float, y: float) -> list[str]:
    return [
        _label((x, y + NOTE_ROW * at), note, 12, colour=MUTED, anchor="start")
        for at, note in enumerate(notes)
    ]
