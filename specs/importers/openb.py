"""The openb trace (Alibaba's GPU-sharing cluster, 2023) to a spec.

Its pods become pending jobs in the order of the list, its nodes keep their names and the opaque
model names of the trace.

References
----------
Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from specs.errors import SpecErrors
from specs.importers.table import Cells, Row, read_table
from specs.importers.writing import cores, flow, memory, share
from specs.models.base import MAX_NODE_GPUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
DROPPED_COLUMNS = ("qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
"""Columns of pods that a spec has no place for; `multigpu` lists do not have them at all."""

MOST = 2**53
"""Largest number of a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenbNode:
    """A node of the trace; without GPUs it has no model."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenbPod:
    """A pod of the trace. `gpu_milli` is per device, so it asks for `gpus` times that much."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    dropped: tuple[str, ...] = ()


def read_nodes(path: Path) -> tuple[OpenbNode, ...]:
    """Nodes of ``openb_node_list_*.csv``.

    Raises
    ------
    SpecErrors
        The file is no such list; all bad cells at once.
    """
    cells, first = Cells(), dict[str, int]()
    nodes = tuple(_node(cells, row, first) for row in read_table(path, NODE_COLUMNS, "node list"))
    if cells.faults:
        raise SpecErrors(cells.faults)
    return nodes


def _node(cells: Cells, row: Row, first: dict[str, int]) -> OpenbNode:
    gpus, model = cells.whole(row, "gpu", MAX_NODE_GPUS), row.cells["model"].strip()
    if gpus and not model:
        cells.faults.append(row.fault("model", "a node with GPUs has a model"))
    return OpenbNode(
        name=cells.name(row, "sn", first),
        cpu_milli=cells.whole(row, "cpu_milli", MOST),
        memory_mib=cells.whole(row, "memory_mib", MOST),
        gpus=gpus,
        model=model,
    )


def read_pods(path: Path, limit: int | None = None) -> tuple[OpenbPod, ...]:
    """Pods of ``openb_pod_list_*.csv[.gz]``, the first `limit` of them.

    Raises
    ------
    SpecErrors
        The file is no such list; all bad cells at once.
    """
    cells, first = Cells(), dict[str, int]()
    rows = islice(read_table(path, POD_COLUMNS, "pod list"), limit)
    pods = tuple(_pod(cells, row, first) for row in rows)
    if cells.faults:
        raise SpecErrors(cells.faults)
    return pods


def _pod(cells: Cells, row: Row, first: dict[str, int]) -> OpenbPod:
    before = len(cells.faults)
    gpus = cells.whole(row, "num_gpu", MAX_NODE_GPUS)
    milli = cells.whole(row, "gpu_milli", 1000)
    if len(cells.faults) > before:
        pass  # numbers that are none cannot contradict each other
    elif gpus == 0 and milli:
        cells.faults.append(row.fault("gpu_milli", "0 for a pod without GPUs"))
    elif gpus == 1 and not milli:
        cells.faults.append(row.fault("gpu_milli", "1 to 1000 for a pod with a GPU"))
    elif gpus > 1 and milli != 1000:
        cells.faults.append(row.fault("gpu_milli", "1000 for a pod with several GPUs"))
    # Lists of models repeat names, for the weights of the original sampling.
    models = row.cells.get("gpu_spec", "").split("|")
    return OpenbPod(
        name=cells.name(row, "name", first),
        cpu_milli=cells.whole(row, "cpu_milli", MOST),
        memory_mib=cells.whole(row, "memory_mib", MOST),
        gpus=gpus,
        gpu_milli=milli,
        models=tuple(dict.fromkeys(model.strip() for model in models if model.strip())),
        dropped=tuple(column for column in DROPPED_COLUMNS if row.cells.get(column)),
    )


def openb_spec(
    nodes: Sequence[OpenbNode], pods: Sequence[OpenbPod], origin: str = ""
) -> Iterator[str]:
    """Lines of the spec, one for each node and job.

    Parameters
    ----------
    origin
        Where the lists come from, for the comment at the top.
    """
    gpus = sum(node.gpus for node in nodes)
    yield f"# The openb trace: {len(nodes)} nodes with {gpus} GPUs, {len(pods)} pods as jobs."
    if origin:
        yield f"# {origin}"
    yield "cluster:"
    yield "  name: openb"
    yield "  nodes:"
    for node in nodes:
        yield f"    - {flow(_node_entry(node))}"
    if pods:
        yield "jobs:"
        for pod in pods:
            yield f"  - {flow(_job_entry(pod))}"


def _node_entry(node: OpenbNode) -> dict[str, str | int | tuple[str, ...]]:
    entry: dict[str, str | int | tuple[str, ...]] = {"name": node.name}
    if node.gpus:
        entry |= {"gpus": node.gpus, "gpu_model": node.model}
    return entry | {"cpu": cores(node.cpu_milli), "memory": memory(node.memory_mib)}


def _job_entry(pod: OpenbPod) -> dict[str, str | int | tuple[str, ...]]:
    entry: dict[str, str | int | tuple[str, ...]] = {"name": pod.name}
    if pod.gpus:
        entry["gpus"] = pod.gpus if pod.gpu_milli == 1000 else share(pod.gpu_milli)
    entry["cpu"] = cores(pod.cpu_milli)
    if pod.memory_mib:
        entry["memory"] = memory(pod.memory_mib)
    if pod.models:
        entry["gpu_models"] = pod.models
    return entry


def dropped(pods: Sequence[OpenbPod]) -> dict[str, int]:
    """What the spec does not say of the pods: column to the number of pods that have it."""
    counts = {column: sum(column in pod.dropped for pod in pods) for column in DROPPED_COLUMNS}
    return {column: count for column, count in counts.items() if count}
