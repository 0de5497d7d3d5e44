"""Why a Slurm job cannot start whatever is free, and what of its wishes a spec cannot say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from specs.importers.slurm.nodes import gres
from specs.importers.slurm.tres import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specs.importers.fields import Fields

USUAL = ("", "None", "Resources", "Priority", "Nodes")
"""Reasons of jobs that wait for room."""
REASONS = (
    ("JobHeld", "held"),
    ("Dependency", "waiting for other jobs"),
    ("BeginTime", "not to start before its time"),
    ("Assoc", "at a limit of their account or QOS"),
    ("QOS", "at a limit of their account or QOS"),
    ("MaxMemPerLimit", "at a limit of their account or QOS"),
    ("JobArrayTaskLimit", "at the limit of their array"),
    ("Partition", "not let in by their partition"),
    ("Licenses", "waiting for licenses"),
    ("Reservation", "waiting for a reservation"),
    ("BadConstraints", "not to be met by any node"),
    ("InvalidAccount", "of an account or a QOS that is not valid"),
    ("InvalidQOS", "of an account or a QOS that is not valid"),
    ("AccountNotAllowed", "of an account or a QOS that is not valid"),
)
"""How a reason begins, and what it says of the job."""
WISHES = (
    ("licenses", "licenses"),
    ("resv_name", "reservation"),
    ("reservation", "reservation"),
    ("tres_per_socket", "GPUs by socket"),
    ("burst_buffer", "burst buffers"),
    ("network", "network"),
)
_WORD = re.compile(r"[A-Za-z]*")


def held(entry: Fields) -> str:
    """Why a job cannot start, whatever is free; empty where it can."""
    reason = entry.text("state_reason")
    if entry.flag("hold"):
        return "held"
    if entry.text("dependency"):
        return "waiting for other jobs"
    return next((said for start, said in REASONS if reason.startswith(start)), "")


def unsaid(entry: Fields) -> Iterator[str]:
    """What a job asks for that a spec has no word for."""
    for name in gres(entry.text("tres_per_node"))[1]:
        if name not in SHARED:
            yield f"gres {name}"
    for key, word in WISHES:
        if entry.text(key):
            yield word
    # Until Slurm 24.05 it had another name.
    if number_of(entry, "required_switches") or number_of(entry, "minimum_switches"):
        yield "how many switches are between its nodes"
    if number_of(entry, "core_spec") and entry.data.get("core_spec") != 0xFFFE:
        yield "cores kept for the system"
    if entry.data.get("contiguous") is True:
        yield "nodes next to each other"
    if "..." in entry.text("array_task_string"):
        yield "tasks of an array beyond those that its list names (...)"
    if "%" in entry.text("array_task_string") or number_of(entry, "array_max_tasks"):
        yield "how many tasks of an array may run at once (%): all may start"
    if number_of(entry, "het_job_id"):
        yield "the other parts of its heterogeneous job: each part starts by itself"
    match = _WORD.match(entry.text("state_reason"))
    reason = match[0] if match else ""
    if reason not in USUAL and not held(entry):
        yield f"its reason to wait, {reason}"
    shared = entry.data.get("shared") or entry.data.get("exclusive")
    words = shared if isinstance(shared, list) else [shared]
    if any(str(word).lower() in ("none", "exclusive", "true") for word in words if word):
        yield "nodes of their own (exclusive)"


def number_of(fields: Fields, key: str) -> int | None:
    """A number, bare or as ``{set, infinite, number}``."""
    value: Any = fields.data.get(key)
    if isinstance(value, dict):
        inner = fields.map(key)
        if not inner.flag("set") or inner.flag("infinite"):
            return None
        return inner.whole("number", 0, 0, 2**53)
    return fields.whole(key, 0, 0, 2**53) if value is not None else None
