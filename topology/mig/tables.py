"""The MIG profiles of every supported GPU model, read from ``profiles.json``.

A GPU is a row of memory slots; an instance is an interval on it. Where an interval may begin is a
list for each profile, as ``nvidia-smi mig -lgipp`` prints it. Two traps are why the table is keyed
as it is: names are rounded and mean different things on different cards (``1g.10gb`` takes two
slots of an A100-40GB and one of an H100-80GB), and ids of instances are not slots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

from topology.errors import UnknownMigModelError, UnknownMigProfileError
from topology.hardware import GPU_MODELS, gpu_model

Engines = Literal["none", "plain", "media", "all"]
"""Media engines of a profile: none, those that every slice brings along, beside them the GPU's
single JPEG/OFA pair (``+me``), or every engine of the GPU (``+me.all``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of instance on one GPU model.

    Parameters
    ----------
    name
        As the driver prints it, e.g. ``1g.10gb+me``.
    family
        The same kind on every model of the grid: ``1g``, ``1g-double``, ``1g+me``, ``2g``.
    smi_id
        What ``nvidia-smi mig -cgi`` takes.
    nvml_id
        The same profile in NVML's own numbers.
    compute
        Compute slices.
    size
        Memory slots.
    starts
        Legal first slots, ascending.
    most
        Most instances of it on one GPU.
    base
        Whether it is one of the plain profiles, without extra memory or media engines.
    memory_mib
        Least usable memory that was seen, MiB; estimated from its slots where none was.
    sm
        Streaming multiprocessors, None where they were not seen.
    since
        First driver branch that has it, 0 where it came with the model.
    """

    name: str
    family: str
    smi_id: int
    nvml_id: int
    compute: int
    size: int
    starts: tuple[int, ...]
    most: int
    base: bool
    engines: Engines
    memory_mib: int
    sm: int | None = None
    since: int = 0

    def mask(self, start: int) -> int:
        """The slots of an instance that begins at `start`, as bits."""
        return ((1 << self.size) - 1) << start


@dataclass(frozen=True, kw_only=True)
class MigTable:
    """All profiles of one GPU model. Equal tables are the same object.

    Parameters
    ----------
    model
        Id of the table; models of one chip and memory size share it.
    slots, compute
        Memory slots and compute slices of the whole GPU.
    media
        Instances with ``+me`` that one GPU can have.
    apart
        Pairs of families that may not be on one GPU together.
    evidence
        ``captured`` from a real GPU, ``tabulated`` by independent sources, or ``inferred``.
    """

    model: str
    slots: int
    compute: int
    memory_gb: int
    profiles: tuple[Profile, ...]
    media: int = 1
    apart: tuple[frozenset[str], ...] = ()
    aliases: Mapping[str, str]
    evidence: str = "captured"
    architecture: str = ""
    pci_device_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.model, self.profiles, self.media, self.apart))

    @cached_property
    def by_name(self) -> Mapping[str, Profile]:
        """Profiles by the name that the driver prints."""
        return {profile.name: profile for profile in self.profiles}

    @property
    def base(self) -> tuple[Profile, ...]:
        """The plain profiles."""
        return tuple(profile for profile in self.profiles if profile.base)

    def profile(self, name: str) -> Profile:
        """The profile of that name.

        Understood are also what older drivers print (``7g.79gb``), the Kubernetes resource
        (``nvidia.com/mig-1g.5gb.me``) and the name without regard to case.

        Raises
        ------
        UnknownMigProfileError
            This model has no such profile; the error says which model has, and what is near.
        """
        plain = name.strip().lower().removeprefix("nvidia.com/").removeprefix("mig-")
        for written in (plain, plain.replace("gb.me", "gb+me"), plain.replace("gb.gfx", "gb+gfx")):
            found = self.by_name.get(self.aliases.get(written, written))
            if found is not None:
                return found
        raise UnknownMigProfileError(
            name, self.model, tuple(self.by_name), _near(self, plain), _elsewhere(plain)
        )

    def at_least(self, memory_mib: int, compute: int = 0) -> tuple[Profile, ...]:
        """Profiles with at least this much, of those with equal engines only the smallest ones.

        A profile is left out where another one that is enough takes no more slots and no more
        compute slices. Only profiles without special engines serve a request by size.
        """
        enough = [
            profile
            for profile in self.profiles
            if profile.engines == "plain"
            and "+" not in profile.family
            and profile.memory_mib >= memory_mib
            and profile.compute >= compute
        ]
        return tuple(p for p in enough if not any(_smaller(other, p) for other in enough))

    def under_driver(self, branch: int) -> MigTable:
        """The table as a driver of that branch has it (470, 510, 525, ...)."""
        apart = _apart(_facts()["models"][self.model]["grid"], branch)
        known = tuple(profile for profile in self.profiles if profile.since <= branch)
        return replace(self, profiles=known, apart=apart)


def _smaller(one: Profile, other: Profile) -> bool:
    mine, its = (one.size, one.compute), (other.size, other.compute)
    return mine != its and mine[0] <= its[0] and mine[1] <= its[1]


@cache
def _facts() -> dict[str, Any]:
    text = files("topology.mig").joinpath("profiles.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def supported() -> tuple[str, ...]:
    """Canonical names of the GPU models that can be cut, in the order of the catalogue."""
    tables = _facts()["models"]
    return tuple(name for name, model in GPU_MODELS.items() if model.mig_table in tables)


def mig_table(model: str) -> MigTable:
    """The profiles of a GPU model, by any name of it or by the id of its table.

    Raises
    ------
    UnknownMigModelError
        There is no such model, it cannot be cut, or its placements are not known.

    Examples
    --------
    >>> table = mig_table("H100-80GB")
    >>> table.slots, table.compute, [profile.name for profile in table.base]
    (8, 7, ['1g.10gb', '2g.20gb', '3g.40gb', '4g.40gb', '7g.80gb'])
    """
    known = gpu_model(model)
    identity = model.strip().lower() if known is None else known.mig_table
    facts = _facts()
    if identity in facts["refused"]:
        why = f"its layouts are not supported: {facts['refused'][identity]}"
        raise UnknownMigModelError(model, why)
    if identity in facts["models"]:
        return _table(identity)
    if known is not None:
        raise UnknownMigModelError(model, "it cannot be cut into MIG instances")
    names = supported()
    folded = {name.lower(): name for name in names}
    close = get_close_matches(model.lower(), folded, n=3)
    raise UnknownMigModelError(
        model, "no GPU model has this name", names, tuple(folded[name] for name in close)
    )


def mig_table_or_none(model: str | None) -> MigTable | None:
    """The profiles of a GPU model; None where it has none that are known."""
    if model is None:
        return None
    try:
        return mig_table(model)
    except UnknownMigModelError:
        return None


@cache
def _table(identity: str) -> MigTable:
    facts = _facts()
    row = facts["models"][identity]
    grid = facts["grids"][row["grid"]]
    profiles = tuple(
        Profile(
            name=name,
            family=kind["family"],
            smi_id=kind["id"],
            nvml_id=kind["nvml"],
            compute=kind["compute"],
            size=kind["size"],
            starts=tuple(kind["starts"]),
            most=kind["max"],
            base=kind["base"],
            engines=kind["engines"],
            memory_mib=memory_mib or _estimated_mib(row["memory_gb"], kind["size"], grid["slots"]),
            sm=sm,
            since=kind.get("since", 0),
        )
        for kind, name, memory_mib, sm in zip(
            grid["profiles"], row["names"], row["memory_mib"], row["sm"], strict=True
        )
    )
    return MigTable(
        model=identity,
        slots=grid["slots"],
        compute=grid["compute"],
        memory_gb=row["memory_gb"],
        profiles=profiles,
        aliases=row["aliases"],
        evidence=row["evidence"],
        architecture=row["architecture"],
        pci_device_ids=tuple(row["pci_device_ids"]),
        sources=tuple(row["sources"]),
    )


def _estimated_mib(memory_gb: int, size: int, slots: int) -> int:
    """Of the named memory about a tenth is gone on every card that was seen; never more is said."""
    return memory_gb * 1024 * size * 9 // (slots * 10)


def _apart(grid: str, branch: int) -> tuple[frozenset[str], ...]:
    pairs: Iterable[Mapping[str, Any]] = _facts()["grids"][grid].get("apart", ())
    return tuple(frozenset(pair["families"]) for pair in pairs if branch < pair["before"])


def _near(table: MigTable, name: str) -> tuple[str, ...]:
    """Profiles with as many compute slices, and those with a name that looks like it."""
    family = name.partition(".")[0]
    alike = [
        p.name for p in table.profiles if p.name.startswith(f"{family}.") and "+" not in p.name
    ]
    return tuple(dict.fromkeys([*alike, *get_close_matches(name, table.by_name)]))[:3]


def _elsewhere(name: str) -> str:
    """What the name means on the models that do have it."""
    meanings: dict[tuple[str, int, int], list[str]] = {}
    for model in supported():
        table = _table(str(GPU_MODELS[model].mig_table))
        found = table.by_name.get(table.aliases.get(name, name))
        if found is not None:
            key = (found.family, found.size, table.slots)
            meanings.setdefault(key, []).append(model)
    said = [
        f"on {models[0]}{' and others' if len(models) > 1 else ''} it is the {family}, "
        f"{size} of {slots} memory slots"
        for (family, size, slots), models in meanings.items()
    ]
    return "; ".join(said)
