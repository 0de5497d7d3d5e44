"""``squeue --json`` to records. Versions differ: numbers may be bare or ``{set, number}``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from specs.errors import SpecErrors, SpecFault
from specs.importers.fields import Fields, ObjectFault, Place
from specs.importers.slurm.hostlist import HostlistError, hosts
from specs.importers.slurm.nodes import gres, total
from specs.importers.slurm.reasons import held, number_of, unsaid
from specs.importers.slurm.tres import SHARED, amounts, gpus_in, is_mig, shared_in
from specs.models.base import MAX_COUNT
from specs.models.quantity import MIB, QuantityError

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDICES = re.compile(r"gpu(?::([\w.+-]*[A-Za-z][\w.+-]*))?:\d+\(IDX:([\d,-]+)\)", re.ASCII)
_PARTS = re.compile(
    r"(?:shard|mps)(?::[\w.+-]+)?:\d+\((\d{1,9}/\d{1,9}(?:,\d{1,9}/\d{1,9})*)\)", re.ASCII
)
_TASKS = re.compile(r"[\d,:%-]+", re.ASCII)
RUNNING = frozenset(("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING"))
MAX_TASKS = 100_000
MAX_INFINITE = 0xFFFFFFFE


@dataclass(frozen=True, slots=True, kw_only=True)
class OnNode:
    """What a job holds of one node.

    `gpus` is None where only a count is known; `parts` are shards and the like by kind, where it is
    not known of which GPUs they are.
    """

    name: str
    cpus: Fraction
    memory_mib: Fraction
    count: int
    gpus: tuple[int, ...] | None = None
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job that runs or waits.

    Parameters
    ----------
    replicas, per
        How many alike parts it has, and what each is on: a ``node`` of its own, or a ``task``; of a
        ``job`` that asks for GPUs in all there may be more.
    gpu_types
        Types that it asks for, empty: any.
    parts
        Shards and the like that each part of it asks for, by kind.
    copies
        Tasks of an array that this entry stands for.
    held
        Why it cannot start, whatever is free; empty where it can.
    asks_mig
        Whether it asks for MIG instances.
    unsaid
        What it asks for that a spec has no word for.
    """

    id: str
    name: str
    queue: str
    running: bool
    priority: int
    submitted_s: int
    replicas: int
    per: str
    gpus: int
    gpu_types: tuple[str, ...]
    parts: tuple[tuple[str, int], ...]
    cpu: Fraction
    memory_mib: Fraction
    partitions: tuple[str, ...]
    features: str
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    copies: int = 1
    held: str = ""
    asks_mig: bool = False
    on: tuple[OnNode, ...] = ()
    ends_in_s: int | None = None
    unsaid: tuple[str, ...] = ()


