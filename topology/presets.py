"""Machines that people really have: GPUs, links, network cards, CPU and memory of each.

A preset is one node. `PRESETS` has the names, `machine` everything about one, `preset` only its
`NodeTopology` (the same object each time: nodes of one kind share it).

Sources: "capture" is a public output of ``nvidia-smi topo -m`` on such a machine; NIC and NUMA
numbers that vary between vendors are those of the capture. Where there is none, the row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import combinations

from topology.errors import UnknownPresetError
from topology.graph import NodeTopology
from topology.hardware import gpu_model
from topology.links import Link

Links = dict[tuple[int, int], Link]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePreset:
    """A kind of node.

    Parameters
    ----------
    cpu_milli, memory_mib
        What the host has: logical CPUs in thousandths, memory in MiB.
    domain_nodes
        Nodes that share one NVLink domain; 1 where NVLink ends at the node.
    source
        Where the facts come from.
    """

    name: str
    topology: NodeTopology
    cpu_milli: int
    memory_mib: int
    domain_nodes: int = 1
    source: str


def preset(name: str) -> NodeTopology:
    """Give the GPUs and links of a preset; the same object each time.

    Raises
    ------
    UnknownPresetError
        No preset has that name; near ones are named.

    Examples
    --------
    >>> preset("hgx-h100").fabric, preset("hgx-h100").gb_s(0, 7)
    (<Fabric.SWITCH: 'switch'>, 450)
    """
    return machine(name).topology


def machine(name: str) -> MachinePreset:
    """Give all that is known about a preset, by name or alias; the same object each time.

    Raises
    ------
    UnknownPresetError
        No preset has that name; near ones are named.
    """
    key = name.strip().lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key not in _BUILDERS:
        near = get_close_matches(key, [*_BUILDERS, *ALIASES], n=3, cutoff=0.6)
        raise UnknownPresetError(name, PRESETS, tuple(near))
    return _build(key)


@cache
def _build(key: str) -> MachinePreset:
    return _BUILDERS[key](key)


# --- links -------------------------------------------------------------------------------------


def _between(pairs: Iterable[tuple[int, int]], label: str) -> Links:
    return {pair: Link.parse(label) for pair in pairs}


def _mesh(n_gpus: int, label: str) -> Links:
    """Every pair of GPUs the same: a switch, or a full mesh."""
    return _between(combinations(range(n_gpus), 2), label)


def _inside(groups: Iterable[range], label: str) -> Links:
    """Every pair inside a group; further pairs stay as they are."""
    return _between((pair for group in groups for pair in combinations(group, 2)), label)


def _ranges(size: int, n_gpus: int) -> list[range]:
    return [range(start, start + size) for start in range(0, n_gpus, size)]


def _nic_links(
    nics: Iterable[str], n_gpus: int, label: Callable[[int, int], str]
) -> dict[tuple[str, str], Link]:
    """Links of each NIC to each GPU; `label` takes (GPU, position of the NIC)."""
    return {
        (f"GPU{gpu}", nic): Link.parse(label(gpu, at))
        for at, nic in enumerate(nics)
        for gpu in range(n_gpus)
    }


def _numa(*ids: int) -> dict[int, str | None]:
    return {gpu: str(numa) for gpu, numa in enumerate(ids)}


def _cpus(*lists: str) -> dict[int, str | None]:
    return dict(enumerate(lists))


# The hybrid cube mesh of eight V100: two links on these pairs, one on those. Each GPU has six.
CUBE_MESH_DOUBLE = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
CUBE_MESH_SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))


# --- machines ----------------------------------------------------------------------------------


def _machine(
    name: str,
    n_gpus: int,
    model: str,
    links: Links,
    *,
    cpus: int,
    memory_gib: int,
    source: str,
    domain_nodes: int = 1,
    nics: Mapping[str, str] | None = None,
    nic_links: Mapping[tuple[str, str], Link] | None = None,
    cpu_affinity: Mapping[int, str | None] | None = None,
    numa_affinity: Mapping[int, str | None] | None = None,
) -> MachinePreset:
    row = gpu_model(model)
    topology = NodeTopology(
        name,
        [model] * n_gpus,
        [row.memory_mib if row else None] * n_gpus,
        links,
        nics=nics,
        nic_links=nic_links,
        cpu_affinity=cpu_affinity,
        numa_affinity=numa_affinity,
    )
    return MachinePreset(
        name=name,
        topology=topology,
        cpu_milli=cpus * 1000,
        memory_mib=memory_gib * 1024,
        domain_nodes=domain_nodes,
        source=source,
    )


def _dgx_1v(name: str) -> MachinePreset:
    # One EDR card per pair of GPUs; the other pair of the same socket reaches it through the CPU.
    nics = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")

    def label(gpu: int, at: int) -> str:
        return "PIX" if gpu // 2 == at else "PHB" if gpu // 4 == at // 2 else "SYS"

    return _machine(
        name,
        8,
        "V100-32GB",
        _between(CUBE_MESH_DOUBLE, "NV2") | _between(CUBE_MESH_SINGLE, "NV1"),
        cpus=80,
        memory_gib=512,
        nics={nic: nic for nic in nics},
        nic_links=_nic_links(nics, 8, label),
        cpu_affinity=_cpus(*["0-19,40-59"] * 4, *["20-39,60-79"] * 4),
        numa_affinity=_numa(0, 0, 0, 0, 1, 1, 1, 1),
        source="capture (DGX-1V); CPU and memory: DGX-1 data sheet",
    )


def _dgx_2(name: str) -> MachinePreset:
    # Only the first rows were seen: one card PIX per pair of GPUs, PXB to the pair beside it.
    nics = tuple(f"mlx5_{i}" for i in range(8))

    def label(gpu: int, at: int) -> str:
        if gpu // 2 == at:
            return "PIX"
        if gpu // 4 == at // 2:
            return "PXB"
        return "NODE" if gpu // 8 == at // 4 else "SYS"

    return _machine(
        name,
        16,
        "V100-32GB",
        _mesh(16, "NV6"),
        cpus=96,
        memory_gib=1536,
        nics={nic: nic for nic in nics},
        nic_links=_nic_links(nics, 16, label),
        numa_affinity=_numa(*[0] * 8, *[1] * 8),
        source="capture (GPUs and the first rows of NICs); the rest: DGX-2 data sheet",
    )


def _dgx_a100(model: str, memory_gib: int) -> Callable[[str], MachinePreset]:
    nics = tuple(f"mlx5_{i}" for i in range(12))
    nics_of_pair = ((0, 1), (2, 3), (6, 7), (8, 9))  # 4, 5, 10, 11 are storage ports
    cpus = ("48-63,176-191", "16-31,144-159", "112-127,240-255", "80-95,208-223")

    def build(name: str) -> MachinePreset:
        return _machine(
            name,
            8,
            model,
            _mesh(8, "NV12"),
            cpus=256,
            memory_gib=memory_gib,
            nics={nic: nic for nic in nics},
            nic_links=_nic_links(
                nics, 8, lambda gpu, at: "PXB" if at in nics_of_pair[gpu // 2] else "SYS"
            ),
            cpu_affinity=_cpus(*(cpus[gpu // 2] for gpu in range(8))),
            numa_affinity=_numa(3, 3, 1, 1, 7, 7, 5, 5),
            source="capture (DGX A100); CPU and memory: DGX A100 data sheet",
        )

    return build


def _hgx_a100_4(name: str) -> MachinePreset:
    return _machine(
        name,
        4,
        "A100-40GB",
        _mesh(4, "NV4"),
        cpus=64,
        memory_gib=512,
        nics={"mlx5_0": "mlx5_0", "mlx5_1": "mlx5_1"},
        nic_links=_nic_links(
            ("mlx5_0", "mlx5_1"), 4, lambda gpu, at: "PHB" if gpu == 2 * at else "SYS"
        ),
        numa_affinity=_numa(3, 2, 1, 0),
        source="captures of HGX A100 4-GPU nodes with one EPYC; the GPUs of the NICs vary",
    )


def _h100_4(name: str) -> MachinePreset:
    nics = tuple(f"NIC{i}" for i in range(4))
    return _machine(
        name,
        4,
        "H100-80GB",
        _mesh(4, "NV6"),
        cpus=64,
        memory_gib=512,
        nics=dict.fromkeys(nics, ""),
        nic_links=_nic_links(nics, 4, lambda gpu, at: "PIX" if gpu == at else "SYS"),
        numa_affinity=_numa(3, 1, 7, 5),
        source="capture (HGX H100 4-GPU); CPU and memory: a usual two-socket host",
    )


def _hgx_8(
    model: str, memory_gib: int, rails: tuple[int, ...], source: str
) -> Callable[[str], MachinePreset]:
    """Eight GPUs behind NVSwitch; `rails` are the NICs at PXB, GPU by GPU, the others storage."""
    n_nics = max(rails) + 1
    nics = tuple(f"NIC{i}" for i in range(n_nics))

    def label(gpu: int, at: int) -> str:
        if rails[gpu] == at:
            return "PXB"
        return "NODE" if gpu // 4 == at // (n_nics // 2) else "SYS"

    def build(name: str) -> MachinePreset:
        return _machine(
            name,
            8,
            model,
            _mesh(8, "NV18"),
            cpus=224,
            memory_gib=memory_gib,
            nics={nic: f"mlx5_{at}" for at, nic in enumerate(nics)},
            nic_links=_nic_links(nics, 8, label),
            cpu_affinity=_cpus(*["0-55,112-167"] * 4, *["56-111,168-223"] * 4),
            numa_affinity=_numa(0, 0, 0, 0, 1, 1, 1, 1),
            source=source,
        )

    return build


def _gb200_nvl72(name: str) -> MachinePreset:
    nics = tuple(f"NIC{i}" for i in range(4))
    return _machine(
        name,
        4,
        "GB200-186GB",
        _mesh(4, "NV18"),
        cpus=144,
        memory_gib=960,
        domain_nodes=18,
        nics=dict.fromkeys(nics, ""),
        nic_links=_nic_links(nics, 4, lambda gpu, at: "NODE" if gpu // 2 == at // 2 else "SYS"),
        cpu_affinity=_cpus("0-71", "0-71", "72-143", "72-143"),
        numa_affinity=_numa(0, 0, 1, 1),
        source="capture (one tray: GPUs and CPUs); the four NICs are typical, not captured",
    )


def _pcie_pairs(model: str, n_gpus: int) -> Callable[[str], MachinePreset]:
    """Two sockets; NVLink bridges on neighbouring pairs."""
    half = n_gpus // 2

    def build(name: str) -> MachinePreset:
        links = _inside(_ranges(half, n_gpus), "NODE") | _inside(_ranges(2, n_gpus), "NV12")
        return _machine(
            name,
            n_gpus,
            model,
            links,
            cpus=208,
            memory_gib=1024,
            cpu_affinity=_cpus(*["0-51,104-155"] * half, *["52-103,156-207"] * half),
            numa_affinity=_numa(*[0] * half, *[1] * half),
            source="capture (four GPUs in pairs); eight GPUs: twice that; memory: a usual host",
        )

    return build


def _pcie(model: str, n_gpus: int, cpus: int, memory_gib: int) -> Callable[[str], MachinePreset]:
    """Two sockets, no NVLink; neighbouring pairs share a PCIe switch."""
    half = n_gpus // 2

    def build(name: str) -> MachinePreset:
        links = _inside(_ranges(half, n_gpus), "NODE") | _inside(_ranges(2, n_gpus), "PIX")
        return _machine(
            name,
            n_gpus,
            model,
            links,
            cpus=cpus,
            memory_gib=memory_gib,
            numa_affinity=_numa(*[0] * half, *[1] * half),
            source="after a capture of six PCIe GPUs in pairs on two sockets; size: a usual host",
        )

    return build


def _t4(name: str) -> MachinePreset:
    # A virtual machine, as T4s are mostly met: everything looks like PHB there.
    return _machine(
        name,
        4,
        "T4-16GB",
        _mesh(4, "PHB"),
        cpus=48,
        memory_gib=192,
        source="size of a public cloud's four-GPU instance; all PHB as in virtual machines",
    )


def _mi300x(name: str) -> MachinePreset:
    nics = tuple(f"NIC{i}" for i in range(8))

    def label(gpu: int, at: int) -> str:
        return "PIX" if gpu == at else "NODE" if gpu // 4 == at // 4 else "SYS"

    return _machine(
        name,
        8,
        "MI300X-192GB",
        _mesh(8, "XGMI"),
        cpus=192,
        memory_gib=2048,
        nics=dict.fromkeys(nics, ""),
        nic_links=_nic_links(nics, 8, label),
        numa_affinity=_numa(0, 0, 0, 0, 1, 1, 1, 1),
        source="AMD platform data sheet: full xGMI mesh, 7 links per GPU; NICs typical",
    )


_H100_RAILS = (0, 3, 4, 5, 6, 9, 10, 11)  # NIC1, 2, 7, 8 are the ports of two storage cards
_B200_RAILS = (0, 1, 2, 3, 6, 7, 8, 9)
_B200_SOURCE = "captures of B200 systems: one NIC per GPU at PXB, others NODE; which ones vary"

_BUILDERS: dict[str, Callable[[str], MachinePreset]] = {
    "dgx-1v": _dgx_1v,
    "dgx-2": _dgx_2,
    "dgx-a100": _dgx_a100("A100-80GB", 2048),
    "dgx-a100-40gb": _dgx_a100("A100-40GB", 1024),
    "hgx-a100-4": _hgx_a100_4,
    "hgx-h100": _hgx_8("H100-80GB", 2048, _H100_RAILS, "capture (DGX H100); DGX H100 data sheet"),
    "h100-4": _h100_4,
    "hgx-h200": _hgx_8("H200-141GB", 2048, _H100_RAILS, "capture (HGX H200); DGX H200 data sheet"),
    "hgx-b200": _hgx_8("B200-180GB", 2048, _B200_RAILS, _B200_SOURCE),
    "gb200-nvl72": _gb200_nvl72,
    "a100-pcie-pairs": _pcie_pairs("A100-PCIE-80GB", 4),
    "a100-pcie-pairs-8": _pcie_pairs("A100-PCIE-80GB", 8),
    "l40s": _pcie("L40S-48GB", 8, 192, 1536),
    "l40s-4": _pcie("L40S-48GB", 4, 96, 768),
    "l4": _pcie("L4-24GB", 8, 192, 768),
    "t4": _t4,
    "mi300x": _mi300x,
}

PRESETS: tuple[str, ...] = tuple(_BUILDERS)
"""Names of all presets."""

ALIASES: Mapping[str, str] = {
    "dgx-h100": "hgx-h100",
    "dgx-h200": "hgx-h200",
    "dgx-b200": "hgx-b200",
    "hgx-a100": "dgx-a100",
    "hgx-h100-4": "h100-4",
    "hgx-a100-8": "dgx-a100",
    "hgx-h100-8": "hgx-h100",
    "pcie-pairs": "a100-pcie-pairs",
}
"""Other names of presets."""
