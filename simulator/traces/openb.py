"""The openb trace: the arrivals-only experiment of Weng et al. (ATC 2023), exactly.

Nothing departs, nobody waits: pods arrive one a second, and one that does not fit is dropped.
With an orders file, pods arrive in the published sequence of a seed, and ties of scores are broken
in its order of nodes; without one, the list is shuffled and tuned as the publication says, with
draws of our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import TypeVar

from simulator.scenario import MS, Arrival, Rejected, Scenario, Target
from simulator.traces.table import Row, TraceError, find_file, near_and_known, read_table
from solver.cluster import GPU_MILLI, Node
from solver.workload import Job, Role, Shape
from topology.graph import NodeTopology

T = TypeVar("T")

NODES = "openb_node_list_gpu_node.csv"
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

MAX_GPUS = 64
"""GPUs of a node, at most: what is more is a slip."""

TUNING_RATIO = 1.3
"""Demand of all pods over the GPUs of the cluster (the publication's "tuning ratio")."""

WHOLE_FILE = "Fetch it again, or do without it: orders are shuffled then."

COVERAGE = 0.95
"""Share of the pods that the target workload covers, most frequent kinds first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A row of a pod list; `gpu_milli` is per device."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    spec: str

    @property
    def demand_milli(self) -> int:
        """Milli-GPU over all devices."""
        return self.gpus * self.gpu_milli

    @property
    def models(self) -> tuple[str, ...]:
        """Models that will do, each once, sorted; empty: any."""
        return tuple(sorted({model for model in self.spec.split("|") if model}))

    def shape(self, *, memory: bool = True) -> Shape:
        """What it asks of a node."""
        memory_mib = self.memory_mib if memory else 0
        return _shape(self.gpus, self.gpu_milli, self.cpu_milli, memory_mib, self.models)


@lru_cache(maxsize=4096)
def _shape(
    gpus: int, gpu_milli: int, cpu_milli: int, memory_mib: int, models: tuple[str, ...]
) -> Shape:
    """One object for pods that are alike: looking it up is then quick."""
    whole = gpu_milli == GPU_MILLI
    return Shape(
        gpus=gpus if whole else 0,
        share_milli=0 if whole else gpu_milli,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        gpu_models=models,
    )


@lru_cache(maxsize=4096)
def _roles(shape: Shape) -> tuple[Role, ...]:
    return (Role(name="pod", shape=shape),)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenbTrace:
    """The lists of one workload.

    `orders` has, by seed, the names of pods in their sequence and of nodes in theirs.
    """

    workload: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    orders: Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]
    rejected: tuple[Rejected, ...]

    def scenario(self, seed: int | None) -> Scenario:
        """The experiment with the order of a seed; None keeps the order of the files."""
        nodes, notes = self.nodes, tuple[str, ...]()
        if seed is None:
            pods = self.pods
            notes = ("pods and nodes in the order of their files, nothing tuned",)
        elif seed in self.orders:
            by_name = {pod.name: pod for pod in self.pods}
            pods = tuple(by_name[name] for name in self.orders[seed][0])
            node_by_name = {node.name: node for node in self.nodes}
            nodes = tuple(node_by_name[name] for name in self.orders[seed][1])
        else:
            pods, nodes = self._shuffled(seed)
            notes = (f"no published order for seed {seed}{self._published()}: own shuffles",)
        return Scenario(
            name=f"openb {self.workload}",
            nodes=nodes,
            arrivals=tuple(_arrival(n, pod) for n, pod in enumerate(pods)),
            patient=False,
            target=self.target(),
            demand=tuple(Counter(pod.shape() for pod in self.pods).items()),
            reference_shapes=_reference(self.pods),
            rejected=self.rejected,
            notes=(*notes, *self._no_time(len(pods))),
        )

    def _no_time(self, arrivals: int) -> tuple[str, ...]:
        """What times mean here, and why there may be more arrivals than pods."""
        clones = arrivals - len(self.pods)
        more = f"; {clones:,} of {arrivals:,} are pods that come again" if clones > 0 else ""
        return (
            "pods arrive one a second and none departs: times, and means over time, are those of"
            f" the sequence, not of a cluster{more}",
        )

    def target(self) -> Target:
        """The target workload M: kinds of pods (memory ignored) until 95 % are covered."""
        counts = Counter((p.cpu_milli, p.gpu_milli, p.gpus, p.spec) for p in self.pods)
        first = {(p.cpu_milli, p.gpu_milli, p.gpus, p.spec): p for p in reversed(self.pods)}
        chosen = []
        covered = 0
        for key in sorted(counts, key=lambda kind: (counts[kind], kind), reverse=True):
            if covered >= COVERAGE * len(self.pods):
                break
            chosen.append((first[key].shape(memory=False), counts[key]))
            covered += counts[key]
        return Target(shapes=tuple(chosen), population=len(self.pods))

    def _published(self) -> str:
        """In brackets, the seeds whose order is published; nothing where none is."""
        seeds = sorted(self.orders)
        if not seeds:
            return ""
        whole = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
        named = f"{seeds[0]}-{seeds[-1]}" if whole else ", ".join(map(str, seeds))
        return f" (there is one for {named})"

    def _shuffled(self, seed: int) -> tuple[tuple[Pod, ...], tuple[Node, ...]]:
        """Shuffled, then cloned up to the tuning ratio, or thinned out down to it."""
        random = Random(seed)
        limit = TUNING_RATIO * sum(node.n_gpus for node in self.nodes) * GPU_MILLI
        pods = sorted(self.pods, key=lambda pod: pod.name)
        random.shuffle(pods)
        demand = sum(pod.demand_milli for pod in pods)
        while demand > limit:
            demand -= pods.pop(random.randrange(len(pods))).demand_milli
        while any(pod.demand_milli for pod in self.pods) and demand < limit:
            clone = random.choice(self.pods)
            if demand + clone.gpu_milli > limit:
                break
            pods.append(clone)
            demand += clone.demand_milli
        nodes = list(self.nodes)
        random.shuffle(nodes)
        return tuple(pods), tuple(nodes)


def read_openb(folder: Path, workload: str = "default") -> OpenbTrace:
    """Read the lists of a workload from a folder.

    Raises
    ------
    TraceError
        A list is missing or is no such list, or the orders name what it does not have.
    """
    node_list = find_file(folder, (NODES,))
    names = (f"openb_pod_list_{workload}.csv", f"openb_pod_list_{workload}.csv.gz")
    if not any((folder / name).is_file() for name in names):
        known = [path.name for path in folder.glob("openb_pod_list_*")]
        there = [name.removeprefix("openb_pod_list_").split(".")[0] for name in known]
        hint = near_and_known(workload, there, "workloads")
        raise TraceError(str(folder), f"there is no workload {workload!r}", hint)
    nodes, bad_nodes = _read(node_list, NODE_COLUMNS, "node list", _node)
    pods, bad_pods = _read(find_file(folder, names), POD_COLUMNS, "pod list", _pod)
    orders = folder / "orders" / f"{workload}.csv.gz"
    known_nodes, known_pods = {n.name for n in nodes}, {p.name for p in pods}
    return OpenbTrace(
        workload=workload,
        nodes=tuple(nodes),
        pods=tuple(pods),
        orders=_orders(orders, known_pods, known_nodes) if orders.is_file() else {},
        rejected=(*bad_nodes, *bad_pods),
    )


def _read(
    path: Path, columns: Sequence[str], what: str, make: Callable[[Row, set[str]], T | str]
) -> tuple[list[T], list[Rejected]]:
    """What the rows of a table say, and the rows that cannot be used."""
    table = read_table(path, columns, what)
    found: list[T] = []
    rejected = list(table.broken)
    seen: set[str] = set()
    for row in table.rows():
        made = make(row, seen)
        if isinstance(made, str):
            rejected.append(table.rejected(row, made))
        else:
            found.append(made)
    return found, rejected


@cache
def _topology(model: str, gpus: int) -> NodeTopology:
    return NodeTopology(f"{gpus} {model or 'GPU'}", [model] * gpus)


def _node(row: Row, seen: set[str]) -> Node | str:
    cells = row.cells
    amounts = [_whole(cells[column]) for column in ("gpu", "cpu_milli", "memory_mib")]
    if None in amounts:
        return "gpu, cpu_milli and memory_mib are whole numbers"
    gpus, cpu_milli, memory_mib = (amount or 0 for amount in amounts)
    if gpus > MAX_GPUS:
        return f"a node has at most {MAX_GPUS} GPUs"
    if not cells["sn"] or cells["sn"] in seen:
        return "a node has a name of its own"
    seen.add(cells["sn"])
    return Node(
        name=cells["sn"],
        topology=_topology(cells["model"], gpus),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )


def _pod(row: Row, seen: set[str]) -> Pod | str:
    cells = row.cells
    amounts = [_whole(cells[column]) for column in POD_COLUMNS[1:]]
    if None in amounts:
        return "cpu_milli, memory_mib, num_gpu and gpu_milli are whole numbers"
    cpu_milli, memory_mib, gpus, gpu_milli = (amount or 0 for amount in amounts)
    share = gpus == 1 and 1 <= gpu_milli <= GPU_MILLI
    if not (share or (gpus == 0 and not gpu_milli) or (gpus > 1 and gpu_milli == GPU_MILLI)):
        return "gpu_milli is 0 without GPUs, 1 to 1000 with one, 1000 with several"
    if not cells["name"] or cells["name"] in seen:
        return "a pod has a name of its own"
    seen.add(cells["name"])
    return Pod(
        name=cells["name"],
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        gpus=gpus,
        gpu_milli=gpu_milli,
        spec=cells.get("gpu_spec", ""),
    )


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _orders(
    path: Path, pods: set[str], nodes: set[str]
) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
    """By seed, the sequence of pods and the order of nodes.

    Raises
    ------
    TraceError
        A row is no such row, or names what the lists do not have: a sequence cannot do without it.
        Positions do not run from 0 without a gap, or nodes are not each in it once.
    """
    table = read_table(path, ("seed", "kind", "pos", "name"), "orders file")
    for broken in table.broken:
        raise TraceError(str(path), broken.reason, line=broken.line)
    sequences: dict[int, dict[str, list[tuple[int, str]]]] = {}
    for row in table.rows():
        seed, pos = _whole(row.cells["seed"]), _whole(row.cells["pos"])
        kind, name = row.cells["kind"], row.cells["name"]
        known = {"pod": pods, "node": nodes}.get(kind)
        if seed is None or pos is None or known is None:
            rule = "seed and pos are whole numbers, kind is pod or node"
            raise TraceError(str(path), rule, line=row.line)
        if name not in known:
            raise TraceError(str(path), f"no {kind} is named {name!r}", line=row.line)
        sequences.setdefault(seed, {"pod": [], "node": []})[kind].append((pos, name))
    for seed, kinds in sequences.items():
        for kind, entries in kinds.items():
            entries.sort()
            if [pos for pos, _ in entries] != list(range(len(entries))):
                rule = f"the positions of {kind}s of seed {seed} do not run from 0 without a gap"
                raise TraceError(str(path), rule, WHOLE_FILE)
        names = [name for _, name in kinds["node"]]
        if len(names) != len(nodes) or set(names) != nodes:
            rule = f"seed {seed} has {len(names)} nodes, and not each of the {len(nodes)} once"
            raise TraceError(str(path), rule, WHOLE_FILE)
        if not kinds["pod"]:
            raise TraceError(str(path), f"seed {seed} has no pods", WHOLE_FILE)
    return {
        seed: (tuple(n for _, n in kinds["pod"]), tuple(n for _, n in kinds["node"]))
        for seed, kinds in sequences.items()
    }


def _arrival(number: int, pod: Pod) -> Arrival:
    """A pod as it arrives; clones repeat a name, so the name is that of the arrival."""
    job = Job(name=f"{number}-{pod.name}", roles=_roles(pod.shape()))
    return Arrival(job=job, arrival_ms=number * MS, duration_ms=None)


def _reference(pods: Sequence[Pod]) -> tuple[tuple[Shape, int], ...]:
    """What stranded is relative to: pods with GPUs, the most frequent until 95 % are covered."""
    counts = Counter(pod.shape() for pod in pods if pod.gpus)
    total = sum(counts.values())
    chosen = []
    covered = 0
    for shape, count in counts.most_common():
        if covered >= COVERAGE * total:
            break
        chosen.append((shape, count))
        covered += count
    return tuple(chosen)
