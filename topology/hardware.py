"""GPU models: memory, NVLink, PCIe and MIG of each, their aliases, and bandwidth of a link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from topology.links import Link, LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """What is known about one GPU model.

    Parameters
    ----------
    name
        Canonical name, as specs and answers write it.
    memory_mib
        Memory that the driver reports, MiB (labels show it as ``nvidia.com/gpu.memory``).
        It is a little less than the name says where the card keeps some for error correction.
    pcie_gen
        Generation of its x16 slot.
    nvlink_gen
        NVLink generation, None without NVLink.
    links
        NVLinks (or xGMI links) per GPU.
    link_gb_s
        GB/s per link per direction.
    mig_table
        Id of its table of MIG profiles, None where the GPU cannot be cut.
    aliases
        Further names, beside those that differ only in case, blanks or vendor.
    """

    name: str
    memory_mib: int
    pcie_gen: int
    nvlink_gen: int | None = None
    links: int = 0
    link_gb_s: int = 0
    mig_table: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def supports_mig(self) -> bool:
        """Whether the GPU can be cut into MIG instances."""
        return self.mig_table is not None

    @property
    def nvlink_gb_s(self) -> int:
        """GB/s per direction over all links of the GPU: its cap behind a switch."""
        return self.links * self.link_gb_s


NVLINK_GB_S: Mapping[int, int] = MappingProxyType({1: 20, 2: 25, 3: 25, 4: 25, 5: 50})
"""GB/s per link per direction by NVLink generation (data sheets; A100 and H100 as
``nvidia-smi nvlink -s`` prints them, 25 and 26.562 rounded to the same 25)."""

UNKNOWN_LINK_GB_S = 25
"""An unknown model counts as NVLink 2 to 4, three of the five generations."""

XGMI_GB_S = 64
"""One xGMI link of the MI300X, per direction (AMD CDNA 3 white paper)."""


def _classes(*gb_s: int) -> Mapping[LinkKind, int]:
    """Values of the PCIe classes, nearest first."""
    kinds = (LinkKind.PIX, LinkKind.PXB, LinkKind.PHB, LinkKind.NODE, LinkKind.SYS)
    return MappingProxyType(dict(zip(kinds, gb_s, strict=True)))


PCIE_GB_S: Mapping[int, Mapping[LinkKind, int]] = MappingProxyType(
    {
        3: _classes(14, 13, 12, 11, 10),
        4: _classes(28, 26, 24, 20, 16),
        5: _classes(56, 52, 48, 35, 22),
    }
)
"""GB/s per direction between two GPUs by PCIe generation and class of the way.

