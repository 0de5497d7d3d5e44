"""The Philly trace (Microsoft, 2017), reduced to one table: jobs in VCs of 8-GPU nodes.

Times are the local wall clock, without a zone. A job's run time adds up over its attempts; the
waits between them are left out. The trace knows no CPU and no memory.

References
----------
M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
USENIX ATC 2019. The reduction is that of A. Qiao et al., "Pollux", OSDI 2021; the sizes of the
VCs are those of Q. Hu et al., "Characterization and Prediction of Deep Learning Workloads in
Large-Scale GPU Datacenters", SC 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.scenario import Rejected, Scenario
from simulator.traces.cells import MAX_GPUS, seconds_ms, wall_ms, whole_number
from simulator.traces.philly_log import log_jobs
from simulator.traces.submission import GPUS_PER_NODE
from simulator.traces.table import Table, TraceError, find_file, read_table
from simulator.traces.virtual_clusters import VcJob, VirtualCluster, pick, vc_scenario
from simulator.traces.window import Window

JOB_FILES = ("philly_jobs.csv.gz", "philly_jobs.csv")
JOB_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
SIZE_FILE = "vc_nodes.csv"
SIZE_COLUMNS = ("vc", "num_nodes")

MAX_NODES = MAX_GPUS // GPUS_PER_NODE

_REPEATED_HOUR = Window("2017-11-05 01:00:00", "2017-11-05 02:00:00", "")
"""The clock went back at 02:00, so that this hour was there twice."""


def read_philly(
    place: Path,
    vc: str | None = None,
    nodes: int | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Scenario:
    """Read ``philly_jobs.csv[.gz]`` and ``vc_nodes.csv`` of a folder, or the log as published.

    Parameters
    ----------
    place
        The folder; or the file of the log (see `simulator.traces.philly_log`), with the sizes of
        the VCs beside it.
    vc
        The virtual cluster to look at; None: all that have nodes, side by side.
    nodes
        Nodes of 8 GPUs that it has (or each of them) instead of those of ``vc_nodes.csv``.
    since, until
        Submissions to keep, the first moment and the one after the last, as ``YYYY-MM-DD`` or
        ``YYYY-MM-DD HH:MM:SS``. Time begins at `since`, or with the first job that is kept.

    Raises
    ------
    TraceError
        There are no such files, or they are broken; the sizes of VCs are not known, or there is no
        such VC.
    """
    if place.is_file():
        window = Window(since, until, str(place))
        jobs = log_jobs(place)
        clusters = _clusters(place.parent, jobs, nodes)
        return _scenario(vc, jobs, clusters, window, str(place))
    path = find_file(place, JOB_FILES)
    window = Window(since, until, str(path))
    table = read_table(path, JOB_COLUMNS, "table of Philly jobs")
    jobs = _jobs(table)
    clusters = _clusters(place, jobs, nodes)
    return _scenario(vc, jobs, clusters, window, table.file, table.broken)


def _jobs(table: Table) -> tuple[VcJob, ...]:
    cells = zip(table.lines, *(table.column(name) for name in JOB_COLUMNS), strict=True)
    return tuple(
        _job(table.file, line, submitted, duration, gpus, vc)
        for line, submitted, duration, gpus, vc in cells
    )


def _job(file: str, line: int, submitted: str, duration: str, num_gpus: str, vc: str) -> VcJob:
    duration_ms, gpus = seconds_ms(duration), whole_number(num_gpus, 1)
    fault = ""
    if duration_ms is None:
        fault = "duration is not a positive number of seconds"
    elif gpus is None:
        fault = "num_gpus is not a positive whole number"
    return VcJob(
        file=file,
        line=line,
        vc=vc.strip(),
        submit_ms=wall_ms(submitted),
        duration_ms=duration_ms or 0,
        gpus=gpus or 0,
        fault=fault,
    )


def _clusters(folder: Path, jobs: Sequence[VcJob], nodes: int | None) -> tuple[VirtualCluster, ...]:
    """The VCs that have a size, in the order of ``vc_nodes.csv``.

    Parameters
    ----------
    nodes
        Size of each VC, of those that only jobs name too; None: the table has the sizes.

    Raises
    ------
    TraceError
        There is no such table though it is needed, or it is broken.
    """
    if nodes is not None and not 1 <= nodes <= MAX_NODES:
        raise TraceError(str(folder), f"a VC has 1 to {MAX_NODES} nodes, not {nodes}")
    sizes: dict[str, int] = {}
    if nodes is None or (folder / SIZE_FILE).is_file():
        try:
            path = find_file(folder, [SIZE_FILE])
        except TraceError as error:
            raise TraceError(error.file, error.rule, "Or say how many nodes a VC has") from error
        sizes = _sizes(read_table(path, SIZE_COLUMNS, "table of VC sizes"))
    if nodes is not None:
        named = sorted({job.vc for job in jobs if job.vc} - set(sizes))
        sizes = dict.fromkeys([*sizes, *named], nodes)
    return tuple(
        VirtualCluster(name=vc, gpus=count * GPUS_PER_NODE) for vc, count in sizes.items() if count
    )


def _sizes(table: Table) -> dict[str, int]:
    if table.broken:
        first = table.broken[0]
        raise TraceError(first.file, first.reason, line=first.line)
    sizes: dict[str, int] = {}
    for row in table.rows():
        vc = row.cells["vc"].strip()
        nodes = whole_number(row.cells["num_nodes"], 0, MAX_NODES)
        per_node = whole_number(row.cells.get("gpus_per_node", str(GPUS_PER_NODE)), 0)
        if not vc or vc in sizes:
            raise TraceError(table.file, f'each VC has one row, "{vc}" has not', line=row.line)
        if nodes is None:
            rule = f"num_nodes is a whole number up to {MAX_NODES}"
            raise TraceError(table.file, rule, line=row.line)
        if per_node != GPUS_PER_NODE:
            rule = f"nodes of Philly have {GPUS_PER_NODE} GPUs here"
            raise TraceError(table.file, rule, "Give the VC as many such nodes", row.line)
        sizes[vc] = nodes
    return sizes


def _scenario(
    vc: str | None,
    jobs: Sequence[VcJob],
    clusters: Sequence[VirtualCluster],
    window: Window,
    file: str,
    broken: Sequence[Rejected] = (),
) -> Scenario:
    """The jobs of one VC or of all, with notes on what was assumed."""
    only = None if vc is None else pick(file, clusters, jobs, vc)
    notes = ["The trace knows no CPU and no memory: they never run out."]
    repeated = sum(
        job.submit_ms is not None and job.submit_ms in _REPEATED_HOUR and job.submit_ms in window
        for job in jobs
        if only is None or job.vc == only.name
    )
    if repeated:
        notes.append(
            f"{repeated} rows are of the hour after 2017-11-05 01:00, which the wall clock showed"
            " twice; they are taken as written."
        )
    name = "philly" if vc is None else f"philly-{vc}"
    return vc_scenario(name, jobs, clusters, only, window, broken, notes)
