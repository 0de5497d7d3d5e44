"""A spec that has been read: its model, and the place in the file of everything in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from specs.errors import SpecFault, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specs.document import Document
    from specs.models.scenario import ClusterSpec
    from specs.places import Path

_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class LoadedSpec:
    """A spec with its positions.

    Parameters
    ----------
    spec
        The model.
    document
        The file it came from.
    folder
        What the topology files that it names are relative to.
    damaged
        Paths at, above or below which something is wrong already: what is left of such an object
        proves nothing, so checks between objects leave it alone. Empty in a sound spec.
    kept
        List (path in the file) to the entries that are left of it, where some were left out.
    """

    spec: ClusterSpec
    document: Document
    folder: FilePath = FilePath()
    damaged: frozenset[Path] = frozenset()
    kept: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Name of the file, for messages."""
        return self.document.file

    def origin(self, path: Path) -> Path:
        """Path in the file of what stands at `path` in the model."""
        if not self.kept:
            return path
        origin: Path = ()
        for step in path:
            if isinstance(step, int) and origin in self.kept:
                step = self.kept[origin][step]
            origin = (*origin, step)
        return origin

    def is_damaged(self, path: Path) -> bool:
        """Whether the object at `path` of the model, or anything inside it, was at fault."""
        return bool(self.damaged) and self.origin(path) in self.damaged

    def lost_names(self, *sections: Path) -> bool:
        """Whether a list lost entries, or an entry its name: references to it prove nothing."""
        lists = set(sections)
        return any(
            path in self.kept or (path in self.damaged and not self.document.value(path))
            for path in lists
        ) or any(
            path[:-2] in lists and path[-1] in ("name", "count", "job") for path in self.damaged
        )

    def fault(
        self,
        path: Path,
        rule: str,
        hint: str = "",
        *,
        value: object = _MISSING,
        key: bool = False,
    ) -> SpecFault:
        """A fault at `path` of the model; `key` points at the key instead of the value."""
        origin = self.origin(path)
        line, column = self.document.place(origin, key=key)
        if value is _MISSING:
            value = self.document.value(origin)
        return SpecFault(
            file=self.file,
            line=line,
            column=column,
            path=self.document.words(origin),
            value=shown(value) if value is not None else "",
            rule=rule,
            hint=hint,
        )
