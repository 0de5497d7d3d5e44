"""Where scenarios come from, in a form that can be sent to another process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from simulator.scenario import Scenario
from simulator.traces.openb import OpenbTrace, read_openb
from simulator.traces.synthetic import names_seed


class Source(Protocol):
    """What a sweep replays: it can be pickled, and gives a scenario for each seed."""

    @property
    def name(self) -> str:
        """What it is called in tables and folders."""
        ...

    @property
    def draws(self) -> bool:
        """Whether another seed gives other jobs, or another order of them."""
        ...

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed.

        Raises
        ------
        simulator.traces.table.TraceError
            A trace cannot be used.
        """
        ...

    def fingerprint(self) -> str:
        """Equal for sources with the same content."""
        ...


@dataclass(frozen=True, slots=True)
class FixedSource:
    """A scenario that is there already, the same for every seed.

    `content` is what it was made of; sources of the same content are equal.
    """

    given: Scenario = field(compare=False)
    content: str

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.given.name

    @property
    def draws(self) -> bool:
        """The scenario is there already."""
        return False

    def scenario(self, seed: int) -> Scenario:
        """The scenario."""
        return self.given

    def fingerprint(self) -> str:
        """Hash of what it was made of."""
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A published trace in a folder (or a file), or a synthetic one.

    Parameters
    ----------
    kind
        ``openb``, ``philly``, ``helios``, ``acme`` or ``synthetic``.
    place
        The folder; for ``synthetic`` its recipe.
    part
        Workload of openb, VC of Philly.
    nodes
        Nodes of a Philly VC, instead of those that the trace says.
    since, until
        Window of submissions of Philly, ``YYYY-MM-DD``.
    """

    kind: str
    place: str
    part: str | None = None
    nodes: int | None = None
    since: str | None = None
    until: str | None = None

    @property
    def name(self) -> str:
        """Kind and part."""
        if self.kind == "synthetic":
            return f"synthetic {self.place}" if self.place else "synthetic"
        part = self.part or ("default" if self.kind == "openb" else None)
        return f"{self.kind} {part}" if part else self.kind

    @property
    def draws(self) -> bool:
        """Openb in any order, and jobs that are drawn, unless the recipe has the seed."""
        return self.kind == "openb" or (self.kind == "synthetic" and not names_seed(self.place))

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed: only openb and synthetic traces look at it."""
        if self.kind == "openb":
            return _openb_scenario(self, seed)
        return _read(self, seed if self.kind == "synthetic" else 0)

    def fingerprint(self) -> str:
        """Hash of what it was asked for, and of the files that it may read."""
        return _fingerprint(self)


@lru_cache(maxsize=64)
def _fingerprint(source: TraceSource) -> str:
    digest = hashlib.sha256(repr(source).encode())
    if source.kind != "synthetic":
        for path in _files(Path(source.place)):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file() and path.name.partition(".")[2] in ("csv", "csv.gz", "json"):
                yield path


@lru_cache(maxsize=2)
def _openb(source: TraceSource) -> OpenbTrace:
    return read_openb(Path(source.place), source.part or "default")


@lru_cache(maxsize=2)
def _openb_scenario(source: TraceSource, seed: int) -> Scenario:
    # Kept for the next policy: with it, what its policies have in common is worked out once.
    return _openb(source).scenario(seed)


@lru_cache(maxsize=4)
def _read(source: TraceSource, seed: int) -> Scenario:
    from simulator.traces.acme import read_acme
    from simulator.traces.helios import read_helios
    from simulator.traces.philly import read_philly
    from simulator.traces.synthetic import synthetic

    place = Path(source.place)
    match source.kind:
        case "philly":
            return read_philly(place, source.part, source.nodes, source.since, source.until)
        case "helios":
            return read_helios(place)
        case "acme":
            return read_acme(place)
        case _:
            return synthetic(source.place, seed)
