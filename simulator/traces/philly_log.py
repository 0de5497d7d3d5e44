"""The Philly trace (Microsoft, 2017) as published: the JSON ``cluster_job_log``.

It has every attempt of a job. A job's gang is what its first attempt held; its run time adds up
over the attempts, and the waits between them are left out.

References
----------
M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
USENIX ATC 2019.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulator.traces.cells import MAX_GPUS, wall_ms
from simulator.traces.table import TraceError, read_text
from simulator.traces.virtual_clusters import VcJob

OUTCOMES: dict[str, Literal["finished", "failed"]] = {
    "Pass": "finished",
    "Killed": "finished",  # by its user, who had seen enough
    "Failed": "failed",
}

NO_TIME = ("", "None")
"""How the log writes that there is no time, besides null."""

_SPACE = re.compile(r"\s*")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def log_jobs(path: Path) -> tuple[VcJob, ...]:
    """The jobs of a ``cluster_job_log``.

    Raises
    ------
    TraceError
        The file is no such log.
    """
    file = str(path)
    return tuple(_job(file, line, entry) for line, entry in _entries(file, read_text(path)))


def _entries(file: str, text: str) -> Iterator[tuple[int, object]]:
    """The elements of a JSON list, each with the line on which it begins."""
    decoder = json.JSONDecoder()
    at, line = _after_space(text, 0), 1
    if not text.startswith("[", at):
        hint = "Name the cluster_job_log or its folder."
        raise TraceError(file, "a JSON list of jobs is wanted here", hint, 1)
    begun, at = 0, _after_space(text, at + 1)
    first = True
    while not (first and text.startswith("]", at)):
        line, begun = line + text.count("\n", begun, at), at
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise TraceError(file, "not JSON from here on", "Is the file cut off?", line) from error
        yield line, entry
        at, first = _after_space(text, at), False
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            raise TraceError(file, "the list of jobs has no end", "Is the file cut off?", line)
        at = _after_space(text, at + 1)
    line, end = line + text.count("\n", begun, at), _after_space(text, at + 1)
    if end < len(text):
        line += text.count("\n", at, end)
        raise TraceError(file, "there is more after the list of jobs", "Keep one list", line)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _job(file: str, line: int, entry: object) -> VcJob:
    fields = entry if isinstance(entry, dict) else {}
    run = _run(fields)
    status = fields.get("status")
    outcome = OUTCOMES.get(status) if isinstance(status, str) else None
    fault = run.fault
    if outcome is None:
        fault = f"status is not one of {', '.join(OUTCOMES)}"
    return VcJob(
        file=file,
        line=line,
        vc=_text(fields.get("vc")).strip(),
        submit_ms=wall_ms(_text(fields.get("submitted_time"))),
        duration_ms=run.duration_ms,
        gpus=run.gpus,
        outcome=outcome or "finished",
        fault=fault,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What the attempts of a job come to; a fault says why they come to nothing."""

    gpus: int = 0
    duration_ms: int = 0
    fault: str = ""


def _run(fields: dict[str, object]) -> _Run:
    attempts = fields.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(each, dict) for each in attempts):
        return _Run(fault="attempts is not a list of attempts")
    if not attempts:
        return _Run(fault="it never ran: no attempts")
    gpus = _gpus(attempts[0])
    if not 1 <= gpus <= MAX_GPUS:
        return _Run(fault="no GPUs in the first attempt")
    if _text(attempts[-1].get("end_time")) in NO_TIME:
        return _Run(fault="still running at the end of the trace")
    duration_ms = 0
    for attempt in attempts:
        start_ms, end_ms = (wall_ms(_text(attempt.get(k))) for k in ("start_time", "end_time"))
        if start_ms is None or end_ms is None:
            return _Run(fault="an attempt without a readable start or end")
        if end_ms < start_ms:
            return _Run(fault="an attempt ends before it starts")
        duration_ms += end_ms - start_ms
    if not duration_ms:
        return _Run(fault="duration is not a positive number of seconds")
    return _Run(gpus=gpus, duration_ms=duration_ms)


def _gpus(attempt: dict[str, object]) -> int:
    detail = attempt.get("detail")
    parts = detail if isinstance(detail, list) else []
    held = [part.get("gpus") for part in parts if isinstance(part, dict)]
    return sum(len(gpus) for gpus in held if isinstance(gpus, list))


def _text(value: object) -> str:
    """A text as it is; null, what cannot be written in UTF-8 and whatever else is none."""
    if not isinstance(value, str):
        return ""
    return "" if _LONE_SURROGATE.search(value) else value