def read_jobs(text: str, file: str) -> tuple[SlurmJob, ...]:
    """Jobs of ``squeue --json`` that run or wait, in its order.

    Raises
    ------
    SpecErrors
        The text is no JSON or has no list of jobs, fields have the wrong type, or a job has no id
        or that of another; all jobs at fault at once.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        hint = "Write it with: squeue --json"
        raise SpecErrors([SpecFault(file=file, line=line, rule="no JSON", hint=hint)]) from error
    faults: list[SpecFault] = []
    jobs: dict[str, SlurmJob] = {}
    try:
        top = Fields(document, Place(file, 1), "squeue")
        entries = list(top.maps("jobs"))
        said = [error.text("description") or error.text("error") for error in top.maps("errors")]
        if not top.has("jobs") or (said and not entries):
            words = next(iter(said), None)
            raise top.fault(
                "jobs", "there is no list of jobs", words, "Write it with: squeue --json"
            )
        now = number_of(top, "last_update")
    except ObjectFault as error:
        raise SpecErrors([error.fault]) from error
    for entry in entries:
        try:
            job = _job(entry, now)
            if job is not None and jobs.setdefault(job.id, job) is not job:
                hint = "List the jobs of one cluster, once"
                raise entry.fault("job_id", "the id of a job is used twice", job.id, hint)
        except ObjectFault as error:
            faults.append(error.fault)
    if faults:
        raise SpecErrors(faults[:100])
    return tuple(jobs.values())


def _job(entry: Fields, now: int | None) -> SlurmJob | None:
    states = {entry.text("job_state")} if isinstance(entry.data.get("job_state"), str) else set()
    states = states or set(entry.words("job_state"))
    running = bool(states & RUNNING)
    if not running and "PENDING" not in states:
        return None
    number = number_of(entry, "job_id")
    if not number:
        raise entry.fault("job_id", "a job has an id, from 1", entry.data.get("job_id"))
    array, task = number_of(entry, "array_job_id"), number_of(entry, "array_task_id")
    job_id = f"{array}_{task}" if array and task is not None else str(number)
    nodes = _parts(entry, "node_count")
    tres = _tres(entry, "tres_alloc_str" if running else "tres_req_str")
    per, replicas, gpus, types = _gpus(entry, nodes, tres)
    end = number_of(entry, "end_time")
    return SlurmJob(
        id=job_id,
        name=str(entry.data.get("name") or ""),  # anything at all may be in it
        queue=entry.text("account"),
        running=running,
        priority=number_of(entry, "priority") or 0,
        submitted_s=number_of(entry, "submit_time") or 0,
        replicas=replicas,
        per=per,
        gpus=gpus,
        gpu_types=types,
        parts=tuple(
            (kind, -(-count // replicas)) for kind in SHARED if (count := shared_in(tres, kind))
        ),
        cpu=tres.get("cpu", Fraction(number_of(entry, "cpus") or 0)) / replicas,
        memory_mib=tres.get("mem", Fraction(0)) / MIB / replicas,
        partitions=tuple(part for part in entry.text("partition").split(",") if part),
        features=entry.text("features"),
        required=_hosts(entry, "required_nodes"),
        excluded=_hosts(entry, "excluded_nodes"),
        copies=1 if running else _copies(entry),
        held=held(entry),
        asks_mig=any(is_mig(name) for name in types)
        or any(is_mig(key) for key in (name.partition("gpu:")[2] for name in tres)),
        on=tuple(_held_by_node(entry, tres)) if running else (),
        ends_in_s=end - now if running and end and now and now < end < MAX_INFINITE else None,
        unsaid=tuple(unsaid(entry)),
    )


def _gpus(
    entry: Fields, nodes: int, tres: dict[str, Fraction]
) -> tuple[str, int, int, tuple[str, ...]]:
    """Kind and number of alike parts, GPUs of each, and their types."""
    tasks = _parts(entry, "tasks")
    for key, per, replicas in (("tres_per_task", "task", tasks), ("tres_per_node", "node", nodes)):
        found, _ = gres(entry.text(key).replace("gpu=", "gpu:"))
        if found:
            types = tuple(sorted({name for name, _ in found if name}))
            return per, max(1, replicas), total(found), types
    whole = Fraction(gpus_in(tres))
    types = tuple(
        sorted(key.removeprefix("gres/gpu:") for key in tres if key.startswith("gres/gpu:"))
    )
    by_job = "gpu" in entry.text("tres_per_job")
    return "job" if by_job else "node", nodes, int(-(-whole // nodes)), types


def _held_by_node(entry: Fields, tres: dict[str, Fraction]) -> Iterator[OnNode]:
    """What a running job holds of each node: by its own word, else evenly."""
    names = _hosts(entry, "nodes")
    resources = entry.map("job_resources")
    told: dict[str, tuple[Fraction, Fraction]] = {}
    inner = resources.data.get("nodes")
    if isinstance(inner, dict):
        for part in resources.map("nodes").maps("allocation"):
            cpus = number_of(part.map("cpus"), "count") or 0
            memory = number_of(part.map("memory"), "allocated") or 0
            told[part.text("name")] = (Fraction(cpus), Fraction(memory))
    else:
        for part in resources.maps("allocated_nodes"):
            cpus = number_of(part, "cpus_used") or number_of(part, "cpus") or 0
            memory = number_of(part, "memory_allocated") or 0
            told[part.text("nodename")] = (Fraction(cpus), Fraction(memory))
    details = entry.words("gres_detail")
    gpus = gpus_in(tres)
    shared = {kind: count for kind in SHARED if (count := shared_in(tres, kind))}
    even = (tres.get("cpu", Fraction(0)), tres.get("mem", Fraction(0)) / MIB)
    for at, name in enumerate(names):
        cpus_of, memory_of = told.get(name, (even[0] / len(names), even[1] / len(names)))
        detail = details[at] if len(details) == len(names) else ""
        named = _indices(detail)
        in_parts = _in_parts(detail) if shared else None
        if in_parts is not None:
            named = tuple(dict.fromkeys((*(named or ()), *in_parts)))
        share = gpus // len(names) + (at < gpus % len(names))
        count = len(named) if named is not None else share
        parts = {kind: -(-number // len(names)) for kind, number in shared.items()}
        yield OnNode(
            name=name,
            cpus=cpus_of,
            memory_mib=memory_of,
            count=count,
            gpus=named,
            parts=tuple(parts.items()) if in_parts is None else (),
        )


def _in_parts(text: str) -> tuple[int, ...] | None:
    """GPUs that a job has a part of, in ``shard:h100:12(8/8,4/8)``; None where it has none."""
    found = _PARTS.findall(text)
    used = [
        at
        for pairs in found
        for at, pair in enumerate(pairs.split(","))
        if int(pair.partition("/")[0])
    ]
    return tuple(dict.fromkeys(used)) if found else None


def _indices(text: str) -> tuple[int, ...] | None:
    """Indices of GPUs in ``gpu:h100:4(IDX:0-2,5)``; None where it has none."""
    found = [indices for kind, indices in _INDICES.findall(text) if not is_mig(kind)]
    if not found:
        return None
    numbers: list[int] = []
    for part in ",".join(found).split(","):
        first, _, last = part.partition("-")
        if (
            not first.isdigit()
            or len(first) > 4
            or (last and (not last.isdigit() or len(last) > 4))
        ):
            return None
        numbers += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(numbers))


def _copies(entry: Fields) -> int:
    """Tasks of a pending array: ``1-10:2%4`` is five. Slurm cuts long lists: ``1,3,...``."""
    text = entry.text("array_task_string").partition("%")[0].partition("...")[0].rstrip(",-")
    if not text or not _TASKS.fullmatch(text):
        return 1
    count = 0
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if not first.isdigit() or len(span) > 20 or (last and not last.isdigit()):
            return 1
        every = int(step) if step.isdigit() and len(step) < 10 and int(step) else 1
        count += max(0, int(last or first) - int(first)) // every + 1
    return min(max(1, count), MAX_TASKS)


def _hosts(entry: Fields, key: str) -> tuple[str, ...]:
    text = entry.data.get(key)
    if text is None or text == "":
        return ()
    if isinstance(text, list):
        text = ",".join(entry.words(key))
    if not isinstance(text, str):
        raise entry.fault(key, "a list of hosts is wanted here", text)
    try:
        return hosts(text)
    except HostlistError as error:
        raise entry.fault(key, str(error)) from error


def _tres(entry: Fields, key: str) -> dict[str, Fraction]:
    """Amounts of ``cpu=8,mem=64G,gres/gpu=4``."""
    text = entry.data.get(key)
    try:
        return amounts(text) if isinstance(text, str) else {}
    except QuantityError as error:
        raise entry.fault(key, error.rule, text) from error


def _parts(entry: Fields, key: str) -> int:
    """How many alike parts a job has: at least one, and no more than a spec allows."""
    count = number_of(entry, key) or 1
    if count > MAX_COUNT:
        raise entry.fault(key, f"at most {MAX_COUNT}", count)
    return count
