"""Links between two devices of a node, as ``nvidia-smi topo -m`` names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class LinkKind(StrEnum):
    """Nearest first: NVLink (or xGMI), then ever longer ways over PCIe and between sockets."""

    NV = "NV"
    XGMI = "XGMI"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"

    @property
    def is_nvlink(self) -> bool:
        """Whether the link is a GPU-to-GPU fabric rather than PCIe (NVLink, or AMD's xGMI)."""
        return self in (LinkKind.NV, LinkKind.XGMI)


@dataclass(frozen=True, slots=True, order=False)
class Link:
    """A link and, for NVLink, how many lanes are bonded (``NV12`` is twelve)."""

    kind: LinkKind
    lanes: int = 0

    def __str__(self) -> str:
        return f"NV{self.lanes}" if self.kind is LinkKind.NV else self.kind.value

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key, nearest first; among NVLinks the wider one."""
        return (list(LinkKind).index(self.kind), -self.lanes)

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read a label of the matrix: ``NV12``, ``PIX``, …, and ``SOC`` (the old word for SYS).

        Raises
        ------
        ValueError
            The text is no label.

        Examples
        --------
        >>> str(Link.parse("NV12")), str(Link.parse("SOC"))
        ('NV12', 'SYS')
        """
        if match := re.fullmatch(r"NV(\d+)", text):
            return cls(LinkKind.NV, int(match[1]))
        if text == "SOC":
            return cls(LinkKind.SYS)
        if text == "NV":
            raise ValueError("NV needs the number of bonded links, as in NV12")
        return cls(LinkKind(text))


SYS = Link(LinkKind.SYS)
"""What two devices share when nothing nearer is known."""
