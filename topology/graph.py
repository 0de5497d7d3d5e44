"""The GPUs of one node and the links between them: a frozen, typed wrapper of a networkx graph.

This is the only place that knows the graph's attribute keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import combinations

import networkx as nx

from topology.hardware import bandwidth_gb_s
from topology.links import SYS, Link


class Fabric(StrEnum):
    """How GPUs reach each other: own links per pair, through a switch, or only over PCIe."""

    DIRECT = "direct"
    SWITCH = "switch"
    NONE = "none"


MAX_LINKS_PER_GPU = 18
"""No GPU up to NVLink 5 has more links, so a wider row of the matrix must be a switch."""


class NodeTopology:
    """GPUs (0 … n-1) of one kind of node, their models and memories, and the links among them.

    Objects are immutable and compared by identity: nodes of one kind share one object.

    Parameters
    ----------
    name
        Preset or file the facts come from.
    gpu_models
        Canonical model of each GPU, None where unknown.
    gpu_memory_mib
        Memory of each GPU, None where unknown.
    gpu_links
        Links of GPU pairs; a pair that is missing is SYS.
    nics
        Labels of the network cards, with the device name ("" where it is not known).
    nic_links
        Links of (device, device) label pairs of which one is a network card, GPUs written
        ``GPU3``; they say which network card is near, and do not rank sets of GPUs.
    cpu_affinity, numa_affinity
        Per GPU, as printed; None where unknown.
    warnings
        Sentences on what a parser had to assume, repair or leave out.
    """

    def __init__(
        self,
        name: str,
        gpu_models: Iterable[str | None],
        gpu_memory_mib: Iterable[int | None] | None = None,
        gpu_links: Mapping[tuple[int, int], Link] | None = None,
        *,
        nics: Mapping[str, str] | None = None,
        nic_links: Mapping[tuple[str, str], Link] | None = None,
        cpu_affinity: Mapping[int, str | None] | None = None,
        numa_affinity: Mapping[int, str | None] | None = None,
        warnings: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.gpu_models = tuple(gpu_models)
        self.n_gpus = len(self.gpu_models)
        memories = gpu_memory_mib if gpu_memory_mib is not None else [None] * self.n_gpus
        self.gpu_memory_mib = tuple(memories)
        self.nics = dict(nics or {})
        self.cpu_affinity = dict(cpu_affinity or {})
        self.numa_affinity = dict(numa_affinity or {})
        self.warnings = tuple(warnings)
        self._nic_links = {frozenset(pair): link for pair, link in (nic_links or {}).items()}
        given = {frozenset(pair): link for pair, link in (gpu_links or {}).items()}
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(self.n_gpus))
        speeds = [[0] * self.n_gpus for _ in range(self.n_gpus)]
        for a, b in combinations(range(self.n_gpus), 2):
            link = given.get(frozenset((a, b)), SYS)
            speed = bandwidth_gb_s(link, self.gpu_models[a], self.gpu_models[b])
            graph.add_edge(a, b, link=link, gb_s=speed)
            speeds[a][b] = speeds[b][a] = speed
        self.graph: nx.Graph[int] = frozen(graph)
        self._cut: dict[frozenset[int], NodeTopology] = {}
        self._gb_s = tuple(tuple(row) for row in speeds)  # scoring asks for pairs very often

    def __repr__(self) -> str:
        return f"NodeTopology({self.name!r}, {self.n_gpus} GPUs, {self.fabric})"

    def without_nvlink(self, gpus: frozenset[int]) -> NodeTopology:
        """The same node where these GPUs have left their NVLink island, as those in MIG mode do.

        Where all GPUs are alike behind a switch nothing depends on it, and the node is the same.
        """
        if not gpus or self.is_uniform:
            return self
        if gpus not in self._cut:
            links = {
                (a, b): link
                for a, b, link, _ in self.edges()
                if not (link.kind.is_nvlink and {a, b} & gpus)
            }
            self._cut[gpus] = NodeTopology(
                self.name,
                self.gpu_models,
                self.gpu_memory_mib,
                links,
                nics=self.nics,
                nic_links={(min(p), max(p)): link for p, link in self._nic_links.items()},
                cpu_affinity=self.cpu_affinity,
                numa_affinity=self.numa_affinity,
                warnings=self.warnings,
            )
        return self._cut[gpus]

    def link(self, a: int, b: int) -> Link:
        """Look the link between two GPUs up."""
        link: Link = self.graph.edges[a, b]["link"]
        return link

    def device_link(self, a: str, b: str) -> Link | None:
        """Look the link between two devices up by label (``GPU0``, ``NIC3``, ``mlx5_0``).

        None where it is not known, or where there is no such device.
        """
        gpus = [self._gpu_by_label.get(label) for label in (a, b)]
        if gpus[0] is not None and gpus[1] is not None and gpus[0] != gpus[1]:
            return self.link(gpus[0], gpus[1])
        return self._nic_links.get(frozenset((a, b)))

    @cached_property
    def gpu_labels(self) -> tuple[str, ...]:
        """Labels of the GPUs in order: ``GPU0``, ``GPU1``, …."""
        return tuple(self._gpu_by_label)

    @cached_property
    def _gpu_by_label(self) -> Mapping[str, int]:
        return {f"GPU{gpu}": gpu for gpu in range(self.n_gpus)}

    def nearest_nics(self, gpu: int) -> tuple[Link, tuple[str, ...]] | None:
        """Find the network cards nearest to a GPU: its best link to one, and all that have it.

        None where no link to a network card is known.
        """
        known = {nic: self.device_link(f"GPU{gpu}", nic) for nic in self.nics}
        links = [link for link in known.values() if link is not None]
        if not links:
            return None
        best = min(links, key=lambda link: link.rank)
        return best, tuple(nic for nic, link in known.items() if link == best)

    def gb_s(self, a: int, b: int) -> int:
        """Bandwidth between two GPUs, GB/s per direction; 0 from a GPU to itself."""
        return self._gb_s[a][b]

    @cached_property
    def nvlink_graph(self) -> nx.Graph[int]:
        """All GPUs with only their NVLink (or xGMI) edges."""
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(self.n_gpus))
        graph.add_edges_from((a, b) for a, b, link, _ in self.edges() if link.kind.is_nvlink)
        return frozen(graph)

    @cached_property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """NVLink islands: maximal connected sets of two or more GPUs, in order of their GPUs."""
        parts = (tuple(sorted(part)) for part in nx.connected_components(self.nvlink_graph))
        return tuple(sorted(part for part in parts if len(part) > 1))

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The islands, and each GPU without NVLink as a part of its own, in order of their GPUs.

        What ``within: island`` chooses from. A node without GPUs has one part, an empty one.
        """
        inside = {gpu for island in self.islands for gpu in island}
        alone = ((gpu,) for gpu in range(self.n_gpus) if gpu not in inside)
        return tuple(sorted((*self.islands, *alone))) or ((),)

    @cached_property
    def fabric(self) -> Fabric:
        """Direct links, a switch, or no NVLink at all.

        A GPU whose NVLinks to its peers add up to more than a GPU has must be behind a switch
        (also when another GPU of the node has lost the fabric); xGMI meshes and everything else
        with NVLink are direct.
        """
        if not self.islands:
            return Fabric.NONE
        widths = [0] * self.n_gpus
        for a, b, link, _ in self.edges():
            widths[a] += link.lanes
            widths[b] += link.lanes
        return Fabric.SWITCH if max(widths) > MAX_LINKS_PER_GPU else Fabric.DIRECT

    @cached_property
    def is_uniform(self) -> bool:
        """Whether the GPUs are interchangeable: one model, one memory, one bandwidth.

        On such nodes GPUs are counted; elsewhere the very GPUs matter.
        """
        if len(set(self.gpu_models)) > 1 or len(set(self.gpu_memory_mib)) > 1:
            return False
        kinds = {(link.kind.is_nvlink, speed) for _, _, link, speed in self.edges()}
        return len(kinds) <= 1

    def edges(self) -> Iterator[tuple[int, int, Link, int]]:
        """Every pair of GPUs once: (a, b, link, GB/s per direction), in order of the pairs."""
        for a, b, facts in self.graph.edges(data=True):
            yield a, b, facts["link"], facts["gb_s"]


def frozen(graph: nx.Graph[int]) -> nx.Graph[int]:
    """Make a graph of GPUs unchangeable."""
    nx.freeze(graph)
    return graph
