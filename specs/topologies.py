"""Where the GPUs and links of a machine come from: a preset, a capture, or the spec itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from specs.errors import SpecErrors, SpecFault, shown
from specs.hints import did_you_mean
from specs.models.quantity import MIB, rounded
from specs.reading import read_bounded
from topology.errors import TopologyParseError, UnknownPresetError
from topology.graph import NodeTopology
from topology.hardware import canonical_model, gpu_model
from topology.links import SYS, Link
from topology.parsers.nvidia_smi import parse_topo
from topology.presets import PRESETS, MachinePreset, machine

if TYPE_CHECKING:
    from specs.loaded import LoadedSpec
    from specs.models.cluster import LinkSpec, MachineSpec
    from specs.places import Path

MAX_CAPTURE_BYTES = 4 * MIB
"""A capture of sixteen GPUs has a few KiB."""

Links = dict[tuple[int, int], Link]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """GPUs and links of a machine, with the preset that its other defaults come from."""

    topology: NodeTopology
    preset: MachinePreset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What makes two topologies the same one."""

    name: str
    models: tuple[str | None, ...]
    memory_mib: tuple[int | None, ...]
    links: tuple[tuple[tuple[int, int], Link], ...]


@dataclass
class Topologies:
    """Hardware of the machines of one spec. Machines that are alike share one object."""

    loaded: LoadedSpec
    faults: list[SpecFault]
    notes: list[str]
    _built: dict[_Facts, NodeTopology] = field(default_factory=dict)
    _captures: dict[str, NodeTopology | None] = field(default_factory=dict)

    def of(self, entry: MachineSpec, path: Path) -> Hardware | None:
        """GPUs and links of the entry at `path`; None where they cannot be told (with faults)."""
        before = len(self.faults)
        base, preset = self._base(entry, path)
        if len(self.faults) > before:
            return None
        models, memory = self._devices(entry, path, base)
        links = self._links(entry, path, base, len(models))
        if len(self.faults) > before:
            return None
        if base is not None and not entry.links and (models, memory) == _devices_of(base):
            return Hardware(topology=base, preset=preset)
        name = base.name if base is not None else _own_name(models)
        facts = _Facts(
            name=name, models=models, memory_mib=memory, links=tuple(sorted(links.items(), key=str))
        )
        if facts not in self._built:
            self._built[facts] = NodeTopology(name, models, memory, links)
        return Hardware(topology=self._built[facts], preset=preset)

    def _base(
        self, entry: MachineSpec, path: Path
    ) -> tuple[NodeTopology | None, MachinePreset | None]:
        source = entry.topology
        if source is not None:
            if (source.file is None) == (source.preset is None):
                rule = "topology has a file or a preset, one of them"
                self.faults.append(self.loaded.fault((*path, "topology"), rule))
                return None, None
            if entry.preset is not None:
                hint = "Keep preset or topology"
                rule = "two sources for the same GPUs"
                self.faults.append(self.loaded.fault((*path, "topology"), rule, hint))
                return None, None
            if source.file is not None:
                return self._capture(source.file, (*path, "topology", "file")), None
        at: Path = (*path, "preset") if source is None else (*path, "topology", "preset")
        name = entry.preset if source is None else source.preset
        if name is None:
            return None, None
        try:
            preset = machine(name)
        except UnknownPresetError:
            hint = did_you_mean(name, PRESETS, "presets")
            self.faults.append(self.loaded.fault(at, "no preset has this name", hint))
            return None, None
        return preset.topology, preset

    def _capture(self, name: str, path: Path) -> NodeTopology | None:
        """The topology of a capture; what is wrong with it is said once, by its own line."""
        file = self.loaded.folder / name
        key = str(file)
        if key in self._captures:
            if self._captures[key] is None:
                rule = "this capture cannot be used, see its own faults"
                self.faults.append(self.loaded.fault(path, rule))
            return self._captures[key]
        self._captures[key] = None
        place = self.loaded.document.place(self.loaded.origin(path))
        named = f"It is named in {self.loaded.file}:{place.line}"
        try:
            raw = read_bounded(file, MAX_CAPTURE_BYTES)
            topology = parse_topo(raw.decode("utf-8", "replace"), name)
        except SpecErrors as errors:
            for fault in errors.faults:
                hint = "Topology files are relative to the spec's folder"
                self.faults.append(self.loaded.fault(path, f"{fault.rule} ({file})", hint))
            return None
        except TopologyParseError as error:
            way_out = error.hint[:1].upper() + error.hint[1:].rstrip(".")
            hint = ". ".join(part for part in (way_out, named) if part)
            self.faults.append(
                SpecFault(
                    file=key,
                    line=error.line or 1,
                    path=self.loaded.document.words(self.loaded.origin(path)),
                    value=shown(error.value) if error.value else "",
                    rule=error.rule.rstrip("."),
                    hint=hint,
                )
            )
            return None
        self.notes.extend(f"{file}: {warning}" for warning in topology.warnings)
        self._captures[key] = topology
        return topology

    def _devices(
        self, entry: MachineSpec, path: Path, base: NodeTopology | None
    ) -> tuple[tuple[str | None, ...], tuple[int | None, ...]]:
        """Model and memory of every GPU: the spec's word, else that of its source."""
        gpus = entry.gpus
        n_gpus = len(gpus) if isinstance(gpus, tuple) else gpus
        if base is not None and n_gpus is not None and n_gpus != base.n_gpus:
            rule = f"{base.name} has {base.n_gpus} GPUs"
            hint = "Remove gpus, or describe the node by gpus and links"
            self.faults.append(self.loaded.fault((*path, "gpus"), rule, hint))
        if isinstance(gpus, tuple):
            if entry.gpu_model is not None:
                rule = "the list of gpus names the models already"
                hint = "Keep one of them"
                self.faults.append(self.loaded.fault((*path, "gpu_model"), rule, hint))
            models = tuple(canonical_model(gpu.model) for gpu in gpus)
            return models, tuple(
                rounded(gpu.memory / MIB, "down") if gpu.memory is not None else _memory_mib(model)
                for gpu, model in zip(gpus, models, strict=True)
            )
        if entry.gpu_model is not None:
            model = canonical_model(entry.gpu_model)
            count = n_gpus if n_gpus is not None else base.n_gpus if base is not None else 0
            if not count:
                hint = "Add gpus, the number of them"
                rule = "a model without GPUs"
                self.faults.append(self.loaded.fault((*path, "gpu_model"), rule, hint))
            return (model,) * count, (_memory_mib(model),) * count
        if base is not None:
            return _devices_of(base)
        return (None,) * (n_gpus or 0), (None,) * (n_gpus or 0)

    def _links(
        self, entry: MachineSpec, path: Path, base: NodeTopology | None, n_gpus: int
    ) -> Links:
        """Links of the source with those of the spec over them."""
        links: Links = {}
        if base is not None and entry.links:
            links = {pair: base.link(*pair) for pair in combinations(range(base.n_gpus), 2)}
        elif base is not None:
            pairs = combinations(range(base.n_gpus), 2)
            links = {pair: link for pair in pairs if (link := base.link(*pair)) != SYS}
        given: dict[tuple[int, int], LinkSpec] = {}
        for index, entry_link in enumerate(entry.links):
            at = (*path, "links", index)
            pair = (min(entry_link.a, entry_link.b), max(entry_link.a, entry_link.b))
            if pair[0] == pair[1]:
                self.faults.append(self.loaded.fault(at, "a link joins two GPUs", value=pair[0]))
            elif pair[1] >= n_gpus:
                end = "a" if entry_link.a == pair[1] else "b"
                rule = f"the node has GPUs 0 to {n_gpus - 1}" if n_gpus else "the node has no GPUs"
                self.faults.append(self.loaded.fault((*at, end), rule))
            elif pair in given and given[pair].kind != entry_link.kind:
                rule = f"GPUs {pair[0]} and {pair[1]} have a link already: {given[pair].kind}"
                self.faults.append(self.loaded.fault((*at, "kind"), rule, "Keep one of them"))
            else:
                given[pair] = entry_link
                links[pair] = entry_link.kind
        return links


def _devices_of(topology: NodeTopology) -> tuple[tuple[str | None, ...], tuple[int | None, ...]]:
    return topology.gpu_models, topology.gpu_memory_mib


def _memory_mib(model: str) -> int | None:
    known = gpu_model(model)
    return known.memory_mib if known else None


def _own_name(models: tuple[str | None, ...]) -> str:
    """Name of a topology that the spec itself describes."""
    kinds = sorted({model or "GPU" for model in models})
    return f"{len(models)}x{'+'.join(kinds)}" if models else "no GPUs"
