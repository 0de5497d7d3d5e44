"""The Helios trace (SenseTime, 2020): one of its clusters, jobs in VCs with and without GPUs.

Times are a wall clock without a zone. Nodes have 8 GPUs; how many cores they have is not told.

References
----------
Q. Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
Datacenters", SC 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.scenario import Scenario
from simulator.traces.cells import wall_ms, whole_number
from simulator.traces.slurm import JOB_COLUMNS, slurm_job, spread_note
from simulator.traces.submission import GPUS_PER_NODE
from simulator.traces.table import Table, TraceError, find_file, read_table
from simulator.traces.virtual_clusters import VcJob, VirtualCluster, vc_scenario

JOB_FILES = ("cluster_log.csv", "cluster_log.csv.gz")
SIZE_FILE = "cluster_gpu_number.csv"
NO_VC = ("date", "total")
"""Columns of the sizes that are no VC."""


def read_helios(folder: Path) -> Scenario:
    """Read ``cluster_log.csv`` and, if it is there, ``cluster_gpu_number.csv`` of a folder.

    VCs grow and shrink over the months of the trace; here each has the most GPUs that it ever
    had. Without the second file a VC has as many as its jobs held at once.

    Raises
    ------
    TraceError
        The folder has no such log, or one of the files is broken.
    """
    path = find_file(folder, JOB_FILES)
    table = read_table(path, ("vc", *JOB_COLUMNS), "log of Helios jobs")
    jobs = tuple(slurm_job(table, row, row.cells["vc"].strip(), wall_ms) for row in table.rows())
    notes = ["The trace does not say how many cores a node has: CPU never runs out."]
    if (folder / SIZE_FILE).is_file():
        gpus = _largest(read_table(folder / SIZE_FILE, ("date",), "table of VC sizes"))
        notes.append("VCs change their size; each has the most GPUs it ever had.")
    else:
        gpus = _held_at_once(jobs)
        rule = "each VC has the most GPUs that its jobs held at once, on whole nodes"
        notes.append(f"There is no {SIZE_FILE}: {rule}.")
    named = {job.vc for job in jobs}
    return vc_scenario(
        name="helios",
        jobs=jobs,
        clusters=[
            VirtualCluster(name=vc, gpus=most) for vc, most in gpus.items() if most or vc in named
        ],
        broken=table.broken,
        notes=[*notes, *spread_note(jobs, GPUS_PER_NODE)],
    )


def _largest(table: Table) -> dict[str, int]:
    """Most GPUs that each VC had on any day."""
    if table.broken:
        first = table.broken[0]
        raise TraceError(first.file, first.reason, line=first.line)
    sizes: dict[str, int] = {}
    for vc in table.columns:
        if vc in NO_VC:
            continue
        for line, cell in zip(table.lines, table.column(vc), strict=True):
            # A VC that is not there yet, or no more, may have no number.
            gpus = whole_number(cell or "0", 0)
            if gpus is None:
                raise TraceError(table.file, f"{vc} has a whole number of GPUs", line=line)
            sizes[vc] = max(sizes.get(vc, 0), gpus)
    return sizes


def _held_at_once(jobs: Sequence[VcJob]) -> dict[str, int]:
    """Most GPUs that jobs of each VC held at the same time, rounded up to whole nodes."""
    changes: dict[str, list[tuple[int, int]]] = {}
    for job in jobs:
        if job.vc and not job.fault and job.start_ms is not None:
            # At one moment, ends come before starts: the smaller change goes first.
            of_vc = changes.setdefault(job.vc, [])
            of_vc += [(job.start_ms, job.gpus), (job.start_ms + job.duration_ms, -job.gpus)]
    most: dict[str, int] = {}
    for vc, of_vc in sorted(changes.items()):
        held = most[vc] = 0
        for _, change in sorted(of_vc):
            held += change
            most[vc] = max(most[vc], held)
    return {vc: -(-gpus // GPUS_PER_NODE) * GPUS_PER_NODE for vc, gpus in most.items()}
