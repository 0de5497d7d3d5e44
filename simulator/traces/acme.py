"""The Acme trace (Shanghai AI Lab, 2023): the clusters Seren and Kalos of 8-GPU nodes.

Times have their distance to UTC. Run times are computed from start and end: the column
`duration` of Kalos counts from the submission.

References
----------
Q. Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path

from simulator.scenario import Rejected, Scenario
from simulator.traces.cells import zoned_ms
from simulator.traces.slurm import JOB_COLUMNS, slurm_job, spread_note
from simulator.traces.submission import GPUS_PER_NODE
from simulator.traces.table import find_file, read_table
from simulator.traces.virtual_clusters import VcJob, VirtualCluster, vc_scenario

GIB_MIB = 1024
MAX_GB = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeCluster:
    """One of the two clusters, as the publication describes it (section 2.2, table 1).

    Parameters
    ----------
    ends
        Columns for the end of a job; the first that has a time counts.
    memory_column
        Column for the memory of a replica; empty: there is none.
    """

    name: str
    nodes: int
    node_memory_mib: int
    node_cpu_milli: int = 128_000
    ends: tuple[str, ...] = ("end_time",)
    memory_column: str = ""

    @property
    def files(self) -> tuple[str, str]:
        """The file of its jobs, compressed or not."""
        return (f"trace_{self.name}.csv", f"trace_{self.name}.csv.gz")


CLUSTERS = (
    AcmeCluster(name="seren", nodes=286, node_memory_mib=1024 * GIB_MIB),
    AcmeCluster(
        name="kalos",
        nodes=302,
        node_memory_mib=2048 * GIB_MIB,
        ends=("end_time", "fail_time", "stop_time"),
        memory_column="mem_per_pod_GB",
    ),
)


def read_acme(folder: Path) -> Scenario:
    """Read ``trace_seren.csv`` and ``trace_kalos.csv`` of a folder, or the one that it has.

    Both are read as two queues with machines of their own.

    Raises
    ------
    simulator.traces.table.TraceError
        The folder has neither, or one of them is broken.
    """
    present = [c for c in CLUSTERS if any((folder / name).is_file() for name in c.files)]
    if not present:
        find_file(folder, [name for cluster in CLUSTERS for name in cluster.files])  # says so
    jobs, broken = list[VcJob](), list[Rejected]()
    for cluster in present:
        of_cluster, rejected = _read(find_file(folder, cluster.files), cluster)
        jobs += of_cluster
        broken += rejected
    clusters = [
        VirtualCluster(
            name=cluster.name,
            gpus=cluster.nodes * GPUS_PER_NODE,
            node_cpu_milli=cluster.node_cpu_milli,
            node_memory_mib=cluster.node_memory_mib,
        )
        for cluster in present
    ]
    return vc_scenario(
        name="acme",
        jobs=jobs,
        clusters=clusters,
        only=clusters[0] if len(clusters) == 1 else None,
        broken=broken,
        notes=[
            "Nodes are those of the publication: 8 GPUs, 128 CPUs, 1 TiB (Seren) or 2 TiB.",
            *spread_note(jobs, GPUS_PER_NODE),
        ],
    )


def _read(path: Path, cluster: AcmeCluster) -> tuple[list[VcJob], tuple[Rejected, ...]]:
    memory = [cluster.memory_column] if cluster.memory_column else []
    columns = dict.fromkeys([*JOB_COLUMNS, *cluster.ends, *memory])
    table = read_table(path, tuple(columns), f"trace of {cluster.name}")
    jobs = [
        slurm_job(
            table,
            row,
            cluster.name,
            zoned_ms,
            cluster.ends,
            _memory_mib(row.cells[cluster.memory_column]) if memory else 0,
        )
        for row in table.rows()
    ]
    return jobs, table.broken


def _memory_mib(text: str) -> int | None:
    """Memory said in GB, rounded up to MiB; no text is none, None where it is no number."""
    try:
        amount_gb = float(text or "0")
    except ValueError:
        return None
    if not isfinite(amount_gb) or not 0 <= amount_gb <= MAX_GB:
        return None
    return ceil(amount_gb * 10**9 / 2**20)
