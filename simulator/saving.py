"""Runs on disk: Parquet tables of jobs, events and series, and what they add up to.

``summary.json`` is written last, so a run that has it is whole; it names the content that the run
was made of, so that a rerun of the same sweep takes it as done.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.lives import State
from simulator.metrics import Series
from simulator.outcome import JobOutcome, Left, Outcome, Summary

if TYPE_CHECKING:
    import polars

FORMAT = 3
"""Changes whenever the tables, or what runs come to, do: runs of another one are made again."""

JOBS, EVENTS, SERIES, SUMMARY = "jobs.parquet", "events.parquet", "series.parquet", "summary.json"
QUEUE = "held_milli:"
"""Begins the names of series columns that have one queue."""


def folder_of(root: Path, trace: str, policy: str, seed: int) -> Path:
    """Where a run is kept: readable, and another folder for every trace, policy and seed."""
    safe = "".join(c if c.isalnum() or c in "-+.=" else "_" for c in trace)[:60]
    if safe != trace or not safe.strip("."):
        safe = safe.strip(".") or "trace"
        safe += "-" + hashlib.sha256(trace.encode()).hexdigest()[:6]
    return root / safe / f"{policy}-{seed}"


def save(outcome: Outcome, folder: Path, fingerprint: str) -> None:
    """Write a run; each file is there whole or not at all.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(job) | {"state": job.state.value} for job in outcome.jobs]
    integers = dict.fromkeys(("arrival_ms", "start_ms", "end_ms", "gpu_milli"), pl.Int64)
    jobs = pl.DataFrame(rows, schema_overrides=integers, infer_schema_length=None)
    events = pl.DataFrame(
        {
            "time_ms": [entry.time_ms for entry in outcome.log],
            "event": [entry.what for entry in outcome.log],
            "job": [entry.job for entry in outcome.log],
            "gpu_milli": [entry.gpu_milli for entry in outcome.log],
        }
    )
    series = outcome.series
    columns = {name: pl.Series(name, values) for name, values in series.columns().items()}
    for queue, held in series.queue_milli.items():
        columns[QUEUE + queue] = pl.Series(QUEUE + queue, held)
    # Whoever ends in between leaves no summary, and not that of another run beside these tables.
    (folder / SUMMARY).unlink(missing_ok=True)
    _write(jobs, folder / JOBS)
    _write(events, folder / EVENTS)
    _write(pl.DataFrame(columns), folder / SERIES)
    summary = {"format": FORMAT, "fingerprint": fingerprint, **asdict(outcome.summary)}
    draft = folder / f".{SUMMARY}.{os.getpid()}.tmp"
    draft.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / SUMMARY)


def saved_summary(folder: Path, fingerprint: str) -> Summary | None:
    """The row of a run that is there, whole and made of the same; None where there is none."""
    try:
        kept = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        if kept.pop("format") != FORMAT or kept.pop("fingerprint") != fingerprint:
            return None
        if set(kept) != {field.name for field in fields(Summary)}:
            return None
        if not all((folder / name).is_file() for name in (JOBS, EVENTS, SERIES)):
            return None
        left = [Left(**{**entry, "state": State(entry["state"])}) for entry in kept.pop("left")]
        return Summary(**kept, left=tuple(left))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # cut off, or not ours: it is made again


def saved_outcome(folder: Path, summary: Summary) -> Outcome | None:
    """A run as it was saved, but for its log; None where a table cannot be read any more."""
    import polars as pl

    try:
        jobs = pl.read_parquet(folder / JOBS)
        table = pl.read_parquet(folder / SERIES)
    except (OSError, pl.exceptions.PolarsError):
        return None
    queues = [name.removeprefix(QUEUE) for name in table.columns if name.startswith(QUEUE)]
    series = Series(queues)
    for name, values in series.columns().items():
        values.extend(table[name].to_list())
    for queue in queues:
        series.queue_milli[queue].extend(table[QUEUE + queue].to_list())
    rows: Sequence[dict[str, object]] = jobs.to_dicts()
    return Outcome(
        summary=summary,
        jobs=tuple(
            JobOutcome(**{**row, "state": State(row["state"])})  # type: ignore[arg-type]
            for row in rows
        ),
        series=series,
        log=(),
    )


def sweep_drafts(folder: Path) -> None:
    """Remove drafts of files that a process left behind that was killed while it wrote."""
    for name in (JOBS, EVENTS, SERIES, SUMMARY):
        for draft in folder.glob(f".{name}.*.tmp"):
            process = draft.name.removeprefix(f".{name}.").removesuffix(".tmp")
            if process.isdigit() and not _is_alive(int(process)):
                draft.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    """Whether there is such a process on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _write(table: polars.DataFrame, path: Path) -> None:
    import polars as pl

    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        table.write_parquet(draft)
        draft.replace(path)
    except pl.exceptions.ComputeError as error:  # as which it tells of a full disk
        raise OSError(f"{path} cannot be written: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