PIX is 90 % of the x16 slot (15.75, 31.5, 63), which is what was measured on generation 5 (56.5).
PHB and SYS are what NCCL plans with (NVIDIA/nccl src/graph/topo.h): a slot through the CPU is
12, 24, 48; the way between sockets is 10 (Skylake), 16 (AMD), 22 (Sapphire Rapids), the CPUs
of these generations. PXB lies between PIX and PHB, NODE halfway between PHB and SYS. The values
are for ordering sets: a nearer class is always faster, and NVLink of the same GPU faster still.
"""

UNKNOWN_PCIE_GEN = 3
"""Keeps every PCIe way of an unknown model below a single NVLink of it."""


def bandwidth_gb_s(link: Link, a: str | None, b: str | None) -> int:
    """Bandwidth of a link between two GPUs, GB/s per direction.

    Parameters
    ----------
    a, b
        Canonical models; None or an unknown name counts with careful defaults. Of two
        different models the slower one decides.

    Notes
    -----
    NVk is k links. Behind a switch every pair prints all links of the GPU, so the value is the
    cap of the GPU, shared by all its peers.

    Examples
    --------
    >>> bandwidth_gb_s(Link.parse("NV18"), "H100-80GB", "H100-80GB")
    450
    >>> bandwidth_gb_s(Link.parse("SYS"), "L40S-48GB", "L40S-48GB")
    16
    """
    models = [model for model in (gpu_model(a), gpu_model(b)) if model is not None]
    if link.kind is LinkKind.XGMI:
        return XGMI_GB_S
    if link.kind is LinkKind.NV:
        speeds = [model.link_gb_s for model in models if model.link_gb_s]
        return link.lanes * min(speeds, default=UNKNOWN_LINK_GB_S)
    gen = min((model.pcie_gen for model in models), default=UNKNOWN_PCIE_GEN)
    return PCIE_GB_S[gen][link.kind]


def gpu_model(name: str | None) -> GpuModel | None:
    """Look a model (or an alias) up in the catalogue; None where it does not have it."""
    return None if name is None else _BY_KEY.get(_key(name))


@lru_cache(maxsize=4096)
def canonical_model(text: str) -> str:
    """Give a model its canonical name; one that the catalogue does not know stays as it is.

    Understood are product labels (``nvidia.com/gpu.product``, also those of time-sliced and
    MIG-cut GPUs), what the driver prints, the ids of MIG tables, and short names where they
    can mean only one model.

    Examples
    --------
    >>> canonical_model("NVIDIA-A100-SXM4-80GB-SHARED"), canonical_model("Tesla-V100-SXM2-32GB")
    ('A100-80GB', 'V100-32GB')
    >>> canonical_model("our-own-card")
    'our-own-card'
    """
    model = gpu_model(text)
    return text if model is None else model.name


def _key(text: str) -> str:
    """Names that differ in case, blanks, vendor or a sharing suffix have the same key."""
    key = re.sub(r"[\s_]+", "-", text.strip().lower())
    key = re.sub(r"-(shared|mig-\d+g\.\d+gb(\.me)?)(?=$|-)", "", key)
    return re.sub(r"^(nvidia-|tesla-|amd-|instinct-|geforce-)+", "", key)


def _row(
    name: str,
    memory_mib: int,
    pcie_gen: int,
    nvlink: tuple[int, int] | None,
    mig: str | None,
    *aka: str,
) -> GpuModel:
    """One row; `nvlink` is (generation, links per GPU)."""
    gen, links = nvlink or (None, 0)
    return GpuModel(
        name=name,
        memory_mib=memory_mib,
        pcie_gen=pcie_gen,
        nvlink_gen=gen,
        links=links,
        link_gb_s=NVLINK_GB_S[gen] if gen else 0,
        mig_table=mig,
        aliases=aka,
    )


# Memory: MiB as public `nvidia-smi` outputs show it for the model (drivers differ by a little).
# Links: data sheets; for PCIe cards the links of their bridges, as `topo -m` prints them.
# MIG ids: those of the profile tables; models of one chip and memory size share a table.
_ROWS = (
    # Pascal, Volta: white papers WP-08019 (P100, 4 links) and WP-08608 (V100, 6 links).
    _row("P100-16GB", 16280, 3, (1, 4), None, "P100-SXM2-16GB"),
    _row("P100-PCIE-16GB", 16280, 3, None, None),
    _row("V100-16GB", 16160, 3, (2, 6), None, "V100-SXM2-16GB", "V100M16"),
    _row("V100-32GB", 32510, 3, (2, 6), None, "V100-SXM2-32GB", "V100-SXM3-32GB", "V100M32"),
    _row("V100-PCIE-16GB", 16160, 3, None, None),
    _row("V100-PCIE-32GB", 32510, 3, None, None),
    # Turing and Ada inference cards: no NVLink, no MIG (data sheets).
    _row("T4-16GB", 15360, 3, None, None, "T4"),
    _row("L4-24GB", 23034, 4, None, None, "L4"),
    _row("L40-48GB", 46068, 4, None, None, "L40"),
    _row("L40S-48GB", 46068, 4, None, None, "L40S"),
    _row("RTX-4090-24GB", 24564, 4, None, None, "RTX-4090"),
    # Ampere: A100 data sheet (12 links of generation 3); A800 has 8 of them.
    _row("A10-24GB", 23028, 4, None, None, "A10", "A10G"),
    _row("A30-24GB", 24576, 4, (3, 8), "a30-24gb", "A30", "A30-PCIE-24GB"),
    _row("A40-48GB", 46068, 4, (3, 4), None, "A40"),
    _row("A100-40GB", 40960, 4, (3, 12), "a100-40gb", "A100-SXM4-40GB", "A100-SXM-40GB"),
    _row("A100-PCIE-40GB", 40960, 4, (3, 12), "a100-40gb", "A100-40GB-PCIe"),
    _row("A100-80GB", 81920, 4, (3, 12), "a100-80gb", "A100-SXM4-80GB", "A100-SXM-80GB"),
    _row("A100-PCIE-80GB", 81920, 4, (3, 12), "a100-80gb", "A100-80GB-PCIe"),
    _row("A800-40GB", 40960, 4, (3, 8), "a100-40gb", "A800-40GB-PCIe", "A800-40GB-Active"),
    _row("A800-80GB", 81920, 4, (3, 8), "a100-80gb", "A800-SXM4-80GB", "A800-80GB-PCIe"),
    # Hopper: H100 white paper (18 links of generation 4); H800 has 8, bridges of PCIe cards 12.
    _row("H100-80GB", 81559, 5, (4, 18), "h100-80gb", "H100-80GB-HBM3", "H100-SXM5-80GB"),
    _row("H100-PCIE-80GB", 81559, 5, (4, 12), "h100-80gb", "H100-PCIe", "H100-80GB-PCIe"),
    _row(
        "H100-NVL-94GB", 95830, 5, (4, 12), "h100-94gb", "H100-NVL", "H100-94GB", "H100-SXM5-94GB"
    ),
    _row("H100-96GB", 97871, 5, (4, 18), "h100-96gb", "H100-SXM5-96GB"),
    _row("H800-80GB", 81559, 5, (4, 8), "h100-80gb", "H800", "H800-PCIe"),
    _row("H800-NVL-94GB", 95830, 5, (4, 8), "h100-94gb", "H800-NVL"),
    _row("H20-96GB", 97871, 5, (4, 18), "h100-96gb", "H20"),
    _row("H20-141GB", 143771, 5, (4, 18), "h200-141gb", "H20-3e"),
    _row("H200-141GB", 143771, 5, (4, 18), "h200-141gb", "H200"),
    _row("H200-NVL-141GB", 143771, 5, (4, 18), "h200-141gb", "H200-NVL"),
    _row("GH200-96GB", 97871, 5, (4, 18), "h100-96gb", "GH200-480GB", "GH200-120GB"),
    _row("GH200-144GB", 146831, 5, (4, 18), "gh200-144gb", "GH200-144G-HBM3e"),
    # Blackwell: 18 links of generation 5 (data sheets).
    _row("B200-180GB", 183359, 5, (5, 18), "b200-180gb", "B200", "B200-SXM6-192GB"),
    _row("B300-288GB", 275040, 5, (5, 18), "b300-269gb", "B300", "B300-269GB", "B300-SXM6-AC"),
    _row("GB200-186GB", 189471, 5, (5, 18), "gb200-186gb", "GB200"),
    _row("GB300-288GB", 284208, 5, (5, 18), "gb300-278gb", "GB300", "GB300-278GB"),
    _row(
        "RTX-PRO-6000-96GB",
        97887,
        5,
        None,
        "rtx-pro-6000-blackwell-96gb",
        "RTX-PRO-6000-Blackwell-96GB",
        "RTX-PRO-6000-Blackwell-Server-Edition",
        "RTX-PRO-6000-Blackwell-Workstation-Edition",
        "RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
    ),
    _row(
        "RTX-PRO-5000-48GB",
        48935,
        5,
        None,
        "rtx-pro-5000-blackwell-48gb",
        "RTX-PRO-5000-Blackwell",
        "RTX-PRO-5000-Blackwell-48GB",
    ),
    _row(
        "RTX-PRO-4500-32GB",
        32623,
        5,
        None,
        "rtx-pro-4500-blackwell-32gb",
        "RTX-PRO-4500-Blackwell",
        "RTX-PRO-4500-Blackwell-32GB",
    ),
    # Bridges of the RTX A6000 and 3090: NV4, 56 GB/s per direction, so 14 a link.
    GpuModel(
        name="RTX-A6000-48GB",
        memory_mib=49140,
        pcie_gen=4,
        nvlink_gen=3,
        links=4,
        link_gb_s=14,
        aliases=("RTX-A6000",),
    ),
    GpuModel(
        name="RTX-3090-24GB",
        memory_mib=24576,
        pcie_gen=4,
        nvlink_gen=3,
        links=4,
        link_gb_s=14,
        aliases=("RTX-3090",),
    ),
    # AMD CDNA 3 data sheets: 192 and 256 GB of memory, 7 xGMI links per GPU, one to each peer.
    GpuModel(
        name="MI300X-192GB",
        memory_mib=196608,
        pcie_gen=5,
        links=7,
        link_gb_s=XGMI_GB_S,
        aliases=("MI300X", "MI300X-OAM"),
    ),
    GpuModel(
        name="MI325X-256GB",
        memory_mib=262144,
        pcie_gen=5,
        links=7,
        link_gb_s=XGMI_GB_S,
        aliases=("MI325X", "MI325X-OAM"),
    ),
)

GPU_MODELS: Mapping[str, GpuModel] = MappingProxyType({row.name: row for row in _ROWS})
"""The catalogue, by canonical name."""

_BY_KEY = {_key(name): row for row in _ROWS for name in (row.name, *row.aliases)}
