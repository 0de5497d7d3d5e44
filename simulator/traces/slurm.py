"""Rows that Helios and Acme share: what a batch system writes down of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from simulator.traces.cells import MAX_GPUS, NO_MOST, whole_number
from simulator.traces.table import Row, Table
from simulator.traces.virtual_clusters import VcJob

JOB_COLUMNS = (
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "start_time",
    "end_time",
)

OUTCOMES: dict[str, Literal["finished", "failed"]] = {
    "COMPLETED": "finished",
    "CANCELLED": "finished",  # by its user
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
}

NO_TIME = ("", "None", "NaT", "nan", "null", "Unknown")
"""How such logs write that there is no time."""

MAX_CORES = 10_000_000


def slurm_job(
    table: Table,
    row: Row,
    vc: str,
    read_time: Callable[[str], int | None],
    ends: Sequence[str] = ("end_time",),
    memory_mib: int | None = 0,
) -> VcJob:
    """A job of such a row. Its run time is from start to end, whatever `duration` says.

    Parameters
    ----------
    read_time
        Reads a time of this log.
    ends
        Columns for the end of the job; the first that has a time counts.
    memory_mib
        Memory of a replica; None where it is unreadable.
    """
    cells = row.cells
    gpus = whole_number(cells["gpu_num"], 0)
    cores = whole_number(cells["cpu_num"], 0, MAX_CORES)
    nodes = whole_number(cells["node_num"], 1, MAX_GPUS)
    start, end = cells["start_time"], next((cells[e] for e in ends if cells[e] not in NO_TIME), "")
    start_ms, end_ms = read_time(start), read_time(end)
    outcome = OUTCOMES.get(cells["state"])
    rules = {
        f"state is not one of {', '.join(OUTCOMES)}": outcome is not None,
        "gpu_num is not a whole number": whole_number(cells["gpu_num"], 0, NO_MOST) is not None,
        f"gpu_num is more than {MAX_GPUS:,}": gpus is not None,
        "cpu_num is not a whole number": whole_number(cells["cpu_num"], 0, NO_MOST) is not None,
        f"cpu_num is more than {MAX_CORES:,}": cores is not None,
        "node_num is not a positive whole number": (
            whole_number(cells["node_num"], 1, NO_MOST) is not None
        ),
        f"node_num is more than {MAX_GPUS:,}": nodes is not None,
        "neither GPUs nor CPU cores": bool(gpus or cores),
        "unreadable memory": memory_mib is not None,
        "it never started": start not in NO_TIME,
        "still running at the end of the trace": end not in NO_TIME,
        "unreadable start or end": start_ms is not None and end_ms is not None,
        "duration is not a positive number of seconds": (end_ms or 0) > (start_ms or 0),
    }
    return VcJob(
        file=table.file,
        line=row.line,
        vc=vc,
        submit_ms=read_time(cells["submit_time"]),
        start_ms=start_ms,
        duration_ms=(end_ms or 0) - (start_ms or 0),
        gpus=gpus or 0,
        cpu_milli=1000 * (cores or 0),
        nodes=nodes or 1,
        memory_mib=memory_mib or 0,
        outcome=outcome or "finished",
        fault=next((rule for rule, holds in rules.items() if not holds), ""),
    )


def spread_note(jobs: Sequence[VcJob], per_node: int) -> tuple[str, ...]:
    """Note on gangs that the trace ran on more nodes than their GPUs fill."""
    wider = sum(0 < job.gpus <= per_node * (job.nodes - 1) for job in jobs if not job.fault)
    if not wider:
        return ()
    rule = f"here a gang takes whole nodes of {per_node} GPUs and one for the rest"
    return (f"{wider} rows ran on more nodes than their GPUs fill; {rule}.",)
