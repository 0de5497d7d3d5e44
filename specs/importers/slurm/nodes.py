"""``scontrol show node -o`` to records: one node on each line."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from specs.errors import SpecErrors, SpecFault, shown
from specs.importers.slurm.states import CLOSED, DOWN, OPEN, states
from specs.importers.slurm.tres import SHARED, amounts, is_mig
from specs.models.base import MAX_NODE_GPUS
from specs.models.quantity import MIB, QuantityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z_]*)=")
_GPU = re.compile(r"(?:^|,)gpu(?::([\w.+-]*[A-Za-z][\w.+-]*))?:(\d{1,6})", re.ASCII)
_PARTS = re.compile(r"(?:^|,)(shard|mps)(?::[\w.+-]*[A-Za-z][\w.+-]*)?:(\d{1,9})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)

MAX_WHOLE = 10**12
"""Of any amount; as MiB that is what a spec allows."""

WAY_OUT = "Write it with: scontrol show node -o"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node.

    `gpus` has type (maybe empty) and number of each kind, in the order of Gres; `mig` the same of
    MIG instances; `parts` shards and the like by kind; `allocated` what jobs hold of it, as the
    node tells; `strange_states` words of its state that say nothing here.
    """

    name: str
    cpus: int
    cpus_usable: int
    memory_mib: int
    memory_reserved_mib: int
    gpus: tuple[tuple[str, int], ...] = ()
    mig: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    allocated: Mapping[str, Fraction] = field(default_factory=dict)
    other_gres: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    ready: bool = True
    cordoned: bool = False
    reserved: bool = False
    powered_down: bool = False
    strange_states: tuple[str, ...] = ()


def read_nodes(text: str, file: str) -> tuple[SlurmNode, ...]:
    """Nodes of ``scontrol show node -o``.

    Raises
    ------
    SpecErrors
        Lines without NodeName, numbers that are none, names used twice; all at once.
    """
    faults: list[SpecFault] = []
    strange: list[tuple[int, str]] = []
    nodes: dict[str, SlurmNode] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if not _NAME.fullmatch(_fields(line).get("NodeName", "")):
            strange.append((number, line.strip()))
            continue
        try:
            node = _node(line)
        except ValueError as error:
            faults.append(SpecFault(file=file, line=number, rule=str(error), hint=WAY_OUT))
            continue
        if node.name in nodes:
            rule = "the name of a node is used twice"
            faults.append(SpecFault(file=file, line=number, value=shown(node.name), rule=rule))
        nodes[node.name] = node
    if strange:
        faults.insert(0, _strange(strange, file))
    if not nodes and not faults:
        faults.append(SpecFault(file=file, rule="there is no node in it", hint=WAY_OUT))
    if faults:
        raise SpecErrors(faults[:100])
    return tuple(nodes.values())


def _strange(lines: Sequence[tuple[int, str]], file: str) -> SpecFault:
    """One fault for all lines that are no node: a wrong file has hundreds of them."""
    number, line = lines[0]
    more = f"; nor are {len(lines) - 1:,} more lines" if len(lines) > 1 else ""
    rule = f"is no node, which begins with NodeName= and a name{more}"
    return SpecFault(file=file, line=number, value=shown(line), rule=rule, hint=WAY_OUT)


def _node(line: str) -> SlurmNode:
    fields = _fields(line)
    name = fields["NodeName"]
    cpus = _whole(fields, "CPUTot")
    usable = _whole(fields, "CPUEfctv", cpus)
    kinds, others = gres(fields.get("Gres", ""))
    gpus = tuple((kind, count) for kind, count in kinds if not is_mig(kind))
    parts: Counter[str] = Counter()
    for match in _PARTS.finditer(_plain(fields.get("Gres", ""))):
        parts[match[1]] += int(match[2])
    if strange := _no_count(fields.get("Gres", "")):
        raise ValueError(f"{name}: a number of GPUs is wanted in Gres: {shown(strange)}")
    if sum(count for _, count in gpus) > MAX_NODE_GPUS:
        raise ValueError(f"{name}: a node has at most {MAX_NODE_GPUS} GPUs")
    words = states(fields.get("State", "UNKNOWN"))
    memory = _whole(fields, "RealMemory")
    return SlurmNode(
        name=name,
        cpus=cpus,
        cpus_usable=min(usable, cpus),
        memory_mib=memory,
        memory_reserved_mib=min(_whole(fields, "MemSpecLimit", 0), memory),
        gpus=gpus,
        mig=tuple((kind, count) for kind, count in kinds if is_mig(kind)),
        parts=tuple(parts.items()),
        allocated=_allocated(fields),
        other_gres=tuple(name for name in others if name not in SHARED),
        features=_words(fields.get("ActiveFeatures") or fields.get("AvailableFeatures", "")),
        partitions=_words(fields.get("Partitions", "")),
        ready=not words & DOWN,
        cordoned=bool(words & CLOSED),
        reserved="RESERVED" in words,
        powered_down="POWERED_DOWN" in words,
        strange_states=tuple(sorted(words - DOWN - CLOSED - OPEN)),
    )


def _allocated(fields: dict[str, str]) -> dict[str, Fraction]:
    """What jobs hold, by ``AllocTRES``, else CPUs and memory by themselves."""
    try:
        found = amounts(fields.get("AllocTRES", "").replace("(null)", ""))
    except QuantityError as error:
        raise ValueError(f"{fields.get('NodeName')}: AllocTRES: {error}") from error
    found.setdefault("cpu", Fraction(_whole(fields, "CPUAlloc", 0)))
    found.setdefault("mem", Fraction(_whole(fields, "AllocMem", 0) * MIB))
    return found


def _fields(line: str) -> dict[str, str]:
    """Values by key; a value goes on to the next key, as that of Reason has blanks."""
    found = list(_KEY.finditer(line))
    values: dict[str, str] = {}
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(line)
        values.setdefault(match[1], line[match.end() : end].strip())
    return values


def _whole(fields: dict[str, str], key: str, default: int | None = None) -> int:
    text = fields.get(key, "")
    if text in ("", "N/A", "(null)") and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(f"{fields.get('NodeName')}: {key} is no whole number: {shown(text)}")
    if int(text) > MAX_WHOLE:
        raise ValueError(f"{fields.get('NodeName')}: {key} is larger than any cluster: {text}")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if _NAME.fullmatch(word))


def gres(text: str) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """GPUs by type, and names of other resources, of ``gpu:h100:8(S:0-1),nic:2``.

    Examples
    --------
    >>> gres("gpu:h100:8(S:0-1),nic:2"), gres("(null)")
    (((('h100', 8),), ('nic',)), ((), ()))
    """
    plain = _plain(text)
    gpus = tuple((match[1] or "", int(match[2])) for match in _GPU.finditer(plain))
    others = {word.partition(":")[0].partition("=")[0] for word in plain.split(",") if word.strip()}
    return gpus, tuple(sorted(others - {"gpu", "(null)", ""}))


def _plain(text: str) -> str:
    return re.sub(r"\([^)]*\)", "", text).replace("gres/", "").replace("gres:", "")


def _no_count(text: str) -> str:
    """The first entry of a Gres that is about GPUs and does not say how many."""
    plain = re.sub(r"\([^)]*\)", "", text)
    words = [word.strip() for word in plain.split(",")]
    return next((w for w in words if w.partition(":")[0] == "gpu" and not _GPU.fullmatch(w)), "")


def total(gpus: Iterable[tuple[str, int]]) -> int:
    """GPUs of all types."""
    return sum(count for _, count in gpus)
